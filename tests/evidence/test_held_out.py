"""The scorer of held-out items during a run with rewards: the recipe's, named by the record and checked with it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import kept_folders
from tests.evidence import reseal
from tests.evidence.verdicts import failed
from tests.runs import rewarded
from workings.evaluation.comparison.held_out_change import held_out_change
from workings.record.layout import EVENTS, METRICS, PREDICTIONS, RECIPE_EVALUATION
from workings.record.reader import RunRecord
from workings.runs.train_and_evaluate import train_and_evaluate

pytestmark = pytest.mark.children


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with rewards whose held-out items are scored by `exact`."""
    def make(folder: Path) -> None:
        train_and_evaluate(str(rewarded.write(folder / "asked")), folder / "runs/a",
                           overrides=["evaluation.scorer=exact"])

    return kept_folders.copy(make, tmp_path_factory.mktemp("held_out"), "held_out") / "runs/a"


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def _say(run: Path, **changes: Any) -> None:
    """Other values in the fact; None takes a key out."""
    facts = RunRecord.open(run).manifest.facts
    held_out = {key: value for key, value in {**facts["held_out"], **changes}.items() if value is not None}
    reseal.edit_manifest(run, facts={**facts, "held_out": held_out})


def better_last_look(run: Path) -> None:
    """The last look has another mark; score and fact are made again."""
    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        marks = "1" + rows[-1]["held_out_right"][1:]
        rows[-1] |= {"held_out_right": marks, "held_out_score": marks.count("1") / len(marks)}
        return rows
    reseal.edit_lines(run / METRICS, change)
    rows = _rows(run / METRICS)
    clusters = [str(row.get("cluster", row["id"])) for row in _rows(run / RECIPE_EVALUATION / PREDICTIONS)]
    found = held_out_change(clusters, rows, _rows(run / EVENTS))
    assert found is not None
    _say(run, **found.facts())


def test_the_record_names_the_recipes_scorer_and_verifies(honest: Path) -> None:
    assert RunRecord.open(honest).manifest.facts["held_out"]["scorer"] == "exact"
    assert failed(honest) == set()


@pytest.mark.parametrize("forge", [lambda run: _say(run, scorer="answer"), better_last_look])
def test_another_scorer_or_another_mark_is_caught(honest: Path, tmp_path: Path, forge: Callable[[Path], None]) -> None:
    run = shutil.copytree(honest, tmp_path / "a")
    shutil.copy(honest.parent / "attempts.jsonl", tmp_path)
    forge(run)
    reseal.reseal(run)
    assert "consistency.facts" in failed(run)


def test_a_record_that_names_no_scorer_still_verifies(honest: Path, tmp_path: Path) -> None:
    run = shutil.copytree(honest, tmp_path / "a")
    shutil.copy(honest.parent / "attempts.jsonl", tmp_path)
    _say(run, scorer=None)
    reseal.reseal(run)
    assert failed(run) == set()
