"""Resolves `engine: auto`: the first engine that supports the recipe; the choice is printed and recorded."""

import importlib.util
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from workings.config.load import LoadedRecipe
from workings.engines.base import EngineRequest
from workings.engines.hardware_probe import accelerators
from workings.engines.registry import planning_engines
from workings.errors import RequestError
from workings.hardware.device import without_alias
from workings.hints import pip_install
from workings.inputs.resolve import find_or_fetch_shape

AUTO = "auto"


def with_engine(loaded: LoadedRecipe, platform: str = "") -> LoadedRecipe:
    """The recipe with an engine in place of `auto`, which becomes an override; any other recipe as it is.

    ``platform``: ``gpu`` or ``tpu``, a machine that is not here, with every engine on it; ``cpu``, this one's; empty:
    what the recipe's device means on this machine.
    """
    recipe = loaded.recipe
    if recipe.engine != AUTO:
        return loaded
    # Engines refuse by shape; an unknown model's description is downloaded.
    shape = find_or_fetch_shape(loaded)
    here = next((name for name in ("tpu", "gpu") if name in accelerators()), "cpu")
    request = EngineRequest.of(recipe, shape, device=platform or (
        here if recipe.device == "auto" else without_alias(recipe.device)))
    engines = planning_engines()
    engine, reason = select_engine(
        refused={name: [refusal.feature for refusal in engine.refusals(request)] for name, engine in engines.items()},
        # Assume that another machine has every engine; on this one, check without importing.
        installed=[name for name, engine in engines.items()
                   if platform in ("gpu", "tpu") or all(map(importlib.util.find_spec, engine.libraries))])
    # As an override, so that the record has the choice and reproducing does not choose again.
    return replace(loaded, recipe=recipe.model_copy(update={"engine": engine}),
                   overrides=(*(word for word in loaded.overrides if not word.startswith("engine=")),
                              f"engine={engine}"),
                   chosen=(*loaded.chosen, f"engine: {engine} (picked by auto: {reason})"))


def select_engine(*, refused: Mapping[str, Sequence[str]], installed: Collection[str]) -> tuple[str, str]:
    """The name of the engine that `auto` means, and why. Raises `RequestError` if there is none.

    ``refused``: for each engine, the preferred one first, the features of the recipe that it does not support.
    """
    able = [engine for engine, features in refused.items() if not features]
    if not able:
        raise RequestError("no engine supports this recipe: " + "; ".join(
            f"{engine} does not support {' and '.join(features)}" for engine, features in refused.items()),
            "features that one engine supports", " or ".join(f"engine={engine}" for engine in refused))
    available = [engine for engine in able if engine in installed]
    # One missing feature per engine is enough.
    decisive = next((features[-1] for features in refused.values() if features), "")
    if not available:
        raise RequestError(f"{f'{decisive} needs' if decisive else 'engine: auto means'} {' or '.join(able)}, and that "
                           "is not installed", f"the libraries of {able[0]}", pip_install(able[0]))
    if decisive:
        return available[0], f"the engine for {decisive}"
    return available[0], (f"{' and '.join(available)} work; engine={available[1]} picks the other"
                          if len(available) > 1 else f"the only installed one of {' and '.join(able)}")
