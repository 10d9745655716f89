"""Counts of operations: by hand, against the rule of six, and against a compiler's own count."""

from dataclasses import replace

import pytest

from proof.chip.speed import projection_operations, step_operations
from workings.models.operations import attention_operations, outer_weights_met, pairs, weights_met, weights_read
from workings.models.shapes import published_shape
from workings.models.weights import parameter_count


def test_pairs_by_hand() -> None:
    """Four tokens: 1 + 2 + 3 + 4 pairs; with a window of two: 1 + 2 + 2 + 2."""
    assert pairs(4) == 10
    assert pairs(4, 2) == 7
    assert pairs(4, 9) == 10


def test_one_layer_by_hand() -> None:
    """Width 2, one head of size 2, feed-forward 3: matrices of 4 x 4 + 3 x 6 = 34 weights, two operations each."""
    shape = replace(published_shape("gemma-2b"), layers=1, width=2, heads=1, kv_heads=1, head_dim=2, mlp_width=3)
    assert projection_operations(shape) == 2 * 34
    # 10 pairs, two products of two operations over two numbers.
    assert attention_operations(shape, 4) == 10 * 2 * 2 * 2
    assert attention_operations(shape, 4, square=True) == 16 * 2 * 2 * 2


def test_layers_that_differ_by_hand() -> None:
    """Gemma 4 E2B: 15 layers with keys, 20 without and with twice the feed-forward; every fifth has heads of 512."""
    shape = published_shape("gemma-4-e2b")
    sliding, wide = 8 * 256 * 1536 * 2, 8 * 512 * 1536 * 2  # queries and output
    keys, wide_keys = 2 * 256 * 1536, 2 * 512 * 1536
    gate_and_back = 2 * 256 * 1536
    layers = 28 * sliding + 7 * wide + 12 * keys + 3 * wide_keys + 3 * 1536 * (15 * 6144 + 20 * 12288)
    assert weights_met(shape) == layers + 35 * gate_and_back
    assert outer_weights_met(shape) == 35 * 256 * 1536
    # Each query head meets 10 pairs of 4 tokens; 28 layers have heads of 256 numbers, 7 of 512.
    assert attention_operations(shape, 4) == 10 * 4 * 8 * (28 * 256 + 7 * 512)
    assert weights_read(shape) == parameter_count(shape) - 262144 * 35 * 256


def test_layers_with_a_state_by_hand() -> None:
    """Qwen 3.5 4B: 24 layers with 32 heads of 128 x 128, and 8 that attend with 16 heads of 256 and gated queries."""
    shape = published_shape("qwen3.5-4b")
    state = 2560 * (2 * 16 * 128 + 2 * 32 * 128 + 2 * 32) + 32 * 128 * 2560  # in (qkv, z, b, a) and out
    attention = 2560 * (2 * 16 + 2 * 4) * 256 + 16 * 256 * 2560
    assert weights_met(shape) == 24 * state + 8 * attention + 32 * 3 * 2560 * 9216
    # A token's key meets the matrix, what it lacks is added, its query meets it: two operations a number each.
    assert attention_operations(shape, 4) == 4 * 24 * 32 * 6 * 128 * 128 + 8 * 10 * 4 * 16 * 256


def test_of_experts_only_those_count_that_a_token_goes_through() -> None:
    """Gemma 4 26B-A4B: 8 of 128 experts, three matrices of 704 x 2816 each."""
    shape = published_shape("gemma-4-26b-a4b")
    dense = replace(shape, experts=0, experts_per_token=0, expert_width=0)
    expert, router = 3 * 704 * 2816, 128 * 2816
    assert weights_met(shape) - weights_met(dense) == 30 * (8 * expert + router)
    assert parameter_count(shape) - weights_read(shape) == 30 * 120 * expert
    # Without norms these are the four billion that the model's name promises.
    assert 3.5e9 < weights_read(shape) < 4.5e9


@pytest.mark.slow
def test_the_formula_equals_the_compilers_count_to_two_percent() -> None:
    """Loss and gradient of a two-layer model, written out (no loop), plain attention."""
    jax = pytest.importorskip("jax")
    from tests.engines.tiny import random_batch, request, tiny_shape
    from workings.engines.jax.engine import JaxEngine
    from workings.engines.jax.step import gradients

    shape = tiny_shape("gemma3", vocab=2048, width=256, mlp_width=1024, heads=4, kv_heads=2, head_dim=64)
    engine = JaxEngine.open(request(shape))
    batch = random_batch(shape, rows=2, length=64)
    program = jax.jit(lambda params, arrays: gradients(engine.spec, params, arrays, batch.divisor))
    counted = program.lower(engine.abstract_state["params"], batch.arrays).compile().cost_analysis()["flops"]
    assert step_operations(shape, [64, 64], square=True) == pytest.approx(counted, rel=0.02)
