"""Every claim has a witness: each field of each file of a record, and what it is held against.

A field that nothing in the record contradicts is *said, not checked*: the answer of `verify` names it. One that is in
no row is so named as well, so that nothing passes in silence. `docs/reference/witnesses.md` is this table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from workings.evidence.verify.field_coverage import runs, units

WORDS = "why there is none, in words"
"""Of every value that is absent."""
NO_ROW = "no check knows this field"
NO_FILE = "no check reads this file"


@dataclass(frozen=True, kw_only=True)
class Witness:
    """What a field is held against."""

    file: str
    """Pattern of the file's name in its unit."""
    field: str
    """Pattern of the keys on the way to it, `*` for any number in a list; empty: the whole file."""
    check: str
    """Id of the check that fails when it alone is changed; empty: nothing does."""
    how: str
    """What it follows from; or why nothing in a record contradicts it."""
    needs: str | None = ""
    """File beside which the field is always written; empty: everywhere; None: only some records have it."""
    partly: bool = False
    """Whether there are changes that the check does not find: it is held against bounds, or in some lines."""

    @property
    def is_said(self) -> bool:
        """Whether it is to be named as not checked."""
        return self.partly or not self.check


@cache
def rows_of(kind: str) -> tuple[Witness, ...]:
    """Rows of a kind of unit (`run`, `eval`, …; `beside`: lists of attempts), in order: the first that fits counts."""
    tables = {**runs.TABLES, **units.TABLES}
    rows = []
    for file, fields in tables.get(kind, {}).items():
        for names, check, how in fields:
            # `~` before a check: it finds some changes and not all. `?` behind a field: it is not always written.
            for name, optional, needs in (each.partition("?") for each in names.split() or [""]):
                rows.append(Witness(file=file, field=name, check=check.removeprefix("~"), how=how,
                                    partly=check[:1] == "~", needs=(needs or None) if optional else ""))
    return tuple(rows)


def kinds() -> tuple[str, ...]:
    """Kinds of units that have a table."""
    return (*runs.TABLES, *units.TABLES)


@cache
def witness_of(kind: str, file: str, field: str) -> Witness | None:
    """The row of a field; None where there is none."""
    return next((row for row in rows_of(kind) if fnmatchcase(file, row.file) and fnmatchcase(field, row.field)), None)


def files_of(kind: str) -> Iterator[str]:
    """Patterns of the files of a kind of unit, in order."""
    yield from dict.fromkeys(row.file for row in rows_of(kind))
