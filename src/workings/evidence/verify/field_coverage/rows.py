"""Rows of the coverage table, and the three functions that the tables of runs and units are written with.

The first row whose patterns fit a field counts. A field without `optional` and `only_with_file` is always written by
this version, so that verification also names the records that lack it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FieldCoverage:
    """Which check covers a field."""

    file: str = ""
    """Pattern of the file's name in its unit."""
    field: str
    """Pattern of the dotted keys of the field, with `*` for any index of a list; empty: the whole file."""
    check: str
    """Id of the check that fails when the field alone is changed; empty: no check does."""
    derived_from: str
    """What the check compares the field with; or why nothing in a record contradicts it."""
    optional: bool = False
    """Whether only some records have the field."""
    only_with_file: str = ""
    """File without which the field is not written; empty: it does not depend on a file."""
    is_partial: bool = False
    """Whether the check misses some changes: the field is compared with bounds, or in some lines."""

    @property
    def is_unchecked(self) -> bool:
        """Whether verification names the field as not checked, or not fully."""
        return self.is_partial or not self.check


Fields = tuple[FieldCoverage, ...]
Rows = dict[str, tuple[Fields, ...]]
"""Pattern of a file -> its rows, in order."""


def checked(fields: str, check: str, derived_from: str, *, optional: bool = False, only_with_file: str = "",
            is_partial: bool = False) -> Fields:
    """Rows of fields that a check covers.

    Args:
        fields: patterns, separated by blanks; empty: the whole file.
        check: id of the check; empty: none covers them.
        derived_from: see `FieldCoverage`, as for the others.
        optional: only some records have them.
        only_with_file: file without which they are not written.
        is_partial: the check misses some changes.
    """
    return tuple(FieldCoverage(field=field, check=check, derived_from=derived_from, optional=optional,
                               only_with_file=only_with_file, is_partial=is_partial)
                 for field in fields.split() or [""])


def partly(fields: str, check: str, derived_from: str, *, optional: bool = False) -> Fields:
    """Rows of fields that a check covers in part."""
    return checked(fields, check, derived_from, optional=optional, is_partial=True)


def unchecked(fields: str, reason: str) -> Fields:
    """Rows of fields that no check covers."""
    return checked(fields, "", reason)
