"""Plans of models whose layers differ: Gemma 4 E2B's parts, counted by hand."""

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest

from tests.planning.planning_helpers import planned_run, recipe
from workings.config.load import load_recipe
from workings.engines.base import EngineRequest, GenerationShape, Inspection, MeshShape
from workings.hardware.catalog import find_target, target_in_name
from workings.models.batch import BatchShape
from workings.models.registry import family_of
from workings.models.shapes import published_shape
from workings.models.weights import parameter_count
from workings.planning.breakdown import split_parts
from workings.planning.forward_memory import forward_program_parts, kv_cache_elements, linear_attention_cache_bytes
from workings.planning.further_memory import model_weight_bytes
from workings.planning.memory_formulas import PER_LAYER_TABLE, checkpoint_bytes, exact_parts, host_parts, layer_tensors
from workings.planning.search import candidates, overrides_between, with_changes
from workings.planning.step_memory import largest_phase_parts
from workings.runs.plan import plan
from workings.ways.parts.teacher import TeacherModel, teacher_request

E2B = published_shape("gemma-4-e2b")
TABLE = 262144 * 35 * 256
"""Numbers of the second table: 256 for each of 35 layers."""
SCALARS = 35
"""The other frozen numbers: one factor a layer."""


def asked(**changes: Any) -> EngineRequest:
    values = {"model": {"source": "scratch", "shape": "gemma-4-e2b"}, "data": {"traces": "addition", "max_length": 512},
              "batch": {"micro_batch": 1}, "memory": {"remat": "layer", "loss_chunk": 128},
              "precision": {"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"}}
    return EngineRequest.of(recipe(**(values | changes)), E2B, device="gpu")


def test_the_table_is_a_part_of_its_own_and_has_neither_gradient_nor_moments() -> None:
    found = exact_parts(asked(), (1, 1, 512), 1, 1)
    trained = parameter_count(E2B) - TABLE - SCALARS
    assert found[PER_LAYER_TABLE] == 2 * TABLE == 4_697_620_480
    assert found["parameters"] == 2 * (parameter_count(E2B) - TABLE)
    assert found["gradients"] == 2 * trained
    assert found["moments"] == 2 * 4 * trained
    # A checkpoint holds the whole model, what is frozen included.
    assert checkpoint_bytes(asked()) == 2 * parameter_count(E2B) + 8 * trained


def test_an_engine_that_splits_nothing_frozen_has_the_table_and_four_bits_whole_on_every_device() -> None:
    """PyTorch: FSDP splits parameters that are trained or frozen, but neither this table nor 4-bit matrices."""
    whole = replace(asked(), split_frozen=False)
    found, split = (exact_parts(each, (1, 8, 512), 8, 1) for each in (whole, asked()))
    assert found.pop(PER_LAYER_TABLE) == 2 * TABLE == 8 * split.pop(PER_LAYER_TABLE)
    assert found == split
    four_bits = asked(method={"name": "qlora"}, precision={"parameters": "bf16", "compute": "bf16"})
    one, each = (exact_parts(replace(four_bits, split_frozen=False), (1, n, 512), n, 1)["parameters"] for n in (1, 8))
    # Embeddings, projections of the per-layer inputs, the vectors and adapters are all that eight devices share.
    matrices = sum(count * (size[0] * size[1] // 2 + 4 * (size[0] * size[1] // 64))
                   for (name, size), count in layer_tensors(E2B).items()
                   if name.removesuffix(".weight") in family_of(E2B).projections)
    assert matrices < each < one
    assert (one - matrices) / 8 < each - matrices < (one - matrices) / 7


def test_the_search_leaves_the_table_on_the_host_first_where_the_engine_can() -> None:
    on_device = with_changes(load_recipe("gemma-4-e2b-lora-t4x2").recipe, {"memory.per_layer_embeddings": "device"})
    target = find_target("t4x2")
    first = overrides_between(on_device, next(candidates(on_device, target, E2B)))
    assert first == ("memory.per_layer_embeddings=host",)
    for other in (candidates(with_changes(on_device, {"engine": "jax"}), target, E2B),
                  candidates(on_device, target, replace(E2B, per_layer_width=0))):
        assert not any("per_layer" in word for each in islice(other, 4) for word in overrides_between(on_device, each))


def test_adapters_of_layers_with_and_without_keys() -> None:
    request = asked(method={"name": "lora", "rank": 4, "target_modules": ["q_proj", "k_proj", "down_proj"]},
                    precision={"parameters": "bf16", "compute": "bf16"})
    elements = 4 * (28 * (1536 + 2048) + 7 * (1536 + 4096)  # queries: 8 heads of 256, in every fifth layer of 512
                    + 12 * (1536 + 256) + 3 * (1536 + 512)  # keys of the first 15 layers alone
                    + 15 * (6144 + 1536) + 20 * (12288 + 1536))
    found = exact_parts(request, (1, 1, 512), 1, 1)
    assert found["gradients"] == 4 * elements
    assert found["moments"] == 8 * elements
    assert found[PER_LAYER_TABLE] == 2 * TABLE
    assert checkpoint_bytes(request) == 12 * elements


def test_the_cache_has_no_slots_for_layers_that_share_and_none_beyond_the_window() -> None:
    # 12 sliding layers keep 512 positions of one head of 256, 3 global ones all positions of one head of 512.
    assert kv_cache_elements(E2B, 2048) == 2 * (12 * 512 * 256 + 3 * 2048 * 512)
    assert kv_cache_elements(E2B, 100) == 2 * 100 * (12 * 256 + 3 * 512)
    found = forward_program_parts(asked(), "generation", GenerationShape(16, 1792, 256), 1, 1, "gpu")
    assert found["cache of keys and values"] == 2 * 16 * kv_cache_elements(E2B, 2048)
    assert found[PER_LAYER_TABLE] == 2 * TABLE
    # Global layers of Gemma 4 31B have 4 heads of 512 in place of 16 of 256; both keep keys and values.
    # Layers with a state have no keys: of Qwen 3.5 2B six attend, with two heads of 256, and 18 keep 16 matrices.
    qwen = published_shape("qwen3.5-2b")
    assert kv_cache_elements(qwen, 2048) == 2 * 6 * 2048 * 2 * 256
    assert linear_attention_cache_bytes(qwen, 2) == 18 * (4 * 16 * 128 * 128 + 2 * 4 * 3 * 2048)
    assert kv_cache_elements(published_shape("gemma-4-31b"), 4096) == 2 * (50 * 1024 * 16 * 256 + 10 * 4096 * 4 * 512)


def test_activations_are_those_of_the_widest_layer() -> None:
    # Of 512 tokens: 35 kept inputs, two layers at work with global heads and twice the feed-forward, and next to them
    # per-layer embeddings, two layers' keys and values that others use, and the gradients of both.
    widest = 512 * (4 * 1536 + 2 * 8 * 512 + 3 * 12288)
    extra = 2 * 512 * (35 * 256 + 2 * 256 + 2 * 512)
    lora = asked(method={"name": "lora"}, precision={"parameters": "bf16", "compute": "bf16"}, memory={
        "remat": "layer", "loss_chunk": 8})
    found = largest_phase_parts(lora, (1, 1, 512), 1, 1, "tpu")
    assert found["activations kept for backward"] == 2 * 35 * 512 * 1536
    assert found["activations of the layer at hand"] == 2 * (2 * widest + extra)


def test_parts_of_a_compiler_that_counts_the_table_among_the_parameters() -> None:
    every = 2 * parameter_count(E2B)
    found = Inspection(peak_bytes=every + 3000, source="compiled", versions={}, breakdown={"temporaries": 2000},
                       exact={"parameters": every, "moments": 1000})
    run = replace(planned_run(recipe(), "l4", request=asked()), programs={"step": BatchShape(1, 1, 512)})
    parts = {part.name: part.size_bytes for part in split_parts(run, "step", found) if part.certainty == "exact"}
    assert parts == {"parameters": every - 2 * TABLE, PER_LAYER_TABLE: 2 * TABLE, "moments": 1000}
    # While a teacher is asked, the parameters are the teacher's.
    asked_about = split_parts(run, "teacher", found)
    assert {part.name: part.size_bytes for part in asked_about}["parameters"] == every


def test_on_the_host_the_table_takes_nothing_of_the_device() -> None:
    host = asked(memory={"remat": "layer", "loss_chunk": 128, "per_layer_embeddings": "host"}, engine="torch")
    here, there = (exact_parts(request, (1, 1, 512), 1, 1) for request in (asked(), host))
    assert sum(here.values()) - sum(there.values()) == 2 * TABLE
    assert PER_LAYER_TABLE not in there
    assert checkpoint_bytes(host) == checkpoint_bytes(asked())
    assert host_parts(asked(), 2) == {}
    # Each process keeps it whole, and sends the rows of its tokens to its device.
    assert host_parts(host, 2) == {PER_LAYER_TABLE: 2 * 2 * TABLE}


def test_a_teacher_is_counted_with_its_table() -> None:
    assert model_weight_bytes(asked(), MeshShape(1, 1)) == 2 * parameter_count(E2B)
    # On the host is only the table of a teacher that has one; to ask that of another would be refused.
    host = asked(memory={"per_layer_embeddings": "host"}, engine="torch")
    theirs = teacher_request(host, TeacherModel(shape=E2B), "bf16")
    assert model_weight_bytes(theirs, MeshShape(1, 1)) == 2 * (parameter_count(E2B) - TABLE)
    other = teacher_request(host, TeacherModel(shape=published_shape("gemma-3-1b")), "bf16")
    assert other.memory.per_layer_embeddings == "device"


@pytest.mark.full
@pytest.mark.parametrize("name", [
    "gemma-4-e2b-lora-t4x2", "gemma-4-e2b-lora-rtx5090", "gemma-4-e2b-t4x2", "gemma-4-e2b-rtx5090",
    "gemma-4-e4b-qlora-rtx5090", "gemma-3-270m-t4", "qwen3-1.7b-lora-t4", "qwen3.5-2b-lora-t4"])
def test_shipped_recipes_of_pytorch_fit_by_trace(name: str) -> None:
    pytest.importorskip("torch")
    found = plan(name, target_in_name(name), nearest=False)
    assert (found.verdict.fits, found.verdict.marginal, found.verdict.source) == (True, False, "traced")
    # What is on the card is a part of the trace; what is on the host is not one.
    assert (PER_LAYER_TABLE in {part.name for part in found.parts}) == ("gemma-4" in name and not found.host_parts)
