"""A run of the PyTorch engine, replayed here to the bit and with one thread within the tolerance."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from workings.evidence.verify import verify
from workings.runs import describe, replay
from workings.runs.code_version import CodeVersion
from workings.runs.replay import ReplayRequest, replay_run
from workings.runs.smoke import Smoke
from workings.runs.whole import train_and_evaluate

pytest.importorskip("torch")
pytest.importorskip("transformers")
OVERRIDES = ("engine=torch", "checkpoint.keep_last=5", "evaluation.base=false", "evaluation.every_steps=8",
             "evaluation.samples=0", "evaluation.max_new_tokens=8")


@pytest.mark.slow
def test_steps_of_the_second_engine_are_taken_again(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workings: Callable[..., "CompletedProcess[str]"]) -> None:
    run = tmp_path / "runs" / "tiny"
    same = CodeVersion(version="0.1.0", commit="c" * 39 + "d", dirty_diff_sha256="", absent_because="no changes")
    for module in (describe, replay):  # the checkout may change while the tests run
        monkeypatch.setattr(module, "code_version", lambda: same)
    train_and_evaluate("smoke-tiny", run, OVERRIDES, smoke=Smoke(steps=8))
    found = verify(run, level=3, replay=lambda path: replay_run(path, ReplayRequest()).facts)
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert found.level == 3, told
    assert "judged bitwise" in told["replay.steps"]
    assert "equal to the bit" in told["replay.steps"]
    assert told["replay.controls"].startswith("passed")
    assert told["replay.predictions"].startswith("passed")

    done = workings("replay", run, "--json", "--name", "one-thread", environment={"OMP_NUM_THREADS": "1"})
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["verdict"], told["mode"]) == ("passed", "tolerance")
    assert {"threads", "variables"} <= set(told["differing"])
    assert told["controls"] == dict.fromkeys(("checkpoint", "learning_rate", "rows", "seed"), True)
    assert told["weights"]["largest_difference"] < 1e-4
    assert verify(run).failed == 0
