"""What rows begin with is computed once where they begin alike, and all numbers stay what they were."""

from typing import Any

import numpy as np
import pytest
import torch

from tests.engines.tiny import request, tiny_shape
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.lora import base_weights
from workings.engines.torch.prefix_sharing import DistinctPositions
from workings.engines.torch.step import to_rows
from workings.models.batch import Batch
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.preference import Preference

LENGTH = 12
PAIRS = (  # tokens that both rows begin with, and those that each continues with
    ((5, 2, 3), (6, 5, 1), (0, 3, 4)),  # the first tokens of the second pair's rows differ by one only
    ((7, 0, 5), (0, 0, 0), (4, 8, 8)))  # a row that the other one begins with; an empty pair; rows of full length
"""Of two micro batches."""
DISTINCT = [29, 32]
"""By hand: 5 + 2 + 3, 6 + 5 + 1 and 3 + 4; 7 + 5, and 4 + 8 + 8."""


def batch_of_pairs() -> Batch:
    """Every token that a row continues with, and the last that both begin with, is supervised where it predicts."""
    draw, shape = np.random.default_rng(0), (len(PAIRS), 2 * len(PAIRS[0]), LENGTH)
    tokens, mask, segments = np.zeros(shape, np.int32), np.zeros(shape, np.float32), np.zeros(shape, np.int32)
    for number, pairs in enumerate(PAIRS):
        for i, (both, *each) in enumerate(pairs):
            beginning = draw.integers(1, 20, both)
            for side, count in enumerate(each):
                # What they continue with differs in the first token, but for the end of one that has none.
                own = np.concatenate([beginning, draw.integers(20, 30, count) + 10 * side])
                tokens[number, 2 * i + side, :len(own)] = own
                segments[number, 2 * i + side, :len(own)] = 1
                mask[number, 2 * i + side, max(0, both - 1):max(0, len(own) - 1)] = 1
    targets = np.where(mask > 0, np.roll(tokens, -1, -1), 0).astype(np.int32)
    signal = np.where(mask > 0, -draw.random(shape), 0).astype(np.float32)
    return Batch(tokens=tokens, targets=targets, loss_mask=mask, segment_ids=segments, signals={REFERENCE: signal},
                 positions=np.where(segments > 0, np.arange(LENGTH), 0).astype(np.int32), divided_by=5.0)


def distinct(tokens: Any, segments: Any) -> DistinctPositions | None:
    return DistinctPositions.of_rows(np.asarray(tokens), np.asarray(segments), np.zeros(0, int), torch.device("cpu"))


def test_distinct_positions_are_counted_once_and_lead_back() -> None:
    batch = batch_of_pairs()
    for number, count in enumerate(DISTINCT):
        found = distinct(batch.tokens[number], batch.segment_ids[number])
        assert found is not None
        assert len(found.first_P) == count
        flat, there = batch.tokens[number].reshape(-1), batch.segment_ids[number] > 0
        np.testing.assert_array_equal(flat[found.first_P][found.index_BS][there], batch.tokens[number][there])


def test_rows_with_little_to_share_and_rows_of_padding_stay_as_they_are() -> None:
    rows = np.arange(24).reshape(2, 12)
    rows[1, :5] = rows[0, :5]
    assert distinct(rows, np.ones_like(rows)) is None  # 19 of 24
    rows[1, 5] = rows[0, 5]
    assert distinct(rows, np.ones_like(rows)) is not None
    assert distinct(rows, np.zeros_like(rows)) is None


def test_a_position_is_shared_by_eight_rows_at_most() -> None:
    rows = np.full((20, 3), 7)
    rows[13, 1:] = 8
    found = distinct(rows, np.ones_like(rows))
    assert found is not None
    # Rows 0 to 7, 8 to 15 and 16 to 19 share the first token; of the other two row 13 has its own, and ends a run.
    assert found.index_BS[:, 0].tolist() == [0] * 8 + [3] * 8 + [10] * 4
    assert found.index_BS[:, 1].tolist() == [1] * 8 + [4] * 5 + [6] + [8] * 6
    assert len(found.first_P) == 11


def test_rows_of_another_device_stay_there() -> None:
    """Tensors of PyTorch's device without memory refuse any operation with tensors of the CPU."""
    rows = np.full((4, 6), 7)
    found = DistinctPositions.of_rows(rows, np.ones_like(rows), np.arange(3), torch.device("meta"))
    assert found is not None
    assert {x.device.type for x in (found.index_BS, found.first_P, found.supervised_N)} == {"meta"}
    x = torch.empty(1, 2, 6, 8, device="meta", requires_grad=True)
    merged = found.merge(found.split(x))
    assert (merged.shape, merged.device) == (x.shape, x.device)
    merged.sum().backward()
    assert x.grad is not None
    assert x.grad.device == x.device


@pytest.mark.slow
def test_a_step_and_its_log_probabilities_are_those_of_whole_rows() -> None:
    batch, asked = batch_of_pairs(), {"shape": tiny_shape("gemma2", layers=3), "objective": Preference()}
    engines = [TorchEngine.open(request(**asked, cpu_optimizations=on)) for on in (False, True)]
    assert [[part.distinct and len(part.distinct.first_P) for part in to_rows(engine.spec, batch)]
            for engine in engines] == [[None, None], DISTINCT]
    states = [engine.init(0) for engine in engines]
    for _ in range(2):
        both = list(zip(engines, states, strict=True))
        asked_before = [engine.log_probs(state, batch) for engine, state in both]
        (_, plain), (_, other) = (engine.step(state, batch, 1e-3) for engine, state in both)
        assert [other.loss, other.grad_norm] == pytest.approx([plain.loss, plain.grad_norm], rel=1e-5)
        assert other.metrics == pytest.approx(plain.metrics, rel=1e-4, abs=1e-6)
        for found in (other.log_probs, *asked_before):
            np.testing.assert_allclose(found, plain.log_probs, atol=1e-5)
    before, after = (base_weights(state.model) for state in states)
    for name, x in before.items():
        np.testing.assert_allclose(after[name].detach().numpy(), x.detach().numpy(), atol=2e-5, err_msg=name)
