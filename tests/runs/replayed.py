"""Verification at level 3: steps of a run are taken once more."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workings.evidence.verify import verify
from workings.runs.replay import ReplayRequest, replay_run

CONTROLS = ("checkpoint", "learning_rate", "rows", "seed")


def verified_by_replaying(run: Path, controls: Sequence[str] = CONTROLS, **request: Any) -> dict[str, str]:
    """Verdict and text of the checks of level 3; none fails, and the ``controls`` differ from the record."""
    found = verify(run, level=3, replay=lambda path, _: replay_run(path, ReplayRequest(**request)))
    told = {check.id: f"{check.verdict}: {check.text}" for check in found.checks}
    assert (found.failed, told["replay.steps"][:6], told["replay.controls"][:6]) == (0, "passed", "passed"), told
    for control in controls:
        assert f"{control} (step " in told["replay.controls"]
    return told
