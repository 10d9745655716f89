"""Runs that a report is made of."""

from pathlib import Path

from tests.evaluation.making import items, score
from tests.record import synthetic


def two_runs(folder: Path) -> list[Path]:
    """Two sealed runs with an evaluation each: 30 of 60 and 54 of 60 right."""
    asked, runs = items(60), []
    for name, right in (("plain", 30), ("steps", 54)):
        run = synthetic.sealed_run(folder / name)
        score(run / "eval", "items", asked, [k < right for k in range(60)])
        runs.append(run)
    return runs
