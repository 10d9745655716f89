"""Default run directories."""

from itertools import count
from pathlib import Path

from workings.errors import RequestError
from workings.record.layout import partial_path

RUNS = Path("runs")
"""Folder of runs, relative to the current folder."""


def run_directory(name: str, *, resume: bool = False) -> Path:
    """``runs/NAME``, or with the next free number.

    Raises:
        RequestError: ``resume``, because the directory of the run to resume must be given.
    """
    if resume:
        # The newest one is probably meant; it is proposed and not taken.
        existing = sorted(RUNS.glob(f"{name}*"), key=lambda path: path.stat().st_mtime)
        last = str(existing[-1]).removesuffix(".partial") if existing else str(RUNS / name)
        raise RequestError("--resume without --out", "the run to go on with", f"--out {last} --resume")
    paths = (RUNS / (name if number == 1 else f"{name}-{number}") for number in count(1))
    return next(path for path in paths if not path.exists() and not partial_path(path).exists())
