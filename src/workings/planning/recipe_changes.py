"""Recipes with changed keys, and the overrides that produce them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workings.config.load import LoadedRecipe, check_recipe
from workings.config.overrides import set_key
from workings.config.recipe import Recipe
from workings.record.values import leaves

KeyValues = dict[str, Any]
"""Dotted keys and their values."""


def with_changes(recipe: Recipe, changes: Mapping[str, Any], origin: str = "a candidate of the search") -> Recipe:
    """The recipe with dotted keys set; ``origin`` names it in errors."""
    values = recipe.model_dump(mode="json", exclude_unset=True)
    for dotted, value in changes.items():
        set_key(values, dotted, value, origin)
    return check_recipe(values, origin)


def with_counted_steps(loaded: LoadedRecipe, steps: int, explanation: str) -> LoadedRecipe:
    """A recipe in epochs with its number of steps, which ``explanation`` derives from them."""
    recipe = with_changes(loaded.recipe, {"training.steps": steps}, f"{loaded.origin}, {steps} steps")
    return replace(loaded, recipe=recipe, chosen=(*loaded.chosen, f"training.steps: {explanation}"))


def overrides_between(before: Recipe, after: Recipe) -> tuple[str, ...]:
    """The ``key=value`` overrides that turn one recipe into another."""
    old_values, new_values = (dict(leaves(recipe.model_dump(mode="json"))) for recipe in (before, after))
    sections = []
    for section in ("optimizer", "method"):  # the keys of another optimizer or method do not exist in the new one
        old, new = getattr(before, section), getattr(after, section)
        if old.name != new.name:
            values = {"name": new.name} | new.model_dump(mode="json", exclude_defaults=True)
            inside = ", ".join(f"{key}: {value}" for key, value in values.items())
            new_values = {key: value for key, value in new_values.items() if not key.startswith(f"{section}.")}
            sections.append(f"{section}={{{inside}}}")
    return (*(f"{key}={value}" for key, value in new_values.items() if old_values.get(key) != value), *sections)
