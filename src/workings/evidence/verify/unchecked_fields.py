"""What a record says and nothing in it contradicts: named in the answer, field by field."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.checks.attempts import read_lists
from workings.evidence.verify.field_coverage.table import NO_FILE, NO_ROW, WORDS, Witness, rows_of, witness_of
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckVerdict
from workings.evidence.verify.tree import shown
from workings.record.layout import (
    DATA_DIGESTS,
    DEVICE_CHECKS,
    DOCTOR,
    ENVIRONMENT,
    ENVIRONMENT_TEXT,
    EVALUATION_UNITS,
    LOG,
    MEASURED,
    OVERRIDES,
    PLAN,
    RECIPE,
    SAMPLES,
)
from workings.record.values import is_absent

EVALUATIONS = "eval/"
"""Where evaluations stand in a run."""
NOT_THERE = "it is not there, and this version always writes it"
ALWAYS = {
    "run": (ENVIRONMENT, ENVIRONMENT_TEXT, DEVICE_CHECKS, DOCTOR, PLAN, MEASURED, DATA_DIGESTS, OVERRIDES, RECIPE, LOG),
    **dict.fromkeys(EVALUATION_UNITS, (SAMPLES,))}
"""Files of a kind of unit that no check misses where they are gone."""
DEEP_COMPARISONS = frozenset({
    "consistency.config", "consistency.views", "consistency.rows", "consistency.tokenizer", "recompute.scorecard",
    "recompute.comparison", "recompute.selection", "integrity.checkpoints", "integrity.pack", "consistency.prompts",
    "consistency.teacher"})
"""Checks that compare a value with all in it, so that the words of an absent one are compared as well."""
MAX_SEEN = 10_000
"""Fields of one file that are remembered, so that each is named once."""
MAX_SAID = 2_000
"""Fields that are listed of one record; a hostile one can have millions."""
Made = Mapping[str, Mapping[str, CheckVerdict]]
"""Check -> unit -> verdict; an empty name stands for the whole record."""


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
        """For people."""
        place = "/".join(part for part in (self.unit, self.file) if part not in ("", "."))
        return f"{place}{f': {self.field}' if self.field else ''} ({self.why})"


def said(record: Record, made: Made) -> tuple[UncheckedField, ...]:
    """Every field of every file that no check stands for, and those whose check was not made."""
    fields: dict[UncheckedField, None] = {}
    for unit in record.units:
        for file in _left_out(unit):
            fields[UncheckedField(unit=unit.title, file=file, field="", why=NOT_THERE)] = None
        there: dict[str, set[str]] = {}
        for file, field, absent in _fields(unit):
            there.setdefault(file, set()).add(field)
            if why := _why(unit, file, field, made, absent=absent):
                fields[UncheckedField(unit=unit.title, file=shown(file), field=shown(field), why=why)] = None
                if len(fields) >= MAX_SAID:
                    return tuple(fields)
        for file, field in _fields_left_out(unit, there):
            fields[UncheckedField(unit=unit.title, file=file, field=field, why=NOT_THERE)] = None
    for place, listed in read_lists(record).items():
        for field in sorted({key for row in listed for key in row}):
            row = witness_of("beside", "attempts.jsonl", field)
            if row is None or row.is_said:
                fields[UncheckedField(unit="", file=shown(place.removeprefix("..") or "attempts.jsonl"),
                                      field=shown(field), why=row.how if row else NO_ROW)] = None
    # What lies beside the runs belongs to nobody: `integrity.extra` names it, and so does the list.
    for entry in record.unowned_entries:
        if entry.kind == "file" and not entry.name.endswith("attempts.jsonl") and "/attest/" not in f"/{entry.name}":
            fields[UncheckedField(unit="", file=shown(entry.name), field="", why="outside of every seal")] = None
    return tuple(fields)


def _left_out(unit: Unit) -> list[str]:
    """Files that are written with every such unit and are not there: an earlier version, or somebody who took them."""
    if unit.is_run and not unit.written_by_train:
        return []
    kind = "run" if unit.is_run else unit.kind
    return [file for file in ALWAYS.get(kind, ()) if not unit.has(file) and file not in unit.external_files]


def _fields_left_out(unit: Unit, there: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """File and field of what this version always writes and no line of the file has."""
    if unit.is_run and not unit.written_by_train:
        return
    for row in rows_of("run" if unit.is_run else unit.kind):
        seen = there.get(row.file, set())
        if "*" in row.field or not row.file.endswith((".json", ".jsonl")) or not row.field or not seen \
                or row.needs is None or (row.needs and not unit.has(row.needs)):
            continue
        # Where a whole section is absent, and says why, its keys are not missed.
        outer = {row.field[:place] for place, sign in enumerate(row.field + ".") if sign == "."}
        if not outer & seen and not any(field.startswith(row.field + ".") for field in seen):
            yield row.file, row.field


def _why(unit: Unit, file: str, field: str, made: Made, *, absent: bool) -> str:
    """Why a field is not checked; empty where it is."""
    kind = "run" if unit.is_run else unit.kind
    row = witness_of(kind, file, field)
    if row is None:
        return NO_ROW if _is_known(unit, file) else NO_FILE
    if row.is_said:
        return row.how
    if not _was_made(row, unit, made):
        return f"{row.check} was not made"
    return WORDS if absent and row.check not in DEEP_COMPARISONS else ""


def _was_made(row: Witness, unit: Unit, made: Made) -> bool:
    verdicts = made.get(row.check, {})
    # What a run announces is held against its evaluations, and the check speaks of those.
    inside = [verdict for title, verdict in verdicts.items() if unit.is_run and title.startswith(
        EVALUATIONS if unit.title == "." else f"{unit.title}/{EVALUATIONS}")]
    return bool({CheckVerdict.PASSED, CheckVerdict.FAILED} & {verdicts.get(unit.title, verdicts.get("")), *inside})


def _fields(unit: Unit) -> Iterator[tuple[str, str, bool]]:
    """File, field, and whether its value is absent, of all that a unit holds."""
    for entry in unit.entries:
        name = entry.name
        if entry.kind != "file":
            continue
        if not _is_known(unit, name):
            yield name, "", False
        # A tokenizer's file has a key for every piece of its vocabulary.
        elif name.endswith((".json", ".jsonl")) and "tokenizer/" not in name:
            try:
                leaves = _of_lines(unit.lines(name)) if name.endswith("l") else _leaves(unit.json(name), "")
                for field, absent in _once(leaves):
                    yield name, field, absent
            except RecordError:
                yield name, "", False
        else:
            for field in _parts(unit, name):
                yield name, field, False
    for name in unit.external_files:
        # Tensors that a pack names by their digest.
        yield name, "numbers", False


def _is_known(unit: Unit, name: str) -> bool:
    return any(fnmatchcase(name, row.file) for row in rows_of("run" if unit.is_run else unit.kind))


def _parts(unit: Unit, name: str) -> list[str]:
    """Parts of a file that is no JSON of ours: those that the table knows, or the whole."""
    kind = "run" if unit.is_run else unit.kind
    parts = [row.field for row in rows_of(kind) if fnmatchcase(name, row.file)]
    return parts if parts and not any(fnmatchcase("", part) for part in parts) else [""]


def _once(fields: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, bool]]:
    """Each field once, as long as there are not too many to be remembered."""
    seen: set[tuple[str, bool]] = set()
    for field in fields:
        if field not in seen:
            # Beyond the bound a field may be given twice; `said` keeps it once all the same.
            if len(seen) < MAX_SEEN:
                seen.add(field)
            yield field


def _of_lines(rows: list[dict[str, Any]]) -> Iterator[tuple[str, bool]]:
    """Fields of all lines. Most lines have the keys of the one before, and plain values."""
    plain: set[tuple[str, ...]] = set()
    for row in rows:
        keys = tuple(row)
        nested = [value for value in row.values() if isinstance(value, dict | list)]
        if nested or keys not in plain:
            yield from _leaves(row, "")
            if not nested and len(plain) < MAX_SEEN:
                plain.add(keys)


def _leaves(value: Any, place: str) -> Iterator[tuple[str, bool]]:
    if is_absent(value):
        yield place, True
    elif isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}" if place else key)
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _leaves(inner, f"{place}.*")
    else:
        yield place, False
