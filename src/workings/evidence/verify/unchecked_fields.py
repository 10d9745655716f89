"""Names the fields of a record that no check covers, so that nothing passes in silence.

Every field of every file is looked up in the table of `coverage_table`. It is named with a reason if no check covers
it, if a check covers it in part, or if that check was not made, for example:

    runs/a/env/device_checks.json: max_difference_to_numpy (what a kernel gave on that day)

A field or file that is missing, although every run has it, is named too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import chain, islice
from typing import Any, NamedTuple

from workings.errors import RecordError
from workings.evidence.verify.checks.attempts import NEXT_TO_RUN, read_lists
from workings.evidence.verify.coverage_table import FieldRow, rows_of, rows_of_field, rows_of_file
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.registry import CHECKS
from workings.evidence.verify.result import CheckVerdict
from workings.evidence.verify.tree import shown
from workings.record.layout import ATTEMPTS, ATTEST, LOG, MEASURED, OVERRIDES, PLAN, RECIPE
from workings.record.values import is_absent

MAX_REMEMBERED = 10_000
"""Maximum number of fields read per file; each is named once."""
MAX_LISTED = 2_000
"""Maximum number of fields that are listed for one record."""
ALWAYS_WRITTEN = (PLAN, MEASURED, OVERRIDES, RECIPE, LOG)
"""Files of every run whose absence no check finds."""
MISSING = "it is not there, and this version always writes it"
NO_ROW = "no check knows this field"
NO_FILE = "no check reads this file"
Verdicts = Mapping[str, Mapping[str, CheckVerdict]]
"""Check -> unit -> verdict; an empty name means the whole record."""


@dataclass(frozen=True, kw_only=True)
class UncheckedField:
    """One field, or one whole file, that is not checked."""

    unit: str = ""
    file: str
    field: str = ""
    """Keys with dots between them; empty: the whole file."""
    why: str

    @property
    def text(self) -> str:
        """As text for users."""
        path = "/".join(part for part in (self.unit, self.file) if part not in ("", "."))
        return f"{path}{f': {self.field}' if self.field else ''} ({self.why})"


def unchecked_fields(record: Record, verdicts: Verdicts) -> tuple[UncheckedField, ...]:
    """Every field of every file that no check covers or whose check was not made, once; at most `MAX_LISTED`."""
    fields = chain(*(_in_unit(unit, verdicts) for unit in record.units), _outside(record))
    return tuple(dict.fromkeys(islice(fields, MAX_LISTED)))


def _outside(record: Record) -> Iterator[UncheckedField]:
    """Fields of the lists of attempts, and files next to the runs, which belong to no unit."""
    for path, attempts in read_lists(record).items():
        for key in sorted({key for attempt in attempts for key in attempt}):
            rows = rows_of_field("attempts", ATTEMPTS, key)
            if why := rows[0].reason if rows else NO_ROW:
                yield UncheckedField(file=ATTEMPTS if path == NEXT_TO_RUN else shown(path), field=shown(key), why=why)
    for entry in record.unowned_entries:
        is_checked = entry.name.rpartition("/")[2] == ATTEMPTS or f"/{ATTEST}/" in f"/{entry.name}"
        if entry.kind == "file" and not is_checked:
            yield UncheckedField(file=shown(entry.name), why="outside of every seal")


class _Present(NamedTuple):
    """A field that a file has."""

    field: str
    """Its keys, `*` for the index of a list: `a.*.b` of `{"a": [{"b": 1}]}`; empty: the whole file."""
    absent: bool = False
    """Whether it has a reason instead of a value."""


def _in_unit(unit: Unit, verdicts: Verdicts) -> Iterator[UncheckedField]:
    unchecked = partial(UncheckedField, unit=unit.title)
    was_made = cache(partial(_was_made, unit, verdicts))
    if unit.is_run and unit.written_by_train:
        yield from (unchecked(file=file, why=MISSING) for file in ALWAYS_WRITTEN
                    if not unit.has(file) and file not in unit.external_files)
    seen_in: dict[str, set[_Present]] = {}
    for file, present in _fields(unit):
        seen = seen_in.setdefault(file, set())
        if present in seen:
            continue
        if len(seen) >= MAX_REMEMBERED:
            yield unchecked(file=shown(file), why="it has too many fields to list")
            continue
        seen.add(present)
        if why := _why(_kind(unit), file, present, was_made):
            yield unchecked(file=shown(file), field=shown(present.field), why=why)
    if unit.written_by_train or not unit.is_run:
        yield from (unchecked(file=row.file, field=row.field, why=MISSING) for row in rows_of(_kind(unit))
                    if _is_missing(row, {present.field for present in seen_in.get(row.file, ())}))


def _is_missing(row: FieldRow, seen: set[str]) -> bool:
    """Whether a file lacks a field that this version always writes; ``seen``: the fields that the file has."""
    is_one_field = bool(row.field) and "*" not in row.field and row.file.endswith((".json", ".jsonl"))
    if row.optional or not is_one_field or not seen:
        return False
    # A section may be absent with a reason, which counts for its fields: `a` or `a.b` for `a.b.c`.
    keys = row.field.split(".")
    itself_and_sections = {".".join(keys[:count]) for count in range(1, len(keys) + 1)}
    is_section = any(field.startswith(f"{row.field}.") for field in seen)
    return itself_and_sections.isdisjoint(seen) and not is_section


def _kind(unit: Unit) -> str:
    """Kind of unit as the table of fields names it."""
    return "run" if unit.is_run else unit.kind


def _why(kind: str, file: str, present: _Present, was_made: Callable[[str], bool]) -> str:
    """Why a field is not checked; empty if it is. ``was_made``: whether the check of this id was made."""
    rows = rows_of_field(kind, file, present.field)
    if not rows:
        return NO_ROW if rows_of_file(kind, file) else NO_FILE
    row = rows[0]
    if row.reason:
        return row.reason
    if not was_made(row.check):
        return f"{row.check} was not made"
    return "a reason instead of a value" if present.absent and not CHECKS[row.check].whole else ""


def _was_made(unit: Unit, verdicts: Verdicts, check: str) -> bool:
    by_unit = verdicts.get(check, {})
    # A run's announcement is compared with its evaluations, and the findings are about those.
    found = {by_unit.get(unit.title, by_unit.get("")), *(by_unit.get(inner.title) for inner in unit.inside)}
    return bool({CheckVerdict.PASSED, CheckVerdict.FAILED} & found)


def _fields(unit: Unit) -> Iterator[tuple[str, _Present]]:
    """Every file of a unit with every field in it, once for each JSON line that has it."""
    for name in (entry.name for entry in unit.entries if entry.kind == "file"):
        rows = rows_of_file(_kind(unit), name)
        if rows and name.endswith((".json", ".jsonl")) and "tokenizer/" not in name:
            try:
                values = unit.lines(name) if name.endswith("l") else [unit.json(name)]
                yield from ((name, present) for value in values for present in _fields_of_value(value, ""))
            except RecordError:
                yield name, _Present("")
        else:
            # Unless the table names parts of it, such as the header of a file of tensors.
            whole = not rows or any(fnmatchcase("", row.field) for row in rows)
            yield from ((name, _Present(part)) for part in ([""] if whole else [row.field for row in rows]))
    yield from ((name, _Present("numbers")) for name in unit.external_files)


def _fields_of_value(value: Any, path: str) -> Iterator[_Present]:
    """Fields of a JSON value at ``path``. An empty object or list is a field, and so are all plain values of a list."""
    if is_absent(value):
        yield _Present(path, absent=True)
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _fields_of_value(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        nested = [inner for inner in value if isinstance(inner, dict | list)]
        for inner in nested:
            yield from _fields_of_value(inner, f"{path}.*")
        if len(nested) < len(value):
            yield _Present(f"{path}.*")
    else:
        yield _Present(path)
