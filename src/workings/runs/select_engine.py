"""`engine: auto`: the engine that does what a recipe asks for, else JAX; said at the start and written down."""

import importlib.util
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from workings.config.load import LoadedRecipe
from workings.config.recipe import Recipe
from workings.engines.hardware_probe import accelerators
from workings.engines.registry import install_hint
from workings.errors import RequestError
from workings.hardware.device import without_alias
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config
from workings.runs.inputs import find_weights, planned_shape

AUTO = "auto"
JAX, TORCH = "jax", "torch"
LIBRARIES = {JAX: ("jax",), TORCH: ("torch", "transformers")}
"""What must be installed for an engine to run. JAX comes first: both are fast on a CPU, and JAX alone runs on a TPU."""
ONE_ENGINE_ONLY: tuple[tuple[str, str, Callable[[Recipe, ModelShape], bool]], ...] = (
    (JAX, "mesh.tp above 1", lambda recipe, shape: recipe.mesh.tp > 1),
    (JAX, "optimizer muon", lambda recipe, shape: recipe.optimizer.name == "muon"),
    (TORCH, "optimizer adamw8bit", lambda recipe, shape: recipe.optimizer.name == "adamw8bit"),
    (TORCH, "memory.optimizer_in_backward", lambda recipe, shape: recipe.memory.optimizer_in_backward),
    (TORCH, "family {family}", lambda recipe, shape: JAX in family_of(shape).refusals),
)
"""Engine, what is asked for (`{family}` is the model's), and whether it is: what the other engine refuses."""


def with_engine(loaded: LoadedRecipe, platform: str = "") -> LoadedRecipe:
    """The recipe with an engine in place of `auto`, which becomes an override; any other recipe as it is.

    Args:
        loaded: what is asked for.
        platform: ``gpu`` or ``tpu``: a machine that is not here, with both engines on it. ``cpu``: this one's.
            Empty: what the recipe's device means on this machine.

    Raises:
        RequestError: see `select_engine`.
    """
    recipe = loaded.recipe
    if recipe.engine != AUTO:
        return loaded
    shape = _shape(loaded)
    engine, reason = select_engine(
        platform=platform or _platform(recipe.device),
        only={engine: what.format(family=shape.family) for engine, what, asked in ONE_ENGINE_ONLY
              if asked(recipe, shape)},
        installed=[engine for engine, names in LIBRARIES.items()
                   if platform in ("gpu", "tpu") or all(map(_installed, names))])
    return replace(loaded, recipe=recipe.model_copy(update={"engine": engine}),
                   overrides=(*(word for word in loaded.overrides if not word.startswith("engine=")),
                              f"engine={engine}"),
                   chosen=(*loaded.chosen, f"engine: auto is {engine}: {reason}"))


def select_engine(*, platform: str, only: Mapping[str, str], installed: Collection[str]) -> tuple[str, str]:
    """The name of the engine that `auto` means, and why.

    Args:
        platform: ``cpu``, ``gpu`` or ``tpu``.
        only: engine -> what is asked for that no other engine does; empty where both can.
        installed: engines whose libraries are there.

    Raises:
        RequestError: no engine does all that is asked, or the one that does is not installed.
    """
    needs = dict(only) | ({JAX: "a TPU"} if platform == "tpu" else {})
    if len(needs) > 1:
        raise RequestError("engine: auto with " + " and ".join(needs.values()), "what one engine does: "
                           + "; ".join(f"{what}: {engine}" for engine, what in needs.items()),
                           "engine=jax or engine=torch")
    for engine, what in needs.items():
        if engine not in installed:
            raise RequestError(f"engine: auto with {what}", f"engine {engine}, whose libraries are not installed",
                               install_hint(engine))
        return engine, f"the engine for {what}"
    for engine in LIBRARIES:
        if engine in installed:
            return engine, ("the first of the two that do what is asked" if len(installed) > 1
                            else "the only one of jax and torch that is installed")
    raise RequestError("engine: auto", "jax or torch to be installed; neither is", install_hint(JAX))


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
