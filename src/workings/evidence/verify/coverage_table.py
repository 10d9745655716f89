"""Which check covers which field of a record, from the lines of `checks.toml`.

For example, the table of the check `consistency.steps` has in its lines for units of the kind `run`:

    train/events.jsonl: ~kind

So this check covers the field `kind` of each event, in part. Fields that no check covers are under the key `said`, with
the reason why:

    env/device_checks.json: * -- what a kernel gave on that day

`docs/reference/witnesses.md` is made from the same lines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache

from workings.evidence.verify.registry import SAID, TABLE

KINDS = ("run", "attempts", "eval", "samples", "pack")
"""Kinds of units that have rows, and `attempts` for the lists of attempts."""
_KINDS_OF_KEY: dict[str, tuple[str, ...]] = {
    "evaluation": ("eval", "samples"), "unit": ("eval", "samples", "pack"),
    **{kind: (kind,) for kind in ("run", "attempts", "samples", "pack")}}
"""Kinds of units that a key of a check's table is about."""
MAX_CACHED_ROWS = 4096
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
    return tuple(sorted(rows, key=lambda row: (*_specific_first(row.file), *_specific_first(row.field), row.partly)))


def _specific_first(pattern: str) -> tuple[bool, int, str]:
    """Sort key: patterns without `*` come first, then longer ones: `a.b`, `a.long.*`, `a.*`."""
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
