"""What rows begin with is computed once where they begin alike, and all numbers stay what they were."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.engines.tiny import request as plain_request
from tests.engines.tiny import tiny_shape
from workings.engines.prefix_sharing import PrefixSharing
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.lora import base_weights
from workings.engines.torch.step import to_rows
from workings.models.batch import Batch
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.preference import Preference

pytestmark = pytest.mark.slow
request = partial(plain_request, cpu_optimizations=True, objective=Preference())
LENGTH = 12
PAIRS = (  # tokens that both rows begin with, and those that each goes on with
    ((5, 2, 3), (6, 5, 1), (0, 3, 4)),  # the first tokens of the second pair's rows differ by one only
    ((7, 0, 5), (0, 0, 0), (4, 8, 8)))  # a row that the other one begins with; an empty pair; rows of full length
"""Of two micro batches."""


def batch_of_pairs() -> Batch:
    """Every token that a row goes on with, and the last that both begin with, is supervised where it predicts."""
    draw, shape = np.random.default_rng(0), (len(PAIRS), 2 * len(PAIRS[0]), LENGTH)
    tokens, mask, segments = np.zeros(shape, np.int32), np.zeros(shape, np.float32), np.zeros(shape, np.int32)
    for number, pairs in enumerate(PAIRS):
        for i, (both, *each) in enumerate(pairs):
            beginning = draw.integers(1, 20, both)
            for side, count in enumerate(each):
                # What they go on with differs in the first token, but for the end of one that has none.
                own = np.concatenate([beginning, draw.integers(20, 30, count) + 10 * side])
                tokens[number, 2 * i + side, :len(own)] = own
                segments[number, 2 * i + side, :len(own)] = 1
                mask[number, 2 * i + side, max(0, both - 1):max(0, len(own) - 1)] = 1
    targets = np.where(mask > 0, np.roll(tokens, -1, -1), 0).astype(np.int32)
    signal = np.where(mask > 0, -draw.random(shape), 0).astype(np.float32)
    return Batch(tokens=tokens, targets=targets, loss_mask=mask, segment_ids=segments, signals={REFERENCE: signal},
                 positions=np.where(segments > 0, np.arange(LENGTH), 0).astype(np.int32), divided_by=5.0)


DISTINCT = 32
"""Of the second micro batch, by hand: 7 + 5, and 4 + 8 + 8. The first has 5 + 2 + 3, 6 + 5 + 1 and 3 + 4: 29."""


def shared(batch: Batch) -> Batch:
    """With two spare positions more."""
    return replace(batch, distinct_positions=DISTINCT + 2)


def test_distinct_positions_are_counted_once_and_lead_back() -> None:
    batch = batch_of_pairs()
    found = PrefixSharing.from_batch(shared(batch))
    assert found is not None
    assert (found.first_AP < 6 * LENGTH).sum(-1).tolist() == [29, DISTINCT]
    assert PrefixSharing.count(batch) == DISTINCT
    for number in range(2):
        flat, there = batch.tokens[number].reshape(-1), batch.segment_ids[number] > 0
        distinct = np.append(flat, 0)[found.first_AP[number]]
        np.testing.assert_array_equal(distinct[found.index_ABS[number]][there], batch.tokens[number][there])


def test_batches_without_pairs_and_with_little_to_share_stay_as_they_are() -> None:
    batch = batch_of_pairs()
    assert PrefixSharing.from_batch(batch) is None
    assert PrefixSharing.from_batch(replace(batch, distinct_positions=70)) is None  # of 72
    with pytest.raises(ValueError, match="32 distinct positions in a batch of at most 31"):
        PrefixSharing.from_batch(replace(batch, distinct_positions=31))


def test_a_position_is_shared_by_eight_rows_at_most() -> None:
    rows = np.full((1, 20, 3), 7, np.int32)
    rows[0, 13, 1:] = 8
    batch = replace(Batch.blank((1, 20, 3)), tokens=rows, segment_ids=np.ones_like(rows), distinct_positions=20)
    found = PrefixSharing.from_batch(batch)
    assert found is not None
    # Rows 0 to 7, 8 to 15 and 16 to 19 share the first token; of the other two row 13 has its own, and ends a run.
    assert found.index_ABS[0, :, 0].tolist() == [0] * 8 + [3] * 8 + [10] * 4
    assert found.index_ABS[0, :, 1].tolist() == [1] * 8 + [4] * 5 + [6] + [8] * 6
    assert PrefixSharing.count(batch) == 11


def steps(engine: Any, batch: Batch) -> tuple[list[Any], dict[str, np.ndarray]]:
    """What two steps say, and the weights after them."""
    state, said = engine.init(0), []
    for _ in range(2):
        state, result = engine.step(state, batch, 1e-3)
        said.append(result)
    return said, {name: x.detach().numpy() for name, x in base_weights(state.model).items()}


def assert_same(found: list[tuple[list[Any], dict[str, np.ndarray]]]) -> None:
    (plain, before), (other, after) = found
    for one, two in zip(plain, other, strict=True):
        assert two.loss == pytest.approx(one.loss, rel=1e-5)
        assert two.grad_norm == pytest.approx(one.grad_norm, rel=1e-5)
        np.testing.assert_allclose(two.log_probs, one.log_probs, atol=1e-5)
        assert two.metrics == pytest.approx(one.metrics, rel=1e-4, abs=1e-6)
    for name, x in before.items():
        np.testing.assert_allclose(after[name], x, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("family", ["gemma2", pytest.param("qwen3", marks=pytest.mark.full)])
def test_a_torch_step_and_its_log_probabilities_give_the_same(family: str) -> None:
    batch, engine = batch_of_pairs(), TorchEngine.open(request(tiny_shape(family, layers=3)))
    rows = to_rows(engine.spec, shared(batch))
    assert [part.distinct and len(part.distinct.first_P) for part in rows] == [29, DISTINCT]
    assert_same([steps(engine, each) for each in (batch, shared(batch))])
    state = engine.init(0)
    np.testing.assert_allclose(*(engine.log_probs(state, each) for each in (batch, shared(batch))), atol=1e-5)


def test_accelerators_run_whole_rows() -> None:
    engine = TorchEngine.open(request(tiny_shape("gemma"), cpu_optimizations=False))
    assert [part.distinct for part in to_rows(engine.spec, shared(batch_of_pairs()))] == [None, None]
