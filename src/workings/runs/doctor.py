"""`doctor`: problems of this machine for a recipe, why they matter, and the commands that fix them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe, load_recipe
from workings.config.training import BYTES_OF_FORMAT
from workings.doctor.finding import Finding
from workings.doctor.kernels import check_kernels
from workings.doctor.machine import Needs, check_disk, check_host, check_kaggle, check_tpu, tpu_devices
from workings.doctor.nvidia import WHEEL, check_cards, read_driver, torch_wheel
from workings.doctor.versions import check_versions
from workings.engines.base import EngineRequest
from workings.engines.hardware_probe import accelerators
from workings.engines.registry import engine_libraries
from workings.errors import RequestError
from workings.hardware.memory import host_memory
from workings.inputs.resolve import find_shape
from workings.models.weights import parameter_count
from workings.planning.memory_formulas import checkpoint_bytes
from workings.record.environment import installed_version
from workings.runs.choices import with_choices
from workings.runs.create_or_resume import RUNS


@dataclass(frozen=True, kw_only=True)
class Examination:
    """The findings of `doctor`."""

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> int:
        """Number of problems."""
        return sum(finding.judgement == "problem" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Keys of `doctor --json`."""
        return {"problems": self.problems, "findings": [finding.to_json() for finding in self.findings]}

    def text(self) -> str:
        """The findings as text."""
        lines = [line for finding in self.findings for line in finding.lines()]
        end = "1 problem found" if self.problems == 1 else f"{self.problems or 'no'} problems found"
        return "\n".join([*lines, "", end])


def doctor(recipe: str | LoadedRecipe | None = None, *, out: Path = RUNS, kernels: bool = True) -> Examination:
    """Examines this machine, for a recipe if one is given. Raises `RequestError` for a wrong recipe.

    ``kernels``: run a real kernel through each engine; `train` runs its own instead.
    """
    if recipe is None:
        return Examination(findings=tuple(_findings(None, out, kernels)))
    given = load_recipe(recipe)
    loaded = with_choices(given)
    # The caller has made, and recorded, those that ``given`` has already.
    choices = [Finding(id="choice", judgement="fine", what=line, why="a run of this recipe takes it and records it")
               for line in loaded.chosen[len(given.chosen):]]
    return Examination(findings=(*choices, *_findings(loaded, out, kernels)))


def _findings(loaded: LoadedRecipe | None, out: Path, kernels: bool) -> Iterator[Finding]:
    recipe = loaded.recipe if loaded else None
    present, driver = accelerators(), read_driver()
    seen = ", ".join(f"{platform.upper()} at {path}" for platform, path in present.items())
    yield Finding(id="hardware", judgement="fine", what=seen or "no accelerator: runs take the CPU",
                  why="device: auto uses the accelerator, and stops if that is impossible")
    if "tpu" in present:
        yield from check_tpu(tpu_devices())
    has_card = "gpu" in present or bool(driver.cards)
    # PyTorch runs in its own process, which takes seconds: only if there is a GPU that it would use.
    uses_torch = has_card and bool(installed_version(WHEEL)) and (
        recipe is None or WHEEL in engine_libraries(recipe.engine))
    yield from check_cards(driver, present, torch_wheel() if uses_torch else {})
    yield from check_versions(present)
    if kernels:
        yield from check_kernels([recipe.engine] if recipe else [], recipe.device if recipe else "auto",
                                 [recipe.precision.compute] if recipe else ["fp32", "bf16"])
    needs = _needs(loaded) if loaded else None
    yield from check_host(host_memory(), needs)
    yield from check_disk(out, needs)
    yield from check_kaggle(out)


def _needs(loaded: LoadedRecipe) -> Needs | None:
    """Bytes of a recipe's checkpoints and weights; None if its shape is unknown without a download."""
    recipe = loaded.recipe
    try:
        shape = find_shape(loaded)
    except RequestError:
        return None
    return Needs(checkpoint_bytes=checkpoint_bytes(EngineRequest.of(recipe, shape)), kept=recipe.checkpoint.keep_last,
                 weights_bytes=parameter_count(shape) * BYTES_OF_FORMAT[recipe.precision.parameters],
                 recipe=recipe.name)
