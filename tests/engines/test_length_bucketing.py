"""Completions in micro batches of like length: the same update on a CPU, and the rows in their order again."""

from dataclasses import replace

import numpy as np
import pytest

from tests.engines.tiny import random_batch, request, tiny_shape, with_signals
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.length_bucketing import parts_by_length, rows_at_a_time
from workings.models.batch import Batch
from workings.objectives.policy_gradient import PolicyGradient

SHAPE = tiny_shape("gemma2")
GSPO = PolicyGradient(ratio="sequence", normalize="sequences", clip_low=0.05, clip_high=0.05)


def completions(micro: int = 3, rows: int = 4, length: int = 40) -> Batch:
    """Rows of many lengths, one without any token, with supervised second halves; two begin alike."""
    batch = random_batch(SHAPE, micro=micro, rows=rows, length=length, seed=2)
    lengths = np.count_nonzero(batch.segment_ids, -1, keepdims=True)
    lengths[0, 1] = 0
    real = np.arange(length) < lengths
    mask = (real & (np.arange(length) >= lengths // 2)).astype(np.float32)
    batch.tokens[-1, -1, :5] = batch.tokens[0, 0, :5]
    plain = replace(batch, loss_mask=mask, segment_ids=real.astype(np.int32), tokens=batch.tokens * real,
                    targets=np.where(mask > 0, batch.tokens, 0), positions=np.arange(length, dtype=np.int32) * real)
    return with_signals(plain, -4 * mask, divided_by=7.0)


def test_rows_of_like_length_are_together() -> None:
    batch = completions()
    parts = parts_by_length(batch)
    lengths = np.count_nonzero(batch.segment_ids, -1).reshape(-1)
    longest = np.sort(lengths).reshape(3, 4)[:, -1]
    assert [part.tokens.shape for _, part in parts] == [(1, 4, x) for x in longest]
    assert {part.divisor for _, part in parts} == {7.0}
    assert sum(part.supervised_tokens for _, part in parts) == batch.supervised_tokens
    assert sorted(np.concatenate([numbers for numbers, _ in parts])) == [*range(12)]
    for name, x in batch.arrays.items():
        for numbers, part in parts:
            np.testing.assert_array_equal(part.arrays[name][0], x.reshape(12, -1)[numbers, :part.tokens.shape[2]])


def test_rows_that_begin_alike_are_neighbours() -> None:
    batch = Batch.blank((2, 4, 6))
    prompts = np.array([5, 3, 5, 3, 4, 3, 5, 4], np.int32).reshape(2, 4, 1)
    tokens = np.concatenate([prompts, prompts, np.arange(10, 42, dtype=np.int32).reshape(2, 4, 4)], -1)
    parts = parts_by_length(replace(batch, tokens=tokens, segment_ids=np.ones_like(tokens)))
    assert [part.tokens[0, :, 0].tolist() for _, part in parts] == [[3, 3, 3, 4], [4, 5, 5, 5]]


def test_many_rows_are_computed_some_at_a_time() -> None:
    asked = {(8, 32): 32, (2, 4): 4, (1, 256): 32, (1, 40): 20, (1, 56): 28, (1, 37): 37, (2, 48): 32}
    assert {size: rows_at_a_time(*size) for size in asked} == asked


@pytest.mark.slow
def test_an_update_is_the_one_of_whole_rows() -> None:
    """Value, norm of the gradient, metrics and log probabilities of two steps; then those asked for by themselves."""
    batch, found = completions(), []
    for on in (False, True):
        one = TorchEngine.open(request(SHAPE, objective=GSPO, cpu_optimizations=on))
        state, numbers = one.init(0), []
        for _ in range(2):
            state, result = one.step(state, batch, 1e-3)
            numbers += [result.loss, result.grad_norm, *result.metrics.values(), result.log_probs]
        found.append([*numbers, one.log_probs(state, batch)])
    for whole, by_length in zip(*found, strict=True):
        np.testing.assert_allclose(by_length, whole, rtol=2e-4, atol=2e-5)
