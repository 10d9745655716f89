"""Coverage table: the check that fails when one field of one file of a record is changed, or why no check can.

The answer of `verify` names the fields that are not checked, and those that have no row here, so that nothing passes in
silence. `docs/reference/witnesses.md` is this table.
"""

from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache, lru_cache

from workings.evidence.verify.field_coverage import runs, units  # noqa: F401  declare their files
from workings.record.coverage import Checked, declared_files, declared_kinds

REASON_IN_WORDS = "why there is none, in words"
"""Why the text of an absent value is not checked."""
NO_ROW = "no check knows this field"
NO_FILE = "no check reads this file"
MAX_REMEMBERED = 4096
"""Files and fields whose rows are remembered; a hostile record can have millions."""


@cache
def rows_of(kind: str) -> tuple[Checked, ...]:
    """Rows of a kind of unit (`run`, `eval`, …; `beside`: lists of attempts), in order: the first that fits counts."""
    return tuple(row for rows in declared_files(kind).values() for row in rows)


def kinds() -> tuple[str, ...]:
    """Kinds of units that have a table."""
    return declared_kinds()


@lru_cache(maxsize=MAX_REMEMBERED)
def rows_of_file(kind: str, file: str) -> tuple[Checked, ...]:
    """Rows of one file of a kind of unit, in order; none where no check reads it."""
    # `fnmatchcase`, because `fnmatch` ignores case on some systems and a record is the same on all.
    fitting = {pattern for pattern in declared_files(kind) if fnmatchcase(file, pattern)}
    return tuple(row for row in rows_of(kind) if row.file in fitting) if fitting else ()


@lru_cache(maxsize=MAX_REMEMBERED)
def coverage_of(kind: str, file: str, field: str) -> Checked | None:
    """The row of a field; None where there is none."""
    return next((row for row in rows_of_file(kind, file) if fnmatchcase(field, row.field)), None)


def files_of(kind: str) -> Iterator[str]:
    """Patterns of the files of a kind of unit, in order."""
    yield from dict.fromkeys(row.file for row in rows_of(kind))
