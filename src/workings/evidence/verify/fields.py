"""Which check covers each field of each file of a record, from the lines of `checks.toml`.

The answer of `verify` names the fields that are not covered, and those that are in no line, so that nothing passes in
silence. `docs/reference/witnesses.md` is made from the same lines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache

from workings.evidence.verify.registry import SAID, TABLE

UNITS = ("eval", "samples", "pack")
KINDS: dict[str, tuple[str, ...]] = {"run": ("run",), "beside": ("beside",), "evaluation": ("eval", "samples"),
                                     "unit": UNITS, **{kind: (kind,) for kind in UNITS[1:]}}
"""Kinds of units of a key of the table; `beside`: lists of attempts."""
MAX_REMEMBERED = 4096
"""Maximum number of cached rows; a hostile record can have millions of fields."""
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
    """Whether the check misses some changes: the field is compared with bounds, or in some lines."""
    optional: bool
    """Whether only some records have the field."""
    only_with_file: str
    """File without which the field is not written; empty: it does not depend on a file."""
    reason: str
    """Why the field is not or not fully checked; empty if it is."""


def kinds() -> tuple[str, ...]:
    """Kinds of units that have rows, and `beside`: lists of attempts."""
    return "run", "beside", *UNITS


@cache
def rows_of(kind: str) -> tuple[FieldRow, ...]:
    """Rows of a kind of unit, the most specific patterns first: the first that fits counts.

    Of two checks of one field that which compares it in full is first.
    """
    rows = [row for name, table in TABLE.items() for key, kinds in KINDS.items() if kind in kinds and key in table
            for text in re.sub(r"\n  +", " ", table[key]).strip().splitlines()
            for row in _rows("" if name == SAID else name, text)]
    return tuple(sorted(rows, key=lambda row: (*_specific(row.file), row.file, *_specific(row.field), row.field,
                                               row.partly)))


def _specific(pattern: str) -> tuple[bool, int]:
    return "*" in pattern, -len(pattern.replace("*", ""))


def _rows(check: str, text: str) -> Iterator[FieldRow]:
    match = _LINE.fullmatch(text)
    if match is None:
        raise ValueError(f"checks.toml: {text!r}")
    for word in match["fields"].split():
        name, _, only_with_file = word.partition("@")
        partly, field = name.startswith("~"), name.lstrip("~").rstrip("?")
        yield FieldRow(file=match["file"], field="" if field == "." else field, check=check, partly=partly,
                       optional=name.endswith("?"), only_with_file=only_with_file,
                       reason=match["reason"] or (f"{check} compares it only in part" if partly else ""))


@lru_cache(maxsize=MAX_REMEMBERED)
def rows_of_file(kind: str, file: str) -> tuple[FieldRow, ...]:
    """Rows of one file of a kind of unit, in order; empty if no check reads it."""
    # `fnmatchcase`, because `fnmatch` ignores case on some systems and a record is the same on all.
    return tuple(row for row in rows_of(kind) if fnmatchcase(file, row.file))


@lru_cache(maxsize=MAX_REMEMBERED)
def rows_of_field(kind: str, file: str, field: str) -> tuple[FieldRow, ...]:
    """The rows of a field: the first that fits, and those of other checks with the same patterns."""
    rows = [row for row in rows_of_file(kind, file) if fnmatchcase(field, row.field)]
    return tuple(row for row in rows if (row.file, row.field) == (rows[0].file, rows[0].field))


def row_of(kind: str, file: str, field: str) -> FieldRow | None:
    """The first row of a field; None without one."""
    return next(iter(rows_of_field(kind, file, field)), None)
