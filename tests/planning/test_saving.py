"""A checkpoint of several processes: the state and the largest tensor, counted by hand."""

from dataclasses import replace

from tests.planning.planning_helpers import planned_run, recipe
from workings.config.training import CheckpointConfig
from workings.engines.base import Inspection
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import find_target
from workings.planning.breakdown import split_parts
from workings.planning.further_memory import GATHERED, SAVING, with_saving

TORCH, JAX = find_planning_engine("torch"), find_planning_engine("jax")


def step(peak: int) -> dict[str, Inspection]:
    return {"step": Inspection(peak_bytes=peak, source="traced", breakdown={"context": 100, "heap": peak - 100},
                               versions={}, assumed=("context",))}


def test_a_whole_embedding_and_half_of_the_state() -> None:
    run = planned_run(recipe(engine="torch"), "t4x2", fsdp=2)
    # 96 tokens x 16, fp32. Matrices are split in two; three norms of 16 in two layers, and the last one, are whole.
    layer = 2 * 16 * 16 + 2 * 8 * 16 + 3 * 32 * 16
    held = (96 * 16 + 2 * layer) // 2 + 16 * (2 * 2 + 1)
    found = with_saving(run, TORCH, step(200))[SAVING]
    assert found.breakdown == {"parameters": 4 * held, "moments": 8 * held, "context": 100, GATHERED: 4 * 96 * 16}
    assert sum(part.size_bytes for part in split_parts(run, SAVING, found)) == found.peak_bytes


def test_it_is_named_only_where_it_decides() -> None:
    run = planned_run(recipe(engine="torch"), "t4x2", fsdp=2)
    large = step(10**6)
    assert with_saving(run, TORCH, large) == large
    # One process of JAX writes from its own devices; a slice of sixteen chips has several.
    assert with_saving(replace(run, recipe=recipe(engine="jax")), JAX, step(200)) == step(200)
    shards = recipe(engine="torch").model_copy(update={"checkpoint": CheckpointConfig(sharded=True)})
    assert with_saving(replace(run, recipe=shards), TORCH, step(200)) == step(200)
    assert SAVING in with_saving(
        replace(run, recipe=recipe(engine="jax"), target=find_target("v5e-16")), JAX, step(200))
    assert with_saving(planned_run(recipe(engine="torch"), "l4"), TORCH, step(200)) == step(200)
