"""The phase of a step that needs the most, by hand for rows that compilers have said; the recorded error."""

import json
from pathlib import Path

from benchmarks.what_fits import RESULT, recipe_for, row
from workings.hardware.catalog import find_target
from workings.models.shapes import published_shape
from workings.planning.planned_run import engine_request, longest_batch, mesh_of
from workings.planning.step_memory import largest_phase_parts


def fullest(model: str, method: str, length: int, target: str, **memory: int) -> dict[str, int]:
    """Parts of the phase that needs the most, in a row of what fits where."""
    machine = find_target(target)
    recipe = recipe_for(model, method, length, machine)
    recipe = recipe.model_copy(update={"memory": recipe.memory.model_copy(update=memory)})
    request, mesh = engine_request(recipe, published_shape(model), machine), mesh_of(recipe, machine)
    found = largest_phase_parts(request, longest_batch(recipe, mesh.row_devices), *mesh.of_a_copy, machine.platform)
    return {name: size for name, size in found.items() if size}


def test_a_t4_copies_the_head_for_the_loss_of_adapters():
    assert fullest("gemma-3-270m", "lora", 512, "t4") == {
        "activations kept for backward": 18 * 512 * 640 * 4, "logits": 128 * 262144 * (4 + 4),
        "copy of the head for products": 262144 * 640 * 4}


def test_a_head_that_kernels_have_to_pad_is_copied_too():
    assert fullest("gemma-3-4b", "qlora", 512, "rtx5090")["copy of the head for products"] == 262208 * 2560 * 2
    assert "copy of the head for products" not in fullest("gemma-3-4b", "qlora", 512, "v5e-1")


def test_with_full_training_the_gradient_of_the_embedding_comes_last():
    found = fullest("gemma-3-1b", "full-adamw", 2048, "l4")
    table = 262144 * 1152
    assert (found["head gradient in fp32"], found["gradient of the embedding"]) == (4 * table, 2 * table)
    assert "logits" not in found
    # All logits at once are more than all that the layers need.
    assert fullest("gemma-3-1b", "full-adamw", 8192, "l4", loss_chunk=0)["logits"] == 8192 * 262144 * (4 + 2)


def test_a_smaller_chunk_of_the_loss_needs_less():
    sizes = [sum(fullest("gemma-3-270m", "lora", 512, "l4", loss_chunk=chunk).values()) for chunk in (256, 128, 64)]
    assert sizes == sorted(sizes, reverse=True)
    assert len({*sizes}) == 3


def test_gpus_that_share_weights_turn_those_that_they_gather_by_their_last_axis():
    turned = 26 * 2304 * (2 * 9216 + 8 * 256 + 2 * 4 * 256)  # gate and up; queries, keys and values
    assert fullest("gemma-2-2b", "lora", 512, "t4x2")["weights laid out for gathering"] == 2 * turned // 2
    # Four bits and a scale of four bytes for every 64; what is turned is the other way round: outputs and down.
    other = 26 * 2304 * (9216 + 8 * 256) // 2
    assert fullest("gemma-2-2b", "qlora", 512, "t4x2")["weights laid out for gathering"] == other * 9 // 16


def test_on_tpus_that_share_four_bits_one_matrix_is_whole_at_a_time():
    assert fullest("qwen3-1.7b", "qlora", 512, "v5e-8")["weights of the layer at hand"] == 2 * 6144 * 2048


def test_the_recorded_error_is_this_formula_s_and_below_a_tenth():
    values = json.loads(Path(RESULT).read_text("utf-8"))["values"]
    assert values["error"]["percentile_90"] < 0.10
    compiled = [each for each in values["rows"] if each["source"] == "compiled"]
    for each in compiled[::12]:
        key = each["model"], each["method"], each["length"], each["target"]
        assert row(key, compiled=False)["estimated_bytes"] == each["estimated_bytes"], key
