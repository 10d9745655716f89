"""Runs that a report is made of."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from tests.evaluation.making import items, score
from tests.record import synthetic


def two_runs(folder: Path) -> list[Path]:
    """Two sealed runs with an evaluation each, 30 of 60 and 54 of 60 right: copies of what was made once."""
    shutil.copytree(_made(), folder, dirs_exist_ok=True)
    return [folder / "plain", folder / "steps"]


@cache
def _made() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="workings-two-runs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, right in (("plain", 30), ("steps", 54)):
        score(synthetic.sealed_run(folder / name) / "eval", "items", items(60), [k < right for k in range(60)])
    return folder
