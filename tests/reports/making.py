"""Runs that a report is made of."""

from pathlib import Path

from tests import kept_folders
from tests.evaluation.making import items, score
from tests.record import synthetic


def two_runs(folder: Path) -> list[Path]:
    """Two sealed runs with an evaluation each, 30 of 60 and 54 of 60 right: copies of what was made once."""
    kept_folders.copy(_make, folder, "two-runs")
    return [folder / "plain", folder / "steps"]


def _make(folder: Path) -> None:
    for name, right in (("plain", 30), ("steps", 54)):
        score(synthetic.sealed_run(folder / name) / "eval", "items", items(60), [k < right for k in range(60)])
