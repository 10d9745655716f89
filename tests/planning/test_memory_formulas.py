"""Bytes from shapes: by hand for a model small enough to count."""

from tests.planning.planning_helpers import recipe, request_of, shape
from workings.engines.base import MeshShape
from workings.hardware.catalog import targets
from workings.models.batch import BatchShape
from workings.models.shapes import parameter_count
from workings.planning.memory_formulas import adapters, exact_parts
from workings.planning.plan import estimate
from workings.planning.planned_run import PlannedRun
from workings.planning.run_time import step_operations, step_seconds

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


def test_a_factored_moment_is_a_row_and_a_column():
    found = exact_parts(request_of(recipe(optimizer={"name": "adafactor"})), (1, 1, 64), 1, 1)
    layer = 2 * 16 + (16 + 16) + 2 * (8 + 16) + (16 + 16) + 3 * (32 + 16)
    assert found["moments"] == 4 * (96 + 16 + 16 + 2 * layer)


def test_accumulation_and_a_master_are_copies():
    found = exact_parts(request_of(recipe(precision={"parameters": "bf16", "rounding": "master_fp32"})),
                        (2, 1, 64), 1, 1)
    assert found["gradient accumulator"] == found["gradients"] == 2 * ELEMENTS
    assert found["master weights"] == 4 * ELEMENTS


def test_operations_by_hand():
    """Forward: 2 x matrix elements x tokens, half of the score matrix twice, and the vocabulary; three passes."""
    matrices = 2 * (16 * 16 + 2 * 8 * 16 + 16 * 16 + 3 * 32 * 16)
    scores = 2 * 2 * 2 * 2 * 8 * (64 * 65 / 2)
    assert step_operations(request_of(recipe()), (1, 1, 64)) == 3 * (
        2 * matrices * 64 + scores + 2 * 96 * 16 * 64)


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
        return [(each.size, each.count) for each in adapters(asked, fsdp, tp)]

    assert pieces(4, 2) == [
        ((2, 16 // 4), layers), ((16 // 8, 2), layers),  # q_proj: its inputs over fsdp, its outputs over both
        ((2, 16 // 8), layers), ((16 // 4, 2), layers)]  # o_proj: the other way round
    assert pieces(5, 1) == 2 * [((2, 16), layers), ((16, 2), layers)], "what does not divide stays whole"
