"""A real record: a run of a small engine with its evaluation, that of its untrained model, a note, and its list."""

import sys
from pathlib import Path

import pytest

from tests.evidence.walk import ScoringHere, files_of
from tests.runs.pinned import pin_code_version
from tests.runs.runs_helpers import OTHER_PACKAGE, write_recipe
from workings.evidence.notes import write_note
from workings.runs.train_and_evaluate import train_and_evaluate


def trained_files(folder: Path) -> dict[str, bytes]:
    """Files of the record, made in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OTHER_PACKAGE))
        pin_code_version(patch)
        train_and_evaluate(str(write_recipe(folder / "asked")), folder / "runs" / "a")
    sys.modules.pop("other_engine", None)
    write_note(folder / "runs" / "a", {"kaggle_notebook_version": "7"})
    return {name: data for name, data in files_of(folder / "runs").items() if not name.startswith("tensorboard")}


def score_here(patch: pytest.MonkeyPatch) -> None:
    """Score without its own process: the walk verifies a record hundreds of times."""
    patch.setattr("workings.scoring.worker_pool.ScoringProcess", ScoringHere)
