"""`attempts.jsonl` next to the runs: a line for every started run, so that discarded runs are visible.

Each line names the digest of the one before it, and a run's events name the line of each of its starts.
"""

from pathlib import Path
from typing import Any

from workings.errors import RecordError
from workings.record import jsonl
from workings.record.canonical import line
from workings.record.digest import bytes_digest
from workings.record.layout import ATTEMPTS
from workings.record.values import absent, now

AFTER = "after"
"""Key of a line: digest of the line before it."""
ATTEMPT = "attempt"
"""Key of an event that starts or resumes a run: digest of its line in the list."""


def append(parent: Path, facts: dict[str, Any]) -> str:
    """Add a line to the list of attempts in a folder of runs, before anything else of the run is done; its digest.

    ``facts``: `run` (name), `recipe`, `config_digest`, `resume` and everything else that tells attempts apart.
    """
    row = {"started_at": now(), **facts, AFTER: _last_digest(parent)}
    jsonl.append(parent / ATTEMPTS, row)
    return line_digest(row)


def _last_digest(parent: Path) -> str | dict[str, str]:
    """Digest of the last line so far, or why there is none."""
    try:
        rows = read(parent)
    except RecordError:
        return absent("the lines before cannot be read").model_dump()
    return line_digest(rows[-1]) if rows else absent("the first line").model_dump()


def line_digest(row: dict[str, Any]) -> str:
    """SHA-256, as hex, of a line in canonical form, its newline included."""
    return bytes_digest(line(row))


def read(parent: Path) -> list[dict[str, Any]]:
    """All attempts listed in a folder of runs, oldest first; a torn last line is left out."""
    return jsonl.read(parent / ATTEMPTS)[0]
