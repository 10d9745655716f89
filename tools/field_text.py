"""Words for the fields of a pydantic model, for tables in the documentation."""

import types
import typing
from typing import Annotated, Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from workings.record.values import Absent


def meaning(field: FieldInfo) -> str:
    """The docstring under a field, in one line."""
    return (field.description or "").replace("\n", " ").replace("|", "\\|")


def type_text(annotation: Any) -> str:
    """A type in plain words, in Markdown. Raises `TypeError` for one that has no wording yet."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is Annotated:
        return type_text(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_text(inner) for inner in arguments
                                          if inner is not types.NoneType))
    if origin in (tuple, list):
        return f"list of {type_text(arguments[0])}"
    if annotation is Absent:
        return "absent"
    if origin is dict:
        return "mapping" if arguments[1] is Any else f"mapping to {type_text(arguments[1])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    names = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`"}
    if annotation in names:
        return names[annotation]
    raise TypeError(f"no wording for a field of type {annotation!r}: add one to type_text")
