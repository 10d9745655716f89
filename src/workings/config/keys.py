"""The keys that a recipe can have, read from its section classes."""

import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel

from workings.config.recipe import Recipe


def section_at(location: Sequence[str]) -> list[type[BaseModel]]:
    """The section classes that may have a dotted place (several for a union)."""
    here: list[type[BaseModel]] = [Recipe]
    # A list index is between the list's name and the entry's keys.
    for part in (part for part in location if not part.isdigit()):
        here = [inner for section in here if part in section.model_fields
                for inner in models_in(section.model_fields[part].annotation)]
    return here


def known_keys() -> list[str]:
    """Dotted names of all keys that a recipe can have, in the order of definition."""
    def walk(section: type[BaseModel], prefix: str) -> Iterator[str]:
        for name, field in section.model_fields.items():
            inner = list(models_in(field.annotation))
            for model in inner:
                yield from walk(model, f"{prefix}{name}.")
            # A union of sections and a plain value (`model.shape`: numbers or a name) is also a key.
            if not inner or len(inner) < len(typing.get_args(field.annotation)):
                yield f"{prefix}{name}"
    # Members of a union share keys: list each once.
    return list(dict.fromkeys(walk(Recipe, "")))


def sections(section: type[BaseModel] = Recipe) -> Iterator[type[BaseModel]]:
    """A section class and all below it."""
    yield section
    for field in section.model_fields.values():
        for inner in models_in(field.annotation):
            yield from sections(inner)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The section classes inside a type: itself, members of a union, annotated types."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated, tuple):
        for inner in typing.get_args(annotation):
            yield from models_in(inner)
