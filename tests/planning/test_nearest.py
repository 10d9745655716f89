"""What the search proposes, next to what a person would do. The formula replaces the compiler, which is slow."""

from types import SimpleNamespace

import pytest

from workings.config.load import load_recipe
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import find_target
from workings.models.shapes import published_shape
from workings.planning import search
from workings.planning.planned_run import longest_batch, mesh_of

ADAMW = "optimizer={name: adamw}"
FLOAT32 = ("precision.parameters=fp32", "precision.rounding=nearest")
ADAFACTOR = "optimizer={name: adafactor}"
LONG = "evaluation.max_new_tokens=16384"


@pytest.fixture(autouse=True)
def by_formula(monkeypatch):
    monkeypatch.setattr(search, "make_plan", lambda recipe, shape, target, **more: formula_plan(recipe, shape, target))


def formula_plan(recipe, shape, target):
    needs = search.estimated_programs(recipe, shape, target)
    program = max(needs, key=needs.get)
    limit = find_planning_engine(recipe.engine).usable_memory(target)[0]
    verdict = SimpleNamespace(fits=needs[program] <= limit, peak_bytes=needs[program], limit_bytes=limit,
                              source="estimated")
    batch = longest_batch(recipe, mesh_of(recipe, target).row_devices)
    return SimpleNamespace(verdict=verdict, program=program, batch=batch)


@pytest.mark.parametrize(("name", "model", "machine", "asked", "nearest"), [
    # Full AdamW on one chip: another optimizer and shorter turns of evaluation, not another method.
    ("gemma-2b-v5e8", "gemma-2b", "v5e-1", [ADAMW, LONG], ["evaluation.batch_size=16", ADAFACTOR]),
    # Only answering does not fit: training stays as it is.
    ("gemma-2b-v5e8", "gemma-2b", "v5e-1", [LONG], ["evaluation.batch_size=16"]),
    # Answering fits already: it stays as it is.
    ("gemma-2b-v5e8", "gemma-2b", "v5e-1", [ADAMW], [ADAFACTOR]),
    # Devices that are idle are used before anything is changed.
    ("gemma-2b-v5e8", "gemma-2b", "v5e-4", ["mesh.fsdp=1", ADAMW], ["mesh.fsdp=auto"]),
    # A copy on each device: one copy, split over all of them, with the same rows.
    ("gemma-2b-v5e8", "gemma-2b", "v5e-8", ["mesh.replicate=8", ADAMW], ["mesh.replicate=1"]),
    # Too many rows at a time: fewer, twice as often.
    ("gemma-2b-v5e8", "gemma-2b", "v5e-8", ["batch.micro_batch=64"],
     ["batch.micro_batch=32", "batch.accumulation=2"]),
    # A second copy of the gradients is given up before the optimizer is.
    ("gemma-2b-rtx5090", "gemma-2b", "t4", [], ["batch.micro_batch=4", "batch.accumulation=1"]),
    ("gemma-2b-rtx5090", "gemma-2b", "rtx4090", [ADAMW], [ADAFACTOR]),
    ("gemma-3-1b-v5e8", "gemma-3-1b", "v5e-1",
     [*FLOAT32, ADAMW, "evaluation.batch_size=256", "evaluation.max_new_tokens=1024"],
     ["evaluation.batch_size=64"]),
    # The logits of all positions at once: in pieces, and answers in smaller turns.
    ("gemma-3-1b-v5e8", "gemma-3-1b", "v5e-1",
     ["batch.micro_batch=16", "memory.loss_chunk=0", "evaluation.batch_size=256", "evaluation.max_new_tokens=2048"],
     ["memory.loss_chunk=128", "evaluation.batch_size=64"]),
])
def test_the_nearest_plan_is_what_a_person_would_do(name, model, machine, asked, nearest):
    recipe, shape, target = load_recipe(name, asked).recipe, published_shape(model), find_target(machine)
    before = formula_plan(recipe, shape, target)
    assert not before.verdict.fits
    assert search.find_nearest(recipe, shape, target, before).overrides == tuple(nearest)
