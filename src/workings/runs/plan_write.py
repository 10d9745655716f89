"""Writes a plan that fits as a recipe."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from workings.config.load import LoadedRecipe
from workings.config.recipe_paths import recipe_paths
from workings.config.yaml_reader import parse_yaml
from workings.errors import RequestError
from workings.hardware.memory import gib
from workings.planning.plan import Plan
from workings.planning.recipe_changes import with_changes


def write_nearest(plan: Plan, loaded: LoadedRecipe, out: Path) -> None:
    """Writes the nearest plan that fits (or the plan itself if it fits) as a recipe.

    Paths in the recipe become relative to the new file's folder. Raises `RequestError` if no plan fits, or ``out``
    exists.
    """
    if not plan.verdict.fits and plan.nearest is None:
        raise RequestError(f"--write {out} for a plan that does not fit", "a plan that fits; the search found none",
                           "a smaller model, shorter rows or a larger machine")
    if out.exists():
        raise RequestError(f"--write {out} already exists", "a file that does not exist yet", "another name")
    # A plan that fits has no nearest one.
    words = plan.nearest.overrides if plan.nearest is not None else ()
    values = with_overrides(loaded, words)
    make_paths_relative(values, loaded, out.absolute().parent)
    peak, limit = ((plan.nearest.peak_bytes, plan.nearest.limit_bytes) if plan.nearest is not None
                   else (plan.verdict.peak_bytes, plan.verdict.limit_bytes))
    origin = Path(loaded.origin).name
    head = [f"# {origin} changed to fit {plan.target}: {gib(peak)} of {gib(limit)} per device.",
            *(f"#   {word}" for word in (*loaded.overrides, *words))]
    out.write_text("\n".join([*head, yaml.safe_dump(values, sort_keys=False, allow_unicode=True)]), encoding="utf-8")


def with_overrides(loaded: LoadedRecipe, words: Sequence[str]) -> dict[str, Any]:
    """The recipe's own keys with the search's words applied, as plain values."""
    origin = "the nearest plan"
    changes = {key: parse_yaml(written, origin) for key, _, written in (word.partition("=") for word in words)}
    # `with_changes` validates before writing. Only keys that were set, so that defaults follow the package.
    return with_changes(loaded.recipe, changes, origin).model_dump(mode="json", exclude_unset=True)


def make_paths_relative(values: dict[str, Any], loaded: LoadedRecipe, folder: Path) -> None:
    """Makes relative paths of existing files relative to another folder, in place."""
    for section, key, name in recipe_paths(values):
        # Any other name is a data set or a Hub id, the same in every folder.
        if not Path(name).is_absolute() and "~" not in name and loaded.path(name).exists():
            (values[section] if section else values)[key] = os.path.relpath(loaded.path(name), folder)
