"""Bytes from shapes: by hand for a model small enough to count, and for rows that compilers have said."""

import json
from pathlib import Path

import pytest

from benchmarks.what_fits import recipe_for, row
from tests.planning.planning_helpers import recipe, request_of, shape
from workings.config.training import PrecisionConfig
from workings.engines.base import EngineRequest, GenerationShape, MeshShape
from workings.hardware.catalog import find_target, targets
from workings.hardware.device import DeviceFacts
from workings.models.batch import BatchShape
from workings.models.shape import ModelShape
from workings.models.shapes import published_shape
from workings.models.weights import parameter_count
from workings.planning.forward_memory import forward_program_parts
from workings.planning.memory_formulas import adapters, exact_parts
from workings.planning.plan import estimate
from workings.planning.planned_run import PlannedRun, engine_request, longest_batch, mesh_of
from workings.planning.run_time import step_operations, step_seconds
from workings.planning.step_memory import largest_phase_parts
from workings.runs.sample import completions_at_a_time

ELEMENTS = 96 * 16 + 16 + 2 * (2 * 16 + 16 * 16 + 2 * 8 * 16 + 16 * 16 + 3 * 32 * 16)
"""Embedding, final norm; per layer two norms, q, k and v, o, three feed-forward matrices."""


def test_one_device_holds_everything():
    found = exact_parts(request_of(recipe()), (1, 4, 64), 1, 1)
    assert parameter_count(shape()) == ELEMENTS
    assert found == {"parameters": 4 * ELEMENTS, "moments": 8 * ELEMENTS, "gradients": 4 * ELEMENTS,
                     "batch": 5 * 4 * 4 * 64}


def test_each_of_two_copies_needs_what_it_would_alone():
    """On eight devices, and one of them on four. The rows of an update are twice as many."""
    two, one = (PlannedRun.on_target(recipe(mesh={"replicate": copies}, evaluation={"items": "items.jsonl"}), shape(),
                                     targets()[name]) for copies, name in ((2, "v5e-8"), (1, "v5e-4")))
    assert two.step.rows == 2 * one.step.rows
    assert estimate(two) == estimate(one)
    # As many prompts as before are shared by twice as many devices.
    assert estimate(two, "generation").breakdown["logits"] * 2 == estimate(one, "generation").breakdown["logits"]


def test_eight_devices_share_matrices_and_copy_vectors():
    found = exact_parts(request_of(recipe()), (1, 32, 64), 8, 1)
    vectors = 16 + 2 * 2 * 16
    assert found["parameters"] == 4 * ((ELEMENTS - vectors) // 8 + vectors)
    assert found["batch"] == 5 * 4 * 4 * 64


def test_a_factored_moment_is_a_row_and_a_column_and_accumulation_and_a_master_are_copies():
    found = exact_parts(request_of(recipe(optimizer={"name": "adafactor"}, precision={
        "parameters": "bf16", "rounding": "master_fp32"})), (2, 1, 64), 1, 1)
    layer = 2 * 16 + (16 + 16) + 2 * (8 + 16) + (16 + 16) + 3 * (32 + 16)
    assert found["moments"] == 4 * (96 + 16 + 16 + 2 * layer)
    assert found["gradient accumulator"] == found["gradients"] == 2 * ELEMENTS
    assert found["master weights"] == 4 * ELEMENTS


def test_operations_by_hand():
    """Forward: 2 x matrix elements x tokens, half of the score matrix twice, and the vocabulary; three passes, four
    of the layers with `remat: layer`."""
    matrices = 2 * (16 * 16 + 2 * 8 * 16 + 16 * 16 + 3 * 32 * 16)
    scores = 2 * 2 * 2 * 2 * 8 * (64 * 65 / 2)
    layers, head = 2 * matrices * 64 + scores, 2 * 96 * 16 * 64
    for remat, passes in (("none", 3), ("layer", 4)):
        asked = request_of(recipe(memory={"attention": "plain", "remat": remat}))
        assert step_operations(asked, (1, 1, 64)) == passes * layers + 3 * head


def test_a_step_time_needs_a_rate():
    bf16 = request_of(recipe(precision={"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"}))
    seconds, how = step_seconds(bf16, BatchShape(1, 8, 64), targets()["t4"], MeshShape(1, 1))
    assert seconds is None
    assert "no bf16 rate for t4" in how


def test_adapters_are_split_as_the_engine_splits_them():
    """On a mesh of fsdp 4 and tp 2: a side that its projection leaves whole is split over fsdp."""
    asked = request_of(recipe(method={"name": "lora", "rank": 2, "target_modules": ["q_proj", "o_proj"]}))
    layers = asked.shape.layers

    def pieces(fsdp: int, tp: int) -> list[tuple[tuple[int, ...], int]]:
        return [(each.dims, each.count) for each in adapters(asked, fsdp, tp)]

    assert pieces(4, 2) == [
        ((2, 16 // 4), layers), ((16 // 8, 2), layers),  # q_proj: its inputs over fsdp, its outputs over both
        ((2, 16 // 8), layers), ((16 // 4, 2), layers)]  # o_proj: the other way round
    assert pieces(5, 1) == 2 * [((2, 16), layers), ((16, 2), layers)], "what does not divide stays whole"


def fullest(model: str, method: str, length: int, target: str, **memory: int) -> dict[str, int]:
    """Parts of the phase that needs the most, in a row of what fits where."""
    machine = find_target(target)
    recipe = recipe_for(model, method, length, machine)
    recipe = recipe.model_copy(update={"memory": recipe.memory.model_copy(update=memory)})
    request, mesh = engine_request(recipe, published_shape(model), machine), mesh_of(recipe, machine)
    found = largest_phase_parts(request, longest_batch(recipe, mesh.row_devices), *mesh.of_a_copy, machine.platform)
    return {name: size for name, size in found.items() if size}


def test_the_head_is_copied_for_the_loss_of_adapters_in_another_format_or_a_size_that_kernels_have_to_pad():
    assert fullest("gemma-3-270m", "lora", 512, "t4") == {
        "activations kept for backward": 18 * 512 * 640 * 4, "logits": 128 * 262144 * (4 + 4),
        "copy of the head for products": 262144 * 640 * 4}
    assert fullest("gemma-3-4b", "qlora", 512, "rtx5090")["copy of the head for products"] == 262208 * 2560 * 2
    assert "copy of the head for products" not in fullest("gemma-3-4b", "qlora", 512, "v5e-1")


def test_with_full_training_the_gradient_of_the_embedding_comes_last():
    found = fullest("gemma-3-1b", "full-adamw", 2048, "l4")
    table = 262144 * 1152
    assert (found["head gradient in fp32"], found["gradient of the embedding"]) == (4 * table, 2 * table)
    assert "logits" not in found
    # All logits at once are more than all that the layers need.
    assert fullest("gemma-3-1b", "full-adamw", 8192, "l4", loss_chunk=0)["logits"] == 8192 * 262144 * (4 + 2)


def test_gpus_that_share_weights_turn_those_that_they_gather_by_their_last_axis_and_tpus_gather_one_matrix():
    turned = 26 * 2304 * (2 * 9216 + 8 * 256 + 2 * 4 * 256)  # gate and up; queries, keys and values
    assert fullest("gemma-2-2b", "lora", 512, "t4x2")["weights laid out for gathering"] == 2 * turned // 2
    # Four bits and a scale of four bytes for every 64; what is turned is the other way round: outputs and down.
    other = 26 * 2304 * (9216 + 8 * 256) // 2
    assert fullest("gemma-2-2b", "qlora", 512, "t4x2")["weights laid out for gathering"] == other * 9 // 16
    assert fullest("qwen3-1.7b", "qlora", 512, "v5e-8")["weights of the layer at hand"] == 2 * 6144 * 2048


def test_the_recorded_error_is_this_formula_s_and_below_a_tenth():
    values = json.loads(Path("benchmarks/results/what_fits.json").read_text("utf-8"))["values"]
    assert values["error"]["percentile_90"] < 0.10
    compiled = [each for each in values["rows"] if each["source"] == "compiled"]
    for each in compiled[::12]:
        key = each["model"], each["method"], each["length"], each["target"]
        assert row(key, compiled=False)["estimated_bytes"] == each["estimated_bytes"], key


REQUEST = EngineRequest(
    shape=ModelShape(family="gemma", layers=4, width=256, mlp_width=512, heads=4, kv_heads=2, head_dim=64,
                     vocab_size=1000, context=4096),
    device="gpu", precision=PrecisionConfig())


def device(limit: int) -> DeviceFacts:
    return DeviceFacts(platform="gpu", kind="test", count=1, memory_limit_bytes=limit, memory_limit_source="the test",
                       mesh={"fsdp": 1, "tp": 1}, versions={}, reason="test")


def held(rows: int, *, moments: bool) -> int:
    """Bytes for this many prompts of 128 tokens and 200 new tokens."""
    parts = forward_program_parts(REQUEST, "drawing", GenerationShape(rows, 128, 200), 1, 1, "gpu")
    return sum(size for name, size in parts.items() if moments or name != "moments")


@pytest.mark.parametrize("rows", [1, 16, 64])
@pytest.mark.parametrize("moments", [True, False])
def test_the_largest_power_of_two_below_nine_tenths_of_the_memory(rows: int, moments: bool) -> None:
    asked = {"longest": 100, "new_tokens": 200, "can_train": moments}
    limit = int(held(rows, moments=moments) / 0.9) + 1
    found, why = completions_at_a_time(REQUEST, device(limit), **asked)
    assert (found, f"{rows} completions at a time: fits" in why, "estimated" in why) == (rows, True, True)
    assert completions_at_a_time(REQUEST, device(held(rows, moments=moments)), **asked)[0] == max(1, rows // 2)


def test_never_more_than_an_engine_answers_at_a_time_and_never_none() -> None:
    assert completions_at_a_time(REQUEST, device(1 << 50), longest=100, new_tokens=200, can_train=True)[0] == 128
    one, why = completions_at_a_time(REQUEST, device(1000), longest=100, new_tokens=200, can_train=True)
    assert (one, "does not fit" in why) == (1, True)
