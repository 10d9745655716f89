"""A short run on a part of the data and its replay to the bit: what the tests of both engines begin with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.runs.pinned import pin_code_version
from workings.evidence.verify import verify
from workings.runs.replay import ReplayRequest, replay_run
from workings.runs.smoke import Smoke
from workings.runs.train_and_evaluate import train_and_evaluate

REPLAY = """
import json, sys
from pathlib import Path
from workings.runs.replay import ReplayRequest, replay_run
request = ReplayRequest(fsdp=int(sys.argv[2]))
print(json.dumps(replay_run(Path(sys.argv[1]), request)))
"""
"""Code of a child that replays a run: its path, and devices or 0 for those recorded."""
CONTROLS = ("checkpoint", "learning_rate", "rows", "seed")
OVERRIDES = ("checkpoint.keep_last=5", "evaluation.base=false", "evaluation.every_steps=8", "evaluation.samples=0",
             "evaluation.max_new_tokens=8")


def verified_by_replaying(run: Path, controls: Sequence[str] = CONTROLS, **request: Any) -> dict[str, str]:
    """Verdict and text of the checks of level 3; none fails, and the ``controls`` differ from the record."""
    found = verify(run, level=3, replay=lambda path, _: replay_run(path, ReplayRequest(**request)))
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert (found.failed, told["replay.steps"][:6], told["replay.controls"][:6]) == (0, "passed", "passed"), told
    for control in controls:
        assert f"{control} (step " in told["replay.controls"]
    return told


def trained_and_replayed(out: Path, *words: str) -> None:
    """Eight steps into ``out``; asserts that a replay verifies them at level 3, equal to the bit."""
    with pytest.MonkeyPatch.context() as patch:
        pin_code_version(patch)
        train_and_evaluate("smoke-tiny", out, (*words, *OVERRIDES), smoke=Smoke(steps=8))
        told = verified_by_replaying(out)
    assert "judged bitwise" in told["replay.steps"]
    assert "equal to the bit" in told["replay.steps"]
    assert told["replay.predictions"].startswith("passed")
