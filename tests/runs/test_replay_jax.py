"""A run of the JAX engine, replayed here to the bit and over two simulated devices within the tolerance."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from workings.evidence.replay.judge import line_differences
from workings.evidence.verify import verify
from workings.runs import describe, replay
from workings.runs.code_version import CodeVersion
from workings.runs.replay import ReplayRequest, replay_run
from workings.runs.smoke import Smoke
from workings.runs.whole import train_and_evaluate

OVERRIDES = ("checkpoint.keep_last=5", "evaluation.base=false", "evaluation.every_steps=8", "evaluation.samples=0",
             "evaluation.max_new_tokens=8")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight steps on a part of the data, with checkpoints from the fourth on, and its replay at level 3."""
    out = tmp_path_factory.mktemp("runs") / "tiny"
    same = CodeVersion(version="0.1.0", commit="c" * 39 + "d", dirty_diff_sha256="", absent_because="no changes")
    with pytest.MonkeyPatch.context() as patch:  # the checkout may change while the tests run
        for module in (describe, replay):
            patch.setattr(module, "code_version", lambda: same)
        train_and_evaluate("smoke-tiny", out, OVERRIDES, smoke=Smoke(steps=8))
        found = verify(out, level=3, replay=lambda path: replay_run(path, ReplayRequest()).facts)
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert found.level == 3, told
    assert "judged bitwise" in told["replay.steps"]
    assert "equal to the bit" in told["replay.steps"]
    assert told["replay.predictions"].startswith("passed")
    return out


@pytest.mark.slow
def test_over_two_devices_it_is_the_same_within_the_tolerance(
        run: Path, workings: Callable[..., "CompletedProcess[str]"]) -> None:
    done = workings("replay", run, "--json", "--name", "two-devices", "--fsdp", "2", devices=2)
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["verdict"], told["mode"], told["from_step"], told["steps"]) == ("passed", "tolerance", 4, 4)
    assert {"mesh", "device", "variables"} <= set(told["differing"])
    assert told["controls"] == dict.fromkeys(("checkpoint", "learning_rate", "rows", "seed"), True)
    assert told["weights"]["largest_difference"] < 1e-4
    facts = json.loads((run / "replay" / "two-devices" / "replay.json").read_text())
    assert 0 < max(line_differences(line)["loss"] for line in facts["lines"]) < 1e-5, "other sums, the same steps"
    assert verify(run).failed == 0
