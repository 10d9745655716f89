"""Level 1: the list of attempts next to a run names its start, and no earlier line was removed."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.registry import Found, check, not_checked
from workings.evidence.verify.tree import FolderTree
from workings.record import jsonl
from workings.record.attempts import AFTER, ATTEMPT, line_digest
from workings.record.layout import ATTEMPTS
from workings.record.storage import parsed_bytes, refuse_too_large
from workings.record.values import CLOCK_SLACK, is_absent, moment

NEXT_TO_RUN = ".."  # path of a list that is next to the verified folder, because that folder is the run itself
LISTED_BEFORE = timedelta(hours=1)
"""Largest time between the listing of a start and its first event: a slow disk may take long to make the folder."""


@check("consistency.attempts")
def attempts(unit: Unit) -> Found:
    """Name and recipe of each run against the list: a reader of one run should see how many were started."""
    same_run = unit.record.by_root.get(unit.root, unit)
    if same_run is not unit:
        yield not_checked(f"the same run as {same_run.title}, under another name: one start and not two",
                          blocking=False)
    path = _list_path(unit)
    listed = unit.tree.cache.get_or_make(("", path), lambda: _read(unit.record, path), ATTEMPTS)
    if listed is None:
        return not_checked(f"no {ATTEMPTS} next to the run: how many were started is unknown", blocking=False)
    # A name can be reused for another recipe; a line without a digest is compared by name.
    digest = unit.manifest.config_digest
    own = [row for row in listed if row.get("run") == unit.manifest.name and row.get("config_digest", digest) == digest]
    if not own:
        yield f"{ATTEMPTS} lists no start of {unit.manifest.name!r} with this recipe"
        return None
    yield from _missing_lines(listed)
    yield from _own_problems(unit, listed, own)
    return f"{len(listed)} starts listed, {len(own)} of this run"


def _list_path(unit: Unit) -> str:
    """Path of the list next to a run: `runs/attempts.jsonl` for `runs/a`; `NEXT_TO_RUN` if only the run is verified."""
    if not unit.path:
        return NEXT_TO_RUN
    folder = unit.path.rpartition("/")[0]
    return f"{folder}/{ATTEMPTS}" if folder else ATTEMPTS


def _read(record: Record, path: str) -> list[dict[str, Any]] | None:
    """Lines of a list of attempts, by `_list_path`; None if there is none. Raises `RecordError`."""
    if path == NEXT_TO_RUN:
        neighbour = Path(record.tree.path.absolute().parent, ATTEMPTS)
        # Files next to a zip do not belong to it, and a link could lead anywhere.
        is_readable = isinstance(record.tree, FolderTree) and neighbour.is_file() and not neighbour.is_symlink()
        return jsonl.read(neighbour, bounded=True)[0] if is_readable else None
    if not any(entry.name == path and entry.kind == "file" for entry in record.tree.entries):
        return None
    data = record.tree.read(path)
    refuse_too_large(parsed_bytes(data, lines=True), path)
    return jsonl.parse(data, path)[0]


def _missing_lines(listed: list[dict[str, Any]]) -> Iterator[str]:
    """Lines that follow no earlier one. Of two runs that start at once both may follow the same line."""
    seen: set[str] = set()
    for number, row in enumerate(listed, start=1):
        if AFTER not in row:
            yield f"line {number} of {ATTEMPTS} does not name the line before it"
        elif not is_absent(row[AFTER]) and row[AFTER] not in seen:
            yield f"line {number} of {ATTEMPTS} follows a missing line"
        seen.add(line_digest(row))


def _own_problems(unit: Unit, listed: list[dict[str, Any]], own: list[dict[str, Any]]) -> Iterator[str]:
    lines = {line_digest(row): row for row in listed}
    named = [row[ATTEMPT] for row in unit.events if ATTEMPT in row and not is_absent(row[ATTEMPT])]
    yield from (f"{ATTEMPTS} lacks or changed a line that the run's events name: {str(name)[:16]}…"
                for name in named if name not in lines)
    if not unit.written_by_train:
        return
    yield from order_problems(unit, lines)
    for row in unit.starts:
        line = lines.get(str(row.get(ATTEMPT)))
        if line is not None:
            yield from _line_problems(unit, row, line)
    # The events also name earlier lines with another recipe, if the run was resumed with another batch or mesh.
    starts = [moment(str(row.get("started_at"))) for row in listed
              if "started_at" in row and (row in own or line_digest(row) in named)]
    for verb, time in (("ended", unit.manifest.finished_at), ("began", unit.manifest.started_at)):
        if starts and min(starts) > moment(time) + CLOCK_SLACK:
            yield f"its first start is listed at {min(starts)}, it {verb} at {time}"


def order_problems(unit: Unit, lines: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Problems of the order: each start is listed before its event, after the start before it, on a line of its own.

    ``lines``: of the list of attempts, by their digests.
    """
    starts = unit.starts
    times = [(moment(str(row.get("time"))), moment(str(lines[str(row[ATTEMPT])].get("started_at"))))
             for row in starts if str(row.get(ATTEMPT)) in lines]
    for event_at, listed_at in times:
        if event_at < listed_at - CLOCK_SLACK or event_at > listed_at + LISTED_BEFORE:
            yield f"an event of {event_at} names the start that is listed at {listed_at}"
    yield from (f"a start is listed at {next_listed_at}, before the event of the start before it, {event_at}"
                for (event_at, _), (_, next_listed_at) in pairwise(times) if next_listed_at < event_at - CLOCK_SLACK)
    names = [str(row[ATTEMPT]) for row in starts if ATTEMPT in row and not is_absent(row[ATTEMPT])]
    if len(set(names)) < len(names):
        yield "two of its starts name one line of the list"
    if not all(ATTEMPT in row for row in starts):
        yield "a start of it does not name its line of the list"


def _line_problems(unit: Unit, event: dict[str, Any], line: dict[str, Any]) -> Iterator[str]:
    yield from (f"{ATTEMPTS} lists a start of {key} {str(line[key])[:40]!r}, the run is of {ours!r}"
                for key, ours in (("run", unit.manifest.name), ("recipe", unit.manifest.recipe))
                if key in line and line[key] != ours)
    if event.get("kind") == "resumed" and line.get("resume", True) is not True:
        yield f"{ATTEMPTS} lists a new start where the run was resumed"


def read_lists(record: Record) -> dict[str, list[dict[str, Any]]]:
    """The lists of attempts next to the runs of the record, by path; broken ones are left out."""
    lists = {}
    for path in sorted({_list_path(unit) for unit in record.runs}):
        try:
            listed = _read(record, path)
        except RecordError:
            continue  # reported by consistency.attempts
        if listed is not None:
            lists[path] = listed
    return lists
