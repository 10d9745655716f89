"""The scorer of held-out items during a run with rewards: the recipe's, named by the record and checked with it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import kept_folders
from tests.evidence import reseal
from tests.evidence.verdicts import failed
from tests.runs import rewarded
from workings.record.layout import METRICS
from workings.runs.train_and_evaluate import train_and_evaluate

pytestmark = pytest.mark.children


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with rewards whose held-out items are scored by `exact`."""
    def make(folder: Path) -> None:
        train_and_evaluate(str(rewarded.write(folder / "asked")), folder / "runs/a",
                           overrides=["evaluation.scorer=exact"])

    return kept_folders.copy(make, tmp_path_factory.mktemp("held_out"), "held_out") / "runs/a"


def better_last_look(run: Path) -> None:
    """The last look has another mark, and the score that follows."""
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        marks = "1" + rows[-1]["held_out_right"][1:]
        rows[-1] |= {"held_out_right": marks, "held_out_score": marks.count("1") / len(marks)}
        return rows
    reseal.edit_lines(run / METRICS, change)


def test_a_run_with_its_own_scorer_verifies(honest: Path) -> None:
    assert failed(honest) == set()


def test_another_mark_is_caught(honest: Path, tmp_path: Path) -> None:
    run = shutil.copytree(honest, tmp_path / "a")
    shutil.copy(honest.parent / "attempts.jsonl", tmp_path)
    better_last_look(run)
    reseal.reseal(run)
    assert "consistency.answers" in failed(run)
