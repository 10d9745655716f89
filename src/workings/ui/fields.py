"""A recipe as fields of a form: every key with its value, what it means, and what may stand there."""

import typing
from typing import Any

from pydantic import BaseModel, Field

from workings.config.keys import section_at
from workings.config.load import load_recipe
from workings.record.values import leaves


class RecipeField(BaseModel):
    """One key of a recipe."""

    key: str = Field(description="Dotted")
    value: str = Field(description="As an override would write it")
    help: str
    choices: list[str] = Field(default=[], description="What may stand there, where that is a list")
    number: bool = False


def recipe_fields(recipe: str) -> dict[str, list[RecipeField]]:
    """Keys of a recipe with their values, by section. Raises `RequestError` for an invalid recipe."""
    sections: dict[str, list[RecipeField]] = {}
    for key, value in leaves(load_recipe(recipe).resolved()):
        # A list is written in the recipe itself: a field of one line is not a place for it.
        if not isinstance(value, list):
            section, _, rest = key.partition(".")
            sections.setdefault(section if rest else "recipe", []).append(_field(key, value))
    return sections


def _field(key: str, value: Any) -> RecipeField:
    *place, name = key.split(".")
    fields = [section.model_fields[name] for section in section_at(place) if name in section.model_fields]
    choices = list(dict.fromkeys(str(literal) for field in fields for literal in _literals(field.annotation)))
    if isinstance(value, bool):
        choices = ["true", "false"]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    # Of a key that several kinds of a section have, each says what that kind is.
    help_text = fields[0].description if len(fields) == 1 else ""
    return RecipeField(key=key, value=text, help=help_text or "",
                       choices=choices if text in choices else [],
                       number=isinstance(value, int | float) and not isinstance(value, bool))


def _literals(annotation: Any) -> tuple[Any, ...]:
    return typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()
