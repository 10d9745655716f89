"""Which models fit on which machines: a training step of one sequence a device, at once.

Every cell is an ordinary plan of the shipped recipe ``smoke-tiny`` with `words` of its own. So what `workings plan`
said about it is shown in place of the formula's answer as soon as it is kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from workings.config.load import load_recipe
from workings.config.recipe import Recipe
from workings.engines.base import PlanningEngine
from workings.engines.registry import find_planning_engine
from workings.errors import RequestError
from workings.hardware.catalog import Target
from workings.models.shapes import published_shape
from workings.planning.inspecting import kept_inspections
from workings.planning.plan import device_of, estimate
from workings.planning.request import engine_request, longest_batch, mesh_of, programs_of
from workings.planning.verdict import Verdict, judge

BASE = "smoke-tiny"
"""The shipped recipe that a cell changes."""
METHODS: Mapping[str, tuple[str, ...]] = {
    "full, Adafactor": ("optimizer={name: adafactor}", "precision={parameters: bf16, compute: COMPUTE, "
                        "rounding: stochastic}"),
    "full, AdamW": ("optimizer={name: adamw}", "precision={parameters: bf16, compute: COMPUTE, moments: bf16, "
                    "rounding: stochastic}"),
    "LoRA": ("method={name: lora, rank: 16}", "precision={parameters: bf16, compute: COMPUTE}"),
    "QLoRA": ("method={name: qlora, rank: 16}", "precision={parameters: bf16, compute: COMPUTE}"),
}
"""How a model is trained, and what a recipe says of it."""


@dataclass(frozen=True, kw_only=True)
class MatrixCell:
    """One model, trained by one method with rows of one length, on one machine. Bytes are per device."""

    model: str
    method: str
    length: int
    target: str
    verdict: Verdict | None
    """None where the question makes no sense; ``why`` says so."""
    why: str = ""


def words(model: str, method: str, length: int, target: Target) -> tuple[str, ...]:
    """What `workings plan smoke-tiny … --on TARGET` is told for a cell: everything that saves memory is on."""
    compute = "fp32" if target.platform == "gpu" and "bf16" in target.no_matrix_units else "bf16"
    # A single short answer needs less than the step, so the step decides.
    return (f"model={{source: scratch, shape: {model}}}", f"data.max_length={length}", "batch.micro_batch=1",
            "memory.remat=layer", "memory.loss_chunk=128", "evaluation.max_new_tokens=1", "evaluation.batch_size=1",
            *(word.replace("COMPUTE", compute) for word in METHODS[method]))


def cells(models: Sequence[str], methods: Sequence[str], length: int,
          machines: Sequence[Target]) -> Iterator[MatrixCell]:
    """A cell for every model, method and machine, in that order: by formula, or as it was planned before."""
    engine = find_planning_engine(_recipe(()).engine)  # looking for it reads every package's entry points
    # Once a machine and not once a cell: a key reads the engine's source and the versions of its libraries.
    keys = {target.name: engine.inspection_key(target) for target in machines} if engine is not None else {}
    for model in models:
        for method in methods:
            for target in machines:
                yield _cell(model, method, length, target, engine, keys.get(target.name, {}))


@cache
def _recipe(changes: tuple[str, ...]) -> Recipe:
    # Most machines share one, and reading it takes longer than the formula.
    return load_recipe(BASE, changes).recipe


def _cell(model: str, method: str, length: int, target: Target, engine: PlanningEngine | None,
          key: Mapping[str, Any]) -> MatrixCell:
    recipe = _recipe(words(model, method, length, target))
    try:
        request, mesh = engine_request(recipe, published_shape(model), target), mesh_of(recipe, target)
    except RequestError as error:
        return MatrixCell(model=model, method=method, length=length, target=target.name, verdict=None,
                          why=f"{error.given}; expected {error.expected}")
    programs = programs_of(recipe, mesh.fsdp)
    kept = kept_inspections(engine, request, programs, key) if engine is not None else {}
    if kept:
        worst = max(kept.values(), key=lambda one: one.peak_bytes)
    else:
        worst = estimate(request, longest_batch(recipe, mesh.fsdp), mesh, target)
    return MatrixCell(model=model, method=method, length=length, target=target.name,
                      verdict=judge(worst, device_of(target, worst, mesh, engine)))
