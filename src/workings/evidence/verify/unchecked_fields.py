"""Names the fields of a record that no check covers, so that nothing passes in silence.

Lines of `checks.toml` say which check covers which fields. For example, the table `consistency.steps` has for `run`:

    train/events.jsonl: ~kind

This check covers the field `kind` of each event, in part. `docs/reference/witnesses.md` is made from the same lines.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial
from itertools import chain, islice
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.checks.attempts import NEXT_TO_RUN, read_lists
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.registry import CHECKS, SAID, TABLE
from workings.evidence.verify.result import CheckVerdict
from workings.evidence.verify.tree import shown
from workings.record.layout import ATTEMPTS, ATTEST, LOG, MEASURED, OVERRIDES, PLAN, RECIPE
from workings.record.values import is_absent

KINDS = ("run", "attempts", "eval", "samples", "pack")
"""Kinds of units that have rows, and lists of attempts."""
_KINDS_OF_KEY: dict[str, tuple[str, ...]] = {
    "evaluation": ("eval", "samples"), "unit": ("eval", "samples", "pack"),
    **{kind: (kind,) for kind in ("run", "attempts", "samples", "pack")}}
"""Kinds of units of a key of the table."""
MAX_CACHED_ROWS = 4096
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
_LINE = re.compile(r"(?P<file>\S+): (?P<fields>.*?)(?: -- (?P<reason>.*))?")


@dataclass(frozen=True, kw_only=True)
class FieldRow:
    """A field, and the check that fails if only this field is changed."""

    file: str
    """Pattern of the file's name in its unit."""
    field: str
    """Pattern of dotted keys, with `*` for any index of a list; empty: the whole file."""
    check: str
    """Id; empty: no check does."""
    partly: bool
    """Whether the check misses some changes: it compares the field with bounds, or in some lines."""
    optional: bool
    """Whether only some records have the field."""
    reason: str
    """Why the field is not or not fully checked; empty if it is."""


@cache
def rows_of(kind: str) -> tuple[FieldRow, ...]:
    """Rows of a kind of unit, the most specific patterns first; of equal patterns the one that compares in full."""
    rows: list[FieldRow] = []
    for name, table in TABLE.items():
        for key, kinds in _KINDS_OF_KEY.items():
            if kind in kinds and key in table:
                rows += _parsed_rows("" if name == SAID else name, table[key])
    return tuple(sorted(rows, key=lambda row: (*_order(row.file), *_order(row.field), row.partly)))


def _order(pattern: str) -> tuple[bool, int, str]:
    return "*" in pattern, -len(pattern.replace("*", "")), pattern


def _parsed_rows(check: str, lines: str) -> Iterator[FieldRow]:
    """The rows of some lines; an indented line continues the one before it. The field of the word `~a.b?` is `a.b`."""
    for text in re.sub(r"\n  +", " ", lines).strip().splitlines():
        match = _LINE.fullmatch(text)
        if match is None:
            raise ValueError(f"checks.toml: {text!r}")
        for word in match["fields"].split():
            partly, field = word.startswith("~"), word.lstrip("~").rstrip("?")
            reason_by_default = f"{check} compares it only in part" if partly else ""
            yield FieldRow(file=match["file"], field="" if field == "." else field, check=check, partly=partly,
                           optional=word.endswith("?"), reason=match["reason"] or reason_by_default)


@lru_cache(maxsize=MAX_CACHED_ROWS)
def rows_of_file(kind: str, file: str) -> tuple[FieldRow, ...]:
    """Rows of one file of a kind of unit, in order; empty if no check reads it."""
    # `fnmatchcase`, because `fnmatch` ignores case on some systems and a record is the same on all.
    return tuple(row for row in rows_of(kind) if fnmatchcase(file, row.file))


@lru_cache(maxsize=MAX_CACHED_ROWS)
def rows_of_field(kind: str, file: str, field: str) -> tuple[FieldRow, ...]:
    """The rows of a field: the first that fits, and those of other checks with the same patterns."""
    rows = [row for row in rows_of_file(kind, file) if fnmatchcase(field, row.field)]
    return tuple(row for row in rows if (row.file, row.field) == (rows[0].file, rows[0].field))


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


def _in_unit(unit: Unit, verdicts: Verdicts) -> Iterator[UncheckedField]:
    unchecked = partial(UncheckedField, unit=unit.title)
    was_made = cache(partial(_was_made, unit, verdicts))
    if unit.is_run and unit.written_by_train:
        yield from (unchecked(file=file, why=MISSING) for file in ALWAYS_WRITTEN
                    if not unit.has(file) and file not in unit.external_files)
    present: dict[str, set[tuple[str, bool]]] = {}
    for file, field, absent in _fields(unit):
        seen = present.setdefault(file, set())
        if (field, absent) in seen:
            continue
        if len(seen) >= MAX_REMEMBERED:
            yield unchecked(file=shown(file), why="it has too many fields to list")
            continue
        seen.add((field, absent))
        if why := _why(_kind(unit), file, field, was_made, absent=absent):
            yield unchecked(file=shown(file), field=shown(field), why=why)
    if unit.written_by_train or not unit.is_run:
        yield from (unchecked(file=row.file, field=row.field, why=MISSING) for row in rows_of(_kind(unit))
                    if _is_missing(row, {field for field, _ in present.get(row.file, ())}))


def _is_missing(row: FieldRow, seen: set[str]) -> bool:
    """Whether a file lacks a field that this version always writes; ``seen``: the fields that the file has."""
    is_one_field = bool(row.field) and "*" not in row.field and row.file.endswith((".json", ".jsonl"))
    if row.optional or not is_one_field or not seen:
        return False
    keys = row.field.split(".")
    # A section may be absent with a reason, which stands for all of its fields.
    with_sections_around = {".".join(keys[:count]) for count in range(1, len(keys) + 1)}
    has_fields_in_it = any(field.startswith(f"{row.field}.") for field in seen)
    return with_sections_around.isdisjoint(seen) and not has_fields_in_it


def _kind(unit: Unit) -> str:
    """Kind of unit as the table of fields names it."""
    return "run" if unit.is_run else unit.kind


def _why(kind: str, file: str, field: str, was_made: Callable[[str], bool], *, absent: bool) -> str:
    """Why a field is not checked; empty if it is."""
    rows = rows_of_field(kind, file, field)
    if not rows:
        return NO_ROW if rows_of_file(kind, file) else NO_FILE
    if rows[0].reason:
        return rows[0].reason
    if not was_made(rows[0].check):
        return f"{rows[0].check} was not made"
    return "a reason instead of a value" if absent and not CHECKS[rows[0].check].whole else ""


def _was_made(unit: Unit, verdicts: Verdicts, check: str) -> bool:
    by_unit = verdicts.get(check, {})
    # A run's announcement is compared with its evaluations, and the findings are about those.
    found = {by_unit.get(unit.title, by_unit.get("")), *(by_unit.get(inner.title) for inner in unit.inside)}
    return bool({CheckVerdict.PASSED, CheckVerdict.FAILED} & found)


def _fields(unit: Unit) -> Iterator[tuple[str, str, bool]]:
    """File, field and whether its value is absent, for every field in a unit. A file that is no JSON is one field."""
    for name in (entry.name for entry in unit.entries if entry.kind == "file"):
        rows = rows_of_file(_kind(unit), name)
        if rows and name.endswith((".json", ".jsonl")) and "tokenizer/" not in name:
            try:
                values = unit.lines(name) if name.endswith("l") else [unit.json(name)]
                yield from ((name, field, absent) for value in values for field, absent in _leaves(value, ""))
            except RecordError:
                yield name, "", False
        else:
            # Unless the table names parts of it, such as the header of a file of tensors.
            whole = not rows or any(fnmatchcase("", row.field) for row in rows)
            yield from ((name, part, False) for part in ([""] if whole else [row.field for row in rows]))
    yield from ((name, "numbers", False) for name in unit.external_files)


def _leaves(value: Any, path: str) -> Iterator[tuple[str, bool]]:
    """Fields of a JSON value, and whether each is absent. An empty object or list is a field."""
    if is_absent(value):
        yield path, True
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        nested = [inner for inner in value if isinstance(inner, dict | list)]
        for inner in nested:
            yield from _leaves(inner, f"{path}.*")
        if len(nested) < len(value):  # one field for all its plain values
            yield f"{path}.*", False
    else:
        yield path, False
