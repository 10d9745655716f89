"""`plan`: does a recipe fit a machine that is not here, why, and what is the nearest that does. Downloads nothing."""

import json
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe, load_recipe
from workings.config.model import FromPretrained
from workings.errors import RequestError
from workings.hardware.catalog import find_target
from workings.models.shape import ModelShape
from workings.models.shapes import catalog, from_hf_config, published_shape, shape_from_config
from workings.models.tokenizer import Tokenizer
from workings.planning.history import own_pace
from workings.planning.plan import Plan
from workings.planning.search import plan_with_nearest
from workings.runs.inputs import TRAINED_VOCABULARY
from workings.runs.plan_time import timed, with_deadline

OWN_RUNS = Path("runs")
"""Where a person's runs are looked for unless told otherwise."""


def plan(recipe: str | LoadedRecipe, on: str, overrides: Sequence[str] = (), *, nearest: bool = True,
         runs: Path = OWN_RUNS, deadline: float = 0.0) -> Plan:
    """Say whether a recipe's run fits a target, and how long it would take.

    Args:
        recipe: a file, a shipped recipe's name, or one that is loaded already.
        on: a target of the catalog, or another spelling of it.
        overrides: ``key=value`` words.
        nearest: where it does not fit, look for the plan that does and changes least.
        runs: folder of this person's runs; finished ones on the same device correct the time.
        deadline: seconds in which the run has to finish; 0: none.

    Raises:
        RequestError: what was asked for is wrong.
        WorkingsError: the compiler crashed; the message names the file with its last lines.
    """
    target = find_target(on)
    loaded = recipe if isinstance(recipe, LoadedRecipe) else load_recipe(recipe, overrides)
    shape = planned_shape(loaded)
    found = plan_with_nearest(loaded.recipe, shape, target, search=nearest)
    found = timed(found, loaded, shape, target, own_pace(runs, target) if runs.is_dir() else None)
    return with_deadline(found, loaded, shape, target, deadline) if deadline else found


def planned_shape(loaded: LoadedRecipe) -> ModelShape:
    """The model's shape from the recipe, local files and the catalog alone.

    Raises:
        RequestError: a Hub id that the catalog does not have, or a tokenizer that is not on this machine.
    """
    model = loaded.recipe.model
    if isinstance(model, FromPretrained):
        config = loaded.path(model.id) / "config.json"
        if config.is_file():
            return from_hf_config(json.loads(config.read_text("utf-8")))
        return _by_hub_id(model.id)
    if isinstance(model.shape, str):
        return published_shape(model.shape)
    return shape_from_config(model.shape, _vocabulary(loaded))


def _by_hub_id(name: str) -> ModelShape:
    """Instruction-tuned models have the shape of the model they were made from."""
    rows: dict[str, dict[str, Any]] = {str(row["hub_id"]): row for row in catalog().values()}
    base = name.removesuffix("-it")
    for candidate in (name, base, f"{base}-pt"):
        if candidate in rows:
            return published_shape(str(rows[candidate]["name"]))
    near = get_close_matches(name, rows, 1, 0.4) or ["google/gemma-2b"]
    raise RequestError(f"model.id: {name}", "a directory with config.json, or a model whose shape is known: "
                       + ", ".join(rows), f"model.id={near[0]}")


def _vocabulary(loaded: LoadedRecipe) -> int:
    """Tokens of a model from scratch; a tokenizer that is trained later has at most so many."""
    name = loaded.recipe.tokenizer
    if name == "train":
        return TRAINED_VOCABULARY
    path = loaded.path(name)
    if not path.exists():
        raise RequestError(f"tokenizer: {name} for a plan", "a tokenizer on this machine, because its size decides",
                           "tokenizer=train, or a directory with tokenizer.json")
    return Tokenizer.load(path).vocab_size
