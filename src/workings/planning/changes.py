"""A recipe with some keys set, and the words to type for it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workings.config.load import LoadedRecipe, check_recipe
from workings.config.overrides import set_key
from workings.config.recipe import Recipe
from workings.record.values import leaves

Words = dict[str, Any]
"""Dotted keys and their values."""


def changed(recipe: Recipe, changes: Mapping[str, Any], origin: str = "a candidate of the search") -> Recipe:
    """The recipe with dotted keys set; ``origin`` says in an error whose recipe that is."""
    values = recipe.model_dump(mode="json", exclude_unset=True)
    for dotted, value in changes.items():
        set_key(values, dotted, value, origin)
    return check_recipe(values, origin)


def with_counted_steps(loaded: LoadedRecipe, steps: int, said: str) -> LoadedRecipe:
    """A recipe in epochs with the steps that these are, which ``said`` explains."""
    return replace(loaded, recipe=changed(loaded.recipe, {"training.steps": steps}, f"{loaded.origin}, {steps} steps"),
                   chosen=(*loaded.chosen, f"training.steps: {said}"))


def difference(asked: Recipe, other: Recipe) -> tuple[str, ...]:
    """What to type after the recipe's name to get the other one: ``key=value`` words."""
    before, after = (dict(leaves(recipe.model_dump(mode="json"))) for recipe in (asked, other))
    sections = []
    for section in ("optimizer", "method"):  # keys of the old one have no place in the new one
        old, new = getattr(asked, section), getattr(other, section)
        if old.name != new.name:
            values = {"name": new.name} | new.model_dump(mode="json", exclude_defaults=True)
            inside = ", ".join(f"{key}: {value}" for key, value in values.items())
            after = {key: value for key, value in after.items() if not key.startswith(f"{section}.")}
            sections.append(f"{section}={{{inside}}}")
    return (*_words(before, after), *sections)


def _words(before: Words, after: Words) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, value in after.items() if before.get(key) != value)
