"""Resolves `engine: auto` and `precision.compute: auto`; every choice is printed and recorded with its reason.

On this machine's CPU only a measurement tells which engine and number format is the fastest. Therefore, before a long
run begins, a small update is measured with each of them.
"""

import importlib.util
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from workings.config.load import LoadedRecipe
from workings.config.recipe import Recipe
from workings.doctor.nvidia import read_driver
from workings.engines.base import EngineRequest
from workings.engines.hardware_probe import accelerators, launched
from workings.engines.registry import planning_engines
from workings.errors import RequestError
from workings.hardware.catalog import Target
from workings.hardware.device import without_alias
from workings.hints import pip_install
from workings.inputs.resolve import find_or_fetch_shape
from workings.models.batch import BatchShape
from workings.models.shape import ModelShape
from workings.planning.calibration import LEAST_OPERATIONS, calibrated_throughput
from workings.planning.run_time import step_operations

AUTO = "auto"
CAPABILITIES = {"bf16": 8.0, "fp16": 7.0}
"""Compute capabilities from which NVIDIA's cards have matrix units for a format."""
LEAST_GAIN = 1.15
"""Times that bf16 must be faster than fp32 on a CPU to be worth its rounding."""
MEASURED_TOKENS = 512
"""Tokens of a measured update: enough to compare formats, because a larger update has the same ratio."""


@dataclass(frozen=True)
class Candidate:
    """An engine and a recipe with a number format that could be chosen."""

    engine: str
    recipe: Recipe

    @property
    def compute(self) -> str:
        """Number format of products."""
        return self.recipe.precision.compute


def with_choices(loaded: LoadedRecipe, target: Target | None = None) -> LoadedRecipe:
    """The recipe with a value in place of each `auto`, as overrides with reasons; any other recipe unchanged.

    ``target``: the machine that will run it; None: this machine, on the recipe's device. Raises `RequestError` if no
    engine supports the recipe, or none that does is installed.
    """
    recipe = loaded.recipe
    if AUTO not in (recipe.engine, recipe.precision.compute):
        return loaded
    # Engines refuse by shape; an unknown model's description is downloaded.
    shape = find_or_fetch_shape(loaded)
    platform = target.platform if target else _platform_here(recipe)
    formats, why_format = _formats(recipe, platform, target)
    engines = {name: engine for name, engine in planning_engines().items() if recipe.engine in (AUTO, name)}
    # Another machine is assumed to have every engine. On this one, libraries are looked up without importing them.
    has_every_engine = target is not None and platform != "cpu"
    installed = [name for name, engine in engines.items()
                 if has_every_engine or all(map(importlib.util.find_spec, engine.libraries))]
    variants = [_in_format(recipe, compute) for compute in formats]
    requests = [EngineRequest.of(variant, shape, device=platform) for variant in variants]
    # For each format: the features of the recipe that each engine refuses.
    refused = [{name: [refusal.feature for refusal in engine.refusals(request)] for name, engine in engines.items()}
               for request in requests]
    why_engine = ""
    if recipe.engine == AUTO:
        usable = (by_engine for by_engine in refused if not all(by_engine.values()))
        _, why_engine = select_engine(refused=next(usable, refused[-1]), installed=installed)
    candidates = [Candidate(name, variant) for variant, by_engine in zip(variants, refused, strict=True)
                  for name in installed if not by_engine[name]]
    # A named engine that refuses the recipe, or that cannot plan, says so when it is opened.
    chosen = candidates[0] if candidates else Candidate(recipe.engine, variants[-1])
    if platform == "cpu" and len(candidates) > 1:
        speeds, why_unmeasured = _measure(candidates, shape, loaded)
        if speeds:
            chosen = max(candidates, key=lambda one: speeds[one] / (LEAST_GAIN if one.compute != formats[0] else 1))
            why_fastest, why_format = _measured_reasons(chosen, speeds)
            why_engine = why_fastest or why_engine
        else:
            why_engine, why_format = f"{why_engine}; {why_unmeasured}", why_unmeasured
    return _as_overrides(loaded, chosen, why_engine, why_format)


def _platform_here(recipe: Recipe) -> str:
    """The kind of device on which this machine would run a recipe: `tpu`, `gpu` or `cpu`."""
    if recipe.device != AUTO:
        return without_alias(recipe.device)
    return next((platform for platform in ("tpu", "gpu") if platform in accelerators()), "cpu")


def _formats(recipe: Recipe, platform: str, target: Target | None) -> tuple[list[str], str]:
    """Number formats to try, the best one first (on a CPU: the most exact one), and why."""
    if recipe.precision.compute != AUTO:
        return [recipe.precision.compute], ""
    if platform == "cpu":
        return ["fp32", "bf16"], "nothing else works here"
    missing: set[str] = set()
    if platform == "gpu":
        missing = {*target.no_matrix_units} if target else {
            name for name, least in CAPABILITIES.items()
            if any(float(card.capability) < least for card in read_driver().cards)}
    if "bf16" not in missing:
        return ["bf16"], "the device has matrix units for it"
    if "fp16" not in missing:
        return ["fp16", "fp32"], "the card has matrix units for fp16 and none for bf16"
    return ["fp32"], "the card has no matrix units for 16 bits"


def _in_format(recipe: Recipe, compute: str) -> Recipe:
    """The recipe with a format; frozen weights are stored in 16 bits too, unless the recipe gives their format."""
    if compute == recipe.precision.compute:
        return recipe
    formats = {"compute": compute}
    frozen = not recipe.method.trains_all_weights
    if compute != "fp32" and frozen and "parameters" not in recipe.precision.model_fields_set:
        formats["parameters"] = "bf16"
    return recipe.model_copy(update={"precision": recipe.precision.model_copy(update=formats)})


def _measure(candidates: Sequence[Candidate], shape: ModelShape,
             loaded: LoadedRecipe) -> tuple[dict[Candidate, float], str]:
    """Operations a second of each candidate on this CPU, and an empty text; or nothing, and why it was not measured."""
    recipe = loaded.recipe
    update = BatchShape(recipe.batch.accumulation, recipe.batch.micro_batch, recipe.data.max_length)
    operations = step_operations(EngineRequest.of(candidates[0].recipe, shape, device="cpu"), update)
    # With `epochs`, the number of updates is unknown before the data are read.
    if recipe.training.steps and recipe.training.steps * operations < LEAST_OPERATIONS:
        return {}, "not measured, because the run is short"
    # Each process would choose for itself.
    if launched():
        return {}, "not measured, because several processes run it"
    rows = max(1, min(update.rows, MEASURED_TOKENS // update.positions))
    measured_update = BatchShape(1, rows, update.positions)
    return {one: calibrated_throughput(EngineRequest.of(one.recipe, shape, device="cpu"), one.engine, measured_update,
                                       0.5).operations_a_second for one in candidates}, ""


def _measured_reasons(chosen: Candidate, speeds: Mapping[Candidate, float]) -> tuple[str, str]:
    """Why this engine, and why this format: the others' speed as a share of the chosen one's. Empty without others."""
    def compared(others: Iterable[Candidate]) -> str:
        ratios = [f"{one.engine} in {one.compute} reaches {speeds[one] / speeds[chosen]:.2f} of its speed"
                  for one in others]
        return ", ".join([*ratios, "measured now on this machine"]) if ratios else ""

    return (compared(one for one in speeds if one.engine != chosen.engine),
            compared(one for one in speeds if one.engine == chosen.engine and one != chosen))


def _as_overrides(loaded: LoadedRecipe, chosen: Candidate, why_engine: str, why_format: str) -> LoadedRecipe:
    """The choices as overrides, so that the record has them and reproducing does not choose again."""
    recipe, precision = loaded.recipe, chosen.recipe.precision
    choices = [("engine", chosen.engine, why_engine)] if recipe.engine == AUTO else []
    if recipe.precision.compute == AUTO:
        choices.append(("precision.compute", chosen.compute, why_format))
        if precision.parameters != recipe.precision.parameters:
            choices.append(("precision.parameters", precision.parameters, "frozen weights, which no update rounds"))
    words = list(loaded.overrides)
    for key, value, _ in choices:
        words = [*(word for word in words if not word.startswith(f"{key}=")), f"{key}={value}"]
    lines = [f"{key}: {value} (picked by auto: {why})" for key, value, why in choices]
    return replace(loaded, recipe=chosen.recipe.model_copy(update={"engine": chosen.engine}), overrides=tuple(words),
                   chosen=(*loaded.chosen, *lines))


def select_engine(*, refused: Mapping[str, Sequence[str]], installed: Collection[str]) -> tuple[str, str]:
    """The name of the engine that `auto` means, and why. Raises `RequestError` if there is none.

    ``refused``: for each engine, the preferred one first, the features of the recipe that it does not support.
    """
    able = [engine for engine, features in refused.items() if not features]
    if not able:
        reasons = [f"{engine} does not support {' and '.join(features)}" for engine, features in refused.items()]
        raise RequestError(f"no engine supports this recipe: {'; '.join(reasons)}",
                           "features that one engine supports", " or ".join(f"engine={engine}" for engine in refused))
    available = [engine for engine in able if engine in installed]
    # One feature that another engine lacks is reason enough.
    decisive = next((features[-1] for features in refused.values() if features), "")
    if not available:
        needed = f"{decisive} needs" if decisive else "engine: auto means"
        raise RequestError(f"{needed} {' or '.join(able)}, and that is not installed",
                           f"the libraries of {able[0]}", pip_install(able[0]))
    if decisive:
        return available[0], f"the engine for {decisive}"
    if len(available) == 1:
        return available[0], f"the only installed one of {' and '.join(able)}"
    return available[0], f"{' and '.join(available)} work; engine={available[1]} picks the other"
