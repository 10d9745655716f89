"""Where a run is written if nobody says where."""

from itertools import count
from pathlib import Path

from workings.errors import RequestError
from workings.record.layout import partial_path

RUNS = Path("runs")
"""Folder of runs, seen from where a person works."""


def run_directory(name: str, *, resume: bool = False) -> Path:
    """``runs/NAME``, or with the next number where that exists.

    Raises:
        RequestError: a run is to go on (``resume``), and which one has to be said.
    """
    if resume:
        # The one that was written to last is probably meant; it is proposed and not taken.
        existing = sorted(RUNS.glob(f"{name}*"), key=lambda place: place.stat().st_mtime)
        last = str(existing[-1]).removesuffix(".partial") if existing else str(RUNS / name)
        raise RequestError("--resume without --out", "the run to go on with", f"--out {last} --resume")
    places = (RUNS / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(place for place in places if not place.exists() and not partial_path(place).exists())
