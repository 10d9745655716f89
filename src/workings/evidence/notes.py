"""Notes: facts that became known after a run, each a sealed unit `notes/<n>` in the run.

A note never changes sealed files and cannot replace a value that the run recorded.
"""

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.record import atomic
from workings.record.layout import NOTE, PARTIAL_SUFFIX, SEAL, SUMS
from workings.record.lock import DirectoryLock
from workings.record.manifest import RunManifest
from workings.record.reader import RunRecord
from workings.record.redact import cleaned, is_placeholder
from workings.record.seal import seal_unit
from workings.record.storage import storage
from workings.record.values import is_absent, now

NOTES = "notes"
SCHEMA = "note/1"
KEY = re.compile(r"[a-z][a-z0-9_]{0,63}")
# Room for an address or a sentence; a text as long as a log belongs into a file.
MAX_VALUE_CHARS = 2000
NUMBER = re.compile(r"[1-9]\d{0,5}")
"""Pattern of the names of notes."""


def parse_facts(words: list[str]) -> dict[str, str]:
    """Facts of `key=value` words. Raises `RequestError` naming the first invalid word."""
    facts: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        # Without a key or a value there is nothing that could be looked up later.
        if not equals or not KEY.fullmatch(key) or not value.strip() or len(value) > MAX_VALUE_CHARS:
            raise RequestError(word[:200], "key=value: a key of small letters, digits and _, and a value",
                               "kaggle_notebook_version=7")
        if key in facts:
            raise RequestError(f"{key} twice", "each key once", "leave one of them out")
        facts[key] = value.strip()
    if not facts:
        raise RequestError("no facts", "one key=value or more", "kaggle_notebook_version=7")
    return facts


def write_note(path: Path, facts: Mapping[str, str]) -> Path:
    """Add a note to a sealed run.

    Args:
        path: the run directory.
        facts: texts by key.

    Returns:
        The folder of the note.

    Raises:
        RequestError: no sealed run; a key whose value the run itself recorded; a placeholder; a token or a key.
    """
    run = RunRecord.open(path)
    for key, value in facts.items():
        if is_placeholder(value):
            raise RequestError(f"{key}={value[:60]}", "the fact itself, not a placeholder", "")
        # Refused, not silently redacted: the owner must revoke a token that was typed here.
        if cleaned(value) != value:
            raise RequestError(f"the value of {key} contains a token, a key or a home folder",
                               "facts that anybody may read", "leave that part out")
        if (recorded := recorded_value(run.manifest, key)) is not None:
            raise RequestError(f"{key}={value[:60]}, which the run itself recorded as {str(recorded)[:60]!r}",
                               "a fact that was unknown during the run", "another key")
    return _seal(run, {"schema": SCHEMA, "run": run.root, "written_at": now(), "facts": dict(facts)})


def recorded_value(manifest: RunManifest, key: str) -> Any:
    """Value of a fact of the run; None if there is no such fact or the value is absent."""
    is_fact = key in type(manifest).model_fields or isinstance(
        getattr(type(manifest), key, None), property | cached_property)
    value = getattr(manifest, key) if is_fact else None
    return None if value is None or is_absent(value) else value


def parse_note(value: Any) -> dict[str, Any]:
    """Check the form of a `note.json`. Raises `RecordError`."""
    if not isinstance(value, dict) or set(value) != {"schema", "run", "written_at", "facts"} \
            or value["schema"] != SCHEMA:
        raise RecordError(f"{NOTE}: not the keys of {SCHEMA}")
    facts = value["facts"]
    # A note may come from a stranger, so that its form is checked before any text of it is shown.
    if not isinstance(facts, dict) or not facts or not all(
            KEY.fullmatch(key) and isinstance(text, str) and 0 < len(text) <= MAX_VALUE_CHARS
            for key, text in facts.items()):
        raise RecordError(f"{NOTE}: facts are not texts by key")
    if not isinstance(value["run"], str) or not isinstance(value["written_at"], str):
        raise RecordError(f"{NOTE}: no run or no time")
    return value


def _seal(run: RunRecord, note: dict[str, Any]) -> Path:
    """Make the unit next to the run and move it in whole: a kill in between leaves the run as it was."""
    # Next to the run and with the suffix of unfinished runs, so that a leftover is known as such and fails no seal.
    staging = run.path.with_name(f"{run.path.name}.note{PARTIAL_SUFFIX}")
    with storage(staging, "make"):
        staging.mkdir(exist_ok=True)
        # Otherwise two notes written at once would share a folder and number.
        lock = DirectoryLock(staging)
        try:
            for name in (NOTE, SEAL, SUMS):  # left by a note that was killed
                (staging / name).unlink(missing_ok=True)
            atomic.write_json(staging / NOTE, note)
            seal_unit(staging, "notes", "complete", run.root)
            folder = run.path / NOTES
            folder.mkdir(exist_ok=True)
            taken = [int(unit.name) for unit in folder.iterdir() if NUMBER.fullmatch(unit.name)]
            # After the highest number, not the count: a note that was removed must not let a later one replace another.
            final = folder / str(max(taken, default=0) + 1)
            staging.rename(final)
            # The rename is on the disk only when its folder is.
            atomic.sync_directory(folder)
        finally:
            lock.release()
    return final
