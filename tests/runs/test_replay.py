"""Runs of both engines, replayed here to the bit, and within the tolerance under other conditions."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.runs.pinned import pin_code_version
from tests.runs.replayed import CONTROLS, verified_by_replaying
from workings.evidence.replay.comparison import line_differences, wrong_steps
from workings.runs.train_and_evaluate import train_and_evaluate

REPLAY = """
import json, sys
from pathlib import Path
from workings.runs.replay import ReplayRequest, replay_run
request = ReplayRequest(fsdp=int(sys.argv[2]))
print(json.dumps(replay_run(Path(sys.argv[1]), request)))
"""
"""Code of a child that replays a run: its path, and devices or 0 for those recorded."""
OVERRIDES = ("checkpoint.keep_last=5", "evaluation.base=false", "evaluation.every_steps=8", "evaluation.samples=0",
             "evaluation.max_new_tokens=8")


@pytest.mark.parametrize(("words", "fsdp", "options", "differing"), [
    ((), "2", {"devices": 2}, {"mesh", "device", "variables"}),
    (("engine=torch",), "0", {"environment": {"OMP_NUM_THREADS": "2"}}, {"threads", "variables"})])
def test_steps_are_taken_again_to_the_bit_here_and_within_the_tolerance_elsewhere(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_forked: Callable[..., "CompletedProcess[str]"],
        words: tuple[str, ...], fsdp: str, options: dict[str, Any], differing: set[str]) -> None:
    """Eight steps on a part of the data, with checkpoints from the fourth on."""
    run = tmp_path / "runs" / "tiny"
    with monkeypatch.context() as patch:
        pin_code_version(patch)
        train_and_evaluate("smoke-tiny", run, (*words, *OVERRIDES), smoke=8)
        checks = verified_by_replaying(run)
    assert "judged bitwise" in checks["replay.steps"]
    assert "equal to the bit" in checks["replay.steps"]
    assert checks["replay.predictions"].startswith("passed")
    told = json.loads(run_forked("-c", REPLAY, run, fsdp, **options).stdout.splitlines()[-1])
    assert (wrong_steps(told), told["mode"], told["from_step"], len(told["lines"])) == ([], "tolerance", 4, 4)
    assert differing <= set(told["conditions"]["differing"])
    assert {name: control["outside"] for name, control in told["controls"].items()} == dict.fromkeys(CONTROLS, True)
    assert told["weights"]["largest_difference"] < 1e-4
    # Other sums, the same steps: 0 on some processors.
    assert max(line_differences(line)["loss"] for line in told["lines"]) < 1e-5
