"""Where the names in a sealed run's recipe start from: a run may have been moved since, alone or with what it names."""

from pathlib import Path

from workings.record.canonical import loads
from workings.record.layout import OVERRIDES
from workings.record.reader import Run

PARENTS_SEARCHED = 3
"""Folders above a run in which a relative path of its recipe is looked for."""


def recorded_base(run: Run) -> Path:
    """The folder that the recipe's paths start from: where it lay, seen from the run, or the current one."""
    asked = loads((run.path / OVERRIDES).read_bytes())
    base = asked.get("base") if isinstance(asked, dict) else None
    return (run.path.resolve() / base if isinstance(base, str) else Path.cwd()).resolve()


def recorded_bases(run: Run) -> list[Path]:
    """Folders that a relative name of the recipe may start from, the likeliest first."""
    # A run may have been moved together with its weights, so the folders above it are tried last.
    return [recorded_base(run), Path.cwd(), *list(run.path.absolute().parents)[:PARENTS_SEARCHED]]
