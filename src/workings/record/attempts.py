"""`attempts.jsonl` beside the runs: a line for every run that was started, so that the third of seven shows as that."""

from pathlib import Path
from typing import Any

from workings.record import jsonl
from workings.record.layout import ATTEMPTS
from workings.record.values import now


def append(parent: Path, facts: dict[str, Any]) -> Path:
    """Add a line to the list of attempts in a folder of runs, before anything else of the run is done.

    Args:
        parent: the folder that holds the runs.
        facts: `run` (name), `recipe`, `config_digest`, `resume` and whatever else tells attempts apart.

    Returns:
        The list's path.
    """
    path = parent / ATTEMPTS
    jsonl.append(path, {"started_at": now(), **facts})
    return path


def read(parent: Path) -> list[dict[str, Any]]:
    """All attempts listed in a folder of runs, oldest first; a torn last line is left out."""
    return jsonl.read(parent / ATTEMPTS)[0]
