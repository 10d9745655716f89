"""Table of the models that fit on machines, for a training step of one sequence per device.

Every cell is an estimate by formula, of the shipped recipe ``smoke-tiny`` with overrides (`cell_overrides`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from workings.config.load import load_recipe
from workings.config.recipe import Recipe
from workings.engines.registry import find_planning_engine
from workings.errors import RequestError
from workings.hardware.catalog import Target
from workings.models.shapes import published_shape
from workings.planning.plan import estimate, target_device
from workings.planning.planned_run import PlannedRun
from workings.planning.verdict import Verdict, memory_verdict

BASE_RECIPE = "smoke-tiny"
"""The shipped recipe that a cell changes."""
METHODS: Mapping[str, tuple[str, ...]] = {
    "full, Adafactor": ("optimizer={name: adafactor}",
                        "precision={parameters: bf16, compute: COMPUTE, rounding: stochastic}"),
    "full, AdamW": ("optimizer={name: adamw}",
                    "precision={parameters: bf16, compute: COMPUTE, moments: bf16, rounding: stochastic}"),
    "LoRA": ("method={name: lora, rank: 16}", "precision={parameters: bf16, compute: COMPUTE}"),
    "QLoRA": ("method={name: qlora, rank: 16}", "precision={parameters: bf16, compute: COMPUTE}")}
"""Overrides by name of a training method; `cell_overrides` replaces ``COMPUTE`` by a number format."""


class MatrixCell(NamedTuple):
    """One model on one machine. Bytes are per device."""

    model: str
    target: str
    verdict: Verdict | None
    """None if the model cannot run on the machine at all."""
    why: str = ""
    """The reason for that."""


def cell_overrides(model: str, method: str, length: int, target: Target) -> tuple[str, ...]:
    """Overrides of `workings plan smoke-tiny … --on TARGET` for a cell: everything that saves memory is on."""
    # GPUs without matrix units for bf16 emulate it, which is slower than fp32.
    compute = "fp32" if target.platform == "gpu" and "bf16" in target.no_matrix_units else "bf16"
    # A single answer of one token needs less memory than the step, so the step decides.
    return (f"model={{source: scratch, shape: {model}}}", f"data.max_length={length}", "batch.micro_batch=1",
            "memory.remat=layer", "memory.loss_chunk=128", "evaluation.max_new_tokens=1", "evaluation.batch_size=1",
            *(word.replace("COMPUTE", compute) for word in METHODS[method]))


def matrix_cells(models: Sequence[str], method: str, length: int, machines: Sequence[Target]) -> Iterator[MatrixCell]:
    """Cells of the first model on all machines, then of the next model; ``length``: tokens of a row."""
    engine = find_planning_engine(_recipe(()).engine)
    for model in models:
        for target in machines:
            recipe = _recipe(cell_overrides(model, method, length, target))
            try:
                run = PlannedRun.on_target(recipe, published_shape(model), target)
            except RequestError as error:
                yield MatrixCell(model, target.name, None, why=f"{error.given}; expected {error.expected}")
                continue
            step = estimate(run)
            device = target_device(target, step, run.mesh, engine)
            yield MatrixCell(model, target.name, memory_verdict(step, device))


@cache
def _recipe(changes: tuple[str, ...]) -> Recipe:
    # Many cells have the same overrides, and reading a recipe takes longer than the formula.
    return load_recipe(BASE_RECIPE, changes).recipe
