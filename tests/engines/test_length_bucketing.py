"""Completions in micro batches of like length: the same update on a CPU, and the rows in their order again."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.engines.tiny import random_batch, request, tiny_shape, with_signals
from workings.engines.jax.cpu.prefix_sharing import batch_arrays
from workings.engines.jax.engine import JaxEngine
from workings.engines.length_bucketing import LengthBuckets, rows_at_a_time
from workings.engines.prefix_sharing import PrefixSharing
from workings.engines.torch.engine import TorchEngine
from workings.models.batch import Batch
from workings.objectives.policy_gradient import PolicyGradient

SHAPE = tiny_shape("gemma2")
OBJECTIVES = {"grpo": PolicyGradient(normalize="sequences"),
              "gspo": PolicyGradient(ratio="sequence", normalize="sequences", clip_low=0.05, clip_high=0.05),
              "cispo": PolicyGradient(bound="detached", clip_high=0.1)}


def completions(micro: int = 3, rows: int = 4, length: int = 40) -> Batch:
    """Rows of many lengths, one without any token, of which the second halves are supervised; two begin alike."""
    batch = random_batch(SHAPE, micro=micro, rows=rows, length=length, seed=2)
    lengths = np.count_nonzero(batch.segment_ids, -1, keepdims=True)
    lengths[0, 1] = 0
    real = np.arange(length) < lengths
    mask = (real & (np.arange(length) >= lengths // 2)).astype(np.float32)
    batch.tokens[-1, -1, :5] = batch.tokens[0, 0, :5]
    plain = replace(batch, loss_mask=mask, segment_ids=real.astype(np.int32), tokens=batch.tokens * real,
                    targets=np.where(mask > 0, batch.tokens, 0), positions=np.arange(length, dtype=np.int32) * real)
    return with_signals(plain, -4 * mask, divided_by=7.0)


def test_rows_of_like_length_are_together_and_come_back_in_their_order() -> None:
    batch = completions().with_loss_positions(25)
    parts = LengthBuckets.from_batch(batch, lambda length: -(-length // 8) * 8)
    lengths = np.count_nonzero(batch.segment_ids, -1).reshape(-1)
    longest = np.sort(lengths).reshape(3, 4)[:, -1]
    assert [part.tokens.shape for part in parts.batches] == [(1, 4, min(40, -(-x // 8) * 8)) for x in longest]
    assert {part.divisor for part in parts.batches} == {7.0}
    assert sum(part.supervised_tokens for part in parts.batches) == batch.supervised_tokens
    for name, x in batch.arrays.items():
        real = batch.segment_ids != 0
        np.testing.assert_array_equal(parts.merge([part.arrays[name] for part in parts.batches])[real], x[real])
    unsplit = LengthBuckets.unsplit(batch)
    assert unsplit.batches == [batch]
    assert unsplit.merge([batch.tokens]).tolist() == batch.tokens.tolist()


def test_rows_that_begin_alike_are_neighbours() -> None:
    batch = Batch.blank((2, 4, 6))
    prompts = np.array([5, 3, 5, 3, 4, 3, 5, 4], np.int32).reshape(2, 4, 1)
    # Three rows of 5 tokens and five of 6, which are padded alike, and what comes behind the prompt differs.
    lengths = np.array([6, 6, 5, 5, 6, 6, 5, 6]).reshape(2, 4, 1)
    tokens = np.concatenate([prompts, prompts, np.arange(10, 42, dtype=np.int32).reshape(2, 4, 4)], -1)
    segments = (np.arange(6) < lengths).astype(np.int32)
    parts = LengthBuckets.from_batch(replace(batch, tokens=tokens * segments, segment_ids=segments), lambda length: 8)
    assert [part.tokens[0, :, 0].tolist() for part in parts.batches] == [[3, 3, 3, 4], [4, 5, 5, 5]]
    # 24 positions less padding and twice what is shared: 24 - 1 - 4 and 24 - 2 - 4; then rounded up to quarters.
    assert [PrefixSharing.count(part) for part in parts.batches] == [19, 18]
    assert [part.distinct_positions for part in parts.batches] == [24, 18]


def test_many_rows_are_computed_some_at_a_time() -> None:
    asked = {(8, 32): 32, (2, 4): 4, (1, 256): 32, (1, 40): 20, (1, 56): 28, (1, 37): 37, (2, 48): 32}
    assert {size: rows_at_a_time(*size) for size in asked} == asked


@pytest.mark.slow
@pytest.mark.parametrize("objective", [name if name == "gspo" else pytest.param(name, marks=pytest.mark.full)
                                       for name in OBJECTIVES])
@pytest.mark.parametrize("engine", [JaxEngine, TorchEngine], ids=["jax", "torch"])
@pytest.mark.parametrize("positions", [pytest.param("all", marks=pytest.mark.full), "supervised"])
def test_an_update_is_the_one_of_whole_rows(engine: Any, objective: str, positions: str) -> None:
    """Value, norm of the gradient, metrics and log probabilities of two steps; then those asked for by themselves."""
    batch, found = completions(), []
    given = batch if positions == "all" else batch.with_loss_positions(25)
    for on in (False, True):
        one = engine.open(request(SHAPE, objective=OBJECTIVES[objective], cpu_optimizations=on))
        state, numbers = one.init(0), []
        for _ in range(2):
            state, result = one.step(state, given, 1e-3)
            numbers += [result.loss, result.grad_norm, *result.metrics.values(), result.log_probs]
        found.append([*numbers, one.log_probs(state, batch)])
    for whole, by_length in zip(*found, strict=True):
        np.testing.assert_allclose(by_length, whole, rtol=2e-4, atol=2e-5)


@pytest.mark.slow
def test_a_program_is_compiled_for_a_length_and_its_memory_is_known_before() -> None:
    engine = JaxEngine.open(request(SHAPE, objective=OBJECTIVES["grpo"], cpu_optimizations=True))
    batch, programs = completions(), engine.spec.variant.programs  # type: ignore[attr-defined]
    asked = engine.inspect(Batch.blank(batch.tokens.shape))
    assert set(programs) >= {"update", "zeros"}
    assert len(programs) == 3
    state = engine.init(0)
    for _ in range(2):
        state, _ = engine.step(state, batch, 1e-3)
    parts = engine.spec.variant.group_by_length(batch).batches  # type: ignore[union-attr]
    sizes = {(part.tokens.shape, *(x.shape for x in batch_arrays(part).values())) for part in parts}
    assert len(programs) == 3 + len(sizes) == 6  # all of these have few distinct positions
    accelerators = JaxEngine.open(request(SHAPE, objective=OBJECTIVES["grpo"]))
    whole = accelerators.inspect(Batch.blank(batch.tokens.shape))
    # One program holds all of it: the state, what was summed so far, and one micro batch.
    assert asked.peak_bytes == pytest.approx(whole.peak_bytes, rel=0.15)
