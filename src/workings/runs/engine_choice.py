"""`engine: auto`: from what a recipe asks for and what is here to the name of an engine, said and written down."""

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace

from workings.config.load import LoadedRecipe
from workings.config.recipe import Recipe
from workings.engines.choice import JAX, LIBRARIES, TORCH, choose
from workings.engines.presence import accelerators
from workings.errors import RequestError
from workings.hardware.device import without_alias
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config
from workings.models.weights import parameter_count
from workings.runs.inputs import find_weights, planned_shape

AUTO = "auto"
ONE_ENGINE_ONLY: tuple[tuple[str, str, Callable[[Recipe, ModelShape], bool]], ...] = (
    (JAX, "mesh.tp above 1", lambda recipe, shape: recipe.mesh.tp > 1),
    (JAX, "optimizer muon", lambda recipe, shape: recipe.optimizer.name == "muon"),
    (TORCH, "optimizer adamw8bit", lambda recipe, shape: recipe.optimizer.name == "adamw8bit"),
    (TORCH, "memory.optimizer_in_backward", lambda recipe, shape: recipe.memory.optimizer_in_backward),
    (TORCH, "family gpt2", lambda recipe, shape: shape.family == "gpt2"),
)
"""Engine, what is asked for, and whether it is: what the other engine refuses."""


def with_engine(loaded: LoadedRecipe, platform: str = "") -> LoadedRecipe:
    """The recipe with an engine in place of `auto`, which becomes an override; any other recipe as it is.

    Args:
        loaded: what is asked for.
        platform: ``gpu`` or ``tpu``: a machine that is not here, with both engines on it. ``cpu``: this one's.
            Empty: what the recipe's device means on this machine.

    Raises:
        RequestError: see `workings.engines.choice.choose`.
    """
    recipe = loaded.recipe
    if recipe.engine != AUTO:
        return loaded
    shape = _shape(loaded)
    chosen = choose(platform=platform or _platform(recipe.device), parameters=parameter_count(shape),
                    only={engine: what for engine, what, asked in ONE_ENGINE_ONLY if asked(recipe, shape)},
                    installed=[engine for engine, names in LIBRARIES.items()
                               if platform in ("gpu", "tpu") or all(map(_installed, names))])
    return replace(loaded, recipe=recipe.model_copy(update={"engine": chosen.engine}),
                   overrides=(*(word for word in loaded.overrides if not word.startswith("engine=")),
                              f"engine={chosen.engine}"),
                   chosen=(*loaded.chosen, f"engine: auto is {chosen.engine}: {chosen.reason}"))


def _platform(device: str) -> str:
    if device != "auto":
        return without_alias(device)
    return next((platform for platform in ("tpu", "gpu") if platform in accelerators()), "cpu")


def _installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def _shape(loaded: LoadedRecipe) -> ModelShape:
    """From local files and the catalog; a model that neither knows has its description fetched."""
    try:
        return planned_shape(loaded)
    except RequestError:
        directory = find_weights(loaded, tensors=False).directory
        if directory is None:
            raise
        return from_hf_config(json.loads((directory / "config.json").read_text("utf-8")))
