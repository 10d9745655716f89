"""Which check covers each field of each file of a record, declared where the field is.

On a model, next to the field's type: ``seed: Annotated[int, Checked("consistency.config", "the recipe")]``. The fields
of a file without a model are declared by `record_file`, in the module that checks them. From these declarations follow
what `verify` names as said and not checked, the fields that it misses, and `docs/reference/witnesses.md`.

The first row whose pattern fits a field counts; a row of `*` counts last, wherever it was declared.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, get_args

from pydantic import BaseModel

REPLAYED = "only steps that are taken again say so (level 3)"
CLOCK = "a clock said so; it is held against the other times"
CODE = "the word of the code that ran; a replay by that code says more"
ALIKE = "; told alike in all of them nothing contradicts it"


@dataclass(frozen=True)
class Checked:
    """The check that fails when a field alone is changed."""

    check: str
    """Its id; empty: no check does."""
    against: str
    """What the check compares the field with; or why nothing in a record contradicts the field."""
    keys: str = ""
    """On a model: patterns of keys below the field, separated by blanks; `.` or none: the field itself."""
    partly: bool = False
    """Whether the check misses some changes: the field is compared with bounds, or in some lines."""
    optional: bool = False
    """Whether only some records have the field."""
    only_with_file: str = ""
    """File without which the field is not written; empty: it does not depend on a file."""
    field: str = ""
    """Pattern of the dotted keys of the field, with `*` for any index of a list; empty: the whole file."""
    file: str = ""
    """Pattern of the file's name in its unit."""

    @property
    def is_unchecked(self) -> bool:
        """Whether verification names the field as not checked, or not fully."""
        return self.partly or not self.check


Fields = tuple[Checked, ...]
_FILES: dict[str, dict[str, list[Checked]]] = {}
"""Kind of unit -> pattern of a file -> its rows, as declared."""


def unsaid(reason: str, keys: str = "") -> Checked:
    """Declaration on a model: no check covers the field."""
    return Checked("", reason, keys)


def checked(fields: str, check: str, against: str, *, optional: bool = False, only_with_file: str = "",
            partly: bool = False) -> Fields:
    """Rows of fields that a check covers; ``fields``: patterns separated by blanks, or empty for the whole file."""
    return tuple(Checked(check, against, field=field, partly=partly, optional=optional, only_with_file=only_with_file)
                 for field in fields.split() or [""])


def partly(fields: str, check: str, against: str, *, optional: bool = False) -> Fields:
    """Rows of fields that a check covers in part."""
    return checked(fields, check, against, optional=optional, partly=True)


def unchecked(fields: str, reason: str) -> Fields:
    """Rows of fields that no check covers."""
    return checked(fields, "", reason)


def record_file(kind: str, file: str, *rows: Fields, model: type[BaseModel] | None = None) -> None:
    """Declare fields of a file; several modules may declare fields of one file.

    Args:
        kind: of the unit that holds it: `run`, `eval`, …; `beside`: what stands beside the runs.
        file: pattern of its name in the unit.
        rows: its fields.
        model: a model of the file whose fields declare themselves; counts before ``rows``.
    """
    declared = _FILES.setdefault(kind, {}).setdefault(file, [])
    every = [*(_model_rows(model, "") if model else ()), *(row for fields in rows for row in fields)]
    declared += [replace(row, file=file) for row in every]
    declared.sort(key=lambda row: row.field == "*")


def declared_files(kind: str) -> dict[str, Fields]:
    """Rows of each file of a kind of unit, by the pattern of its name. A file of the name `*` counts last."""
    files = sorted(_FILES.get(kind, {}).items(), key=lambda item: item[0] == "*")
    return {file: tuple(rows) for file, rows in files}


def declared_kinds() -> tuple[str, ...]:
    """Kinds of units that have files."""
    return tuple(_FILES)


def _model_rows(model: type[BaseModel], prefix: str) -> Iterator[Checked]:
    """Rows of a model's fields. Raises ``TypeError`` for a field that declares no check."""
    for name, info in model.model_fields.items():
        field, declared = prefix + name, [mark for mark in info.metadata if isinstance(mark, Checked)]
        inner = next((part for part in (info.annotation, *get_args(info.annotation)) if _declares(part)), None)
        if not declared and inner is None:
            raise TypeError(f"{model.__name__}.{name} declares no check")
        for mark in declared:
            for keys in mark.keys.split() or ["."]:
                yield replace(mark, keys="", field=field if keys == "." else f"{field}.{keys}")
        if inner is not None:
            yield from _model_rows(inner, f"{field}.")


def _declares(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel) and any(
        isinstance(mark, Checked) for info in part.model_fields.values() for mark in info.metadata)
