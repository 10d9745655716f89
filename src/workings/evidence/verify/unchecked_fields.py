"""Fields of a record that nothing in it contradicts, so that no check covers them: the answer names each."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.checks.attempts import read_lists
from workings.evidence.verify.fields import row_of, rows_of, rows_of_file
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.registry import CHECKS
from workings.evidence.verify.result import CheckVerdict
from workings.evidence.verify.tree import shown
from workings.record.layout import (
    LOG,
    MEASURED,
    OVERRIDES,
    PLAN,
    RECIPE,
)
from workings.record.values import is_absent

EVALUATIONS = "eval/"
"""Folder of the evaluations in a run."""
MISSING = "it is not there, and this version always writes it"
ALWAYS_WRITTEN = (PLAN, MEASURED, OVERRIDES, RECIPE, LOG)
"""Files that are written with every run, and that no check misses where they are gone."""
REASON_IN_WORDS = "a reason instead of a value"
"""Why the text of an absent value is not checked."""
NO_ROW = "no check knows this field"
NO_FILE = "no check reads this file"
MAX_REMEMBERED = 10_000
"""Maximum number of fields read per file; each is named once."""
TOO_MANY = "it has too many fields to list"
MAX_LISTED = 2_000
"""Fields that are listed for one record; a hostile one can have millions."""
Verdicts = Mapping[str, Mapping[str, CheckVerdict]]
"""Check -> unit -> verdict; an empty name means the whole record."""


@dataclass(frozen=True, kw_only=True)
class UncheckedField:
    """One field, or one whole file, that is not checked."""

    unit: str
    file: str
    field: str
    """Keys with dots between them; empty: the whole file."""
    why: str

    def to_json(self) -> dict[str, str]:
        """Keys of `verify --json`."""
        return {"unit": self.unit, "file": self.file, "field": self.field, "why": self.why}

    @property
    def text(self) -> str:
        """As text for users."""
        path = "/".join(part for part in (self.unit, self.file) if part not in ("", "."))
        return f"{path}{f': {self.field}' if self.field else ''} ({self.why})"


def unchecked_fields(record: Record, verdicts: Verdicts) -> tuple[UncheckedField, ...]:
    """Every field of every file that no check covers or whose check was not made."""
    # A dictionary keeps the order and drops repetitions.
    fields: dict[UncheckedField, None] = {}
    for unit in record.units:
        # Once per unit and check, not once per field.
        kind, was_made = _kind(unit), cache(partial(_was_made, unit, verdicts))
        for file in _missing_files(unit):
            fields[UncheckedField(unit=unit.title, file=file, field="", why=MISSING)] = None
        present: dict[str, set[str]] = {}
        for file, field, absent in _fields(unit):
            seen = present.setdefault(file, set())
            if len(seen) >= MAX_REMEMBERED:
                fields[UncheckedField(unit=unit.title, file=shown(file), field="", why=TOO_MANY)] = None
                continue
            seen.add(field)
            if why := _why(kind, file, field, was_made, absent=absent):
                fields[UncheckedField(unit=unit.title, file=shown(file), field=shown(field), why=why)] = None
                if len(fields) >= MAX_LISTED:
                    return tuple(fields)
        # After the existing fields, which determine the missing ones.
        for file, field in _missing_fields(unit, present):
            fields[UncheckedField(unit=unit.title, file=file, field=field, why=MISSING)] = None
    for path, attempts in read_lists(record).items():
        for field in sorted({key for attempt in attempts for key in attempt}):
            row = row_of("beside", "attempts.jsonl", field)
            if row is None or row.reason:
                fields[UncheckedField(unit="", file=shown(path.removeprefix("..") or "attempts.jsonl"),
                                      field=shown(field), why=row.reason if row else NO_ROW)] = None
    for path in _unowned_files(record):
        fields[UncheckedField(unit="", file=shown(path), field="", why="outside of every seal")] = None
    return tuple(fields)


def _unowned_files(record: Record) -> Iterator[str]:
    """Files next to the runs that no check compares: they belong to no unit, and `integrity.files` names them too."""
    for entry in record.unowned_entries:
        checked = entry.name.rpartition("/")[2] == "attempts.jsonl" or "/attest/" in f"/{entry.name}"
        if entry.kind == "file" and not checked:
            yield entry.name


def _missing_files(unit: Unit) -> list[str]:
    """Files that are written with every run, and that are missing."""
    if not unit.is_run or not unit.written_by_train:
        return []
    return [file for file in ALWAYS_WRITTEN if not unit.has(file) and file not in unit.external_files]


def _missing_fields(unit: Unit, present: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """File and name of each field that this version always writes and that no line of the file has."""
    if unit.is_run and not unit.written_by_train:
        return
    for row in rows_of(_kind(unit)):
        seen = present.get(row.file, set())
        if "*" in row.field or not row.file.endswith((".json", ".jsonl")) or not row.field or not seen \
                or row.optional or (row.only_with_file and not unit.has(row.only_with_file)):
            continue
        # A section that is absent with a reason has no missing keys.
        # The paths of all sections around the field, and its own.
        outer = {row.field[:index] for index, sign in enumerate(row.field + ".") if sign == "."}
        if not outer & seen and not any(field.startswith(row.field + ".") for field in seen):
            yield row.file, row.field


def _kind(unit: Unit) -> str:
    """Kind of unit as the table of fields names it."""
    return "run" if unit.is_run else unit.kind


def _why(kind: str, file: str, field: str, was_made: Callable[[str], bool], *, absent: bool) -> str:
    """Why a field is not checked; empty if it is."""
    row = row_of(kind, file, field)
    if row is None:
        return NO_ROW if rows_of_file(kind, file) else NO_FILE
    if row.reason:
        return row.reason
    if not was_made(row.check):
        return f"{row.check} was not made"
    return REASON_IN_WORDS if absent and not CHECKS[row.check].whole else ""


def _was_made(unit: Unit, verdicts: Verdicts, check: str) -> bool:
    by_unit = verdicts.get(check, {})
    # A run's announcement is compared with its evaluations, and the findings are about those.
    # Titles are paths: that of an evaluation begins with its run's.
    inside = [verdict for title, verdict in by_unit.items() if unit.is_run and title.startswith(
        EVALUATIONS if unit.title == "." else f"{unit.title}/{EVALUATIONS}")]
    return bool({CheckVerdict.PASSED, CheckVerdict.FAILED} & {by_unit.get(unit.title, by_unit.get("")), *inside})


def _fields(unit: Unit) -> Iterator[tuple[str, str, bool]]:
    """File, field and whether its value is absent, for every field in a unit."""
    kind = _kind(unit)
    for entry in unit.entries:
        name = entry.name
        if entry.kind != "file":
            continue
        if not rows_of_file(kind, name):
            yield name, "", False
        # A tokenizer's file has a key for every piece of its vocabulary.
        elif name.endswith((".json", ".jsonl")) and "tokenizer/" not in name:
            try:
                leaves = _leaves_of_lines(unit.lines(name)) if name.endswith("l") else _leaves(unit.json(name), "")
                for field, absent in _distinct(leaves):
                    yield name, field, absent
            except RecordError:
                yield name, "", False
        else:
            for field in _parts(unit, name):
                yield name, field, False
    for name in unit.external_files:
        yield name, "numbers", False


def _parts(unit: Unit, name: str) -> list[str]:
    """Parts of a file that is not our JSON: those in the table, or the whole."""
    parts = [row.field for row in rows_of_file(_kind(unit), name)]
    return parts if parts and not any(fnmatchcase("", part) for part in parts) else [""]


def _distinct(fields: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    """The fields without repetitions, as far as they can be remembered."""
    seen: set[tuple[str, bool]] = set()
    for field in fields:
        if field not in seen:
            # Beyond the bound a field may be yielded twice; `unchecked_fields` only says that there are more.
            if len(seen) < MAX_REMEMBERED:
                seen.add(field)
            yield field


def _leaves_of_lines(rows: list[dict[str, Any]]) -> Iterator[tuple[str, bool]]:
    """Fields of all lines. Lines with the keys of an earlier one, and plain values, are passed over."""
    plain: set[tuple[str, ...]] = set()
    for row in rows:
        # Lines of a log have a few sets of keys; each set is walked once.
        keys = tuple(row)
        nested = [value for value in row.values() if isinstance(value, dict | list)]
        if nested or keys not in plain:
            yield from _leaves(row, "")
            if not nested and len(plain) < MAX_REMEMBERED:
                plain.add(keys)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, bool]]:
    if is_absent(value):
        yield path, True
    # An empty object or list is a value.
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            field = f"{path}.{key}" if path else key
            if isinstance(inner, dict | list):
                yield from _leaves(inner, field)
            else:
                yield field, False
    elif isinstance(value, list) and value:
        # Entries of a list share one name.
        field, plain = f"{path}.*", False
        for inner in value:
            if isinstance(inner, dict | list):
                yield from _leaves(inner, field)
            elif not plain:
                plain = True
                yield field, False
    else:
        yield path, False
