"""Attention over each segment of packed rows alone is the attention that a mask over whole rows gives."""

import numpy as np
import pytest
import torch

from tests.engines.tiny import request, tiny_shape
from tests.engines.torch_oracle import roughened
from workings.config.training import MemoryConfig
from workings.data.batches import make_batch
from workings.data.rows import Row
from workings.engines.torch import step
from workings.engines.torch.cpu.segments import find_segments
from workings.engines.torch.engine import TorchEngine
from workings.models.batch import Batch

LENGTHS = ((7, 5, 8), (9, 6), (4, 3, 8, 2, 6), ())
LONGEST = 24


def packed_batch() -> Batch:
    """Rows of segments, with padding behind them and one row of nothing else; a third of the tokens supervised."""
    draw = np.random.default_rng(0)
    rows = [[Row("", draw.integers(1, 61, length).astype(np.int32), (draw.random(length) < 0.3).astype(np.uint8), "")
             for length in lengths] for lengths in LENGTHS]
    return make_batch(rows, (1, len(LENGTHS)), LONGEST, 0)


@pytest.mark.parametrize("attention", ["auto", "plain", "chunked"])
@pytest.mark.parametrize("family", ["gemma", "gemma2", "gemma3", "gemma4", "olmo3"])
def test_loss_and_gradients_are_those_of_the_mask(family: str, attention: str) -> None:
    """Grouped heads, caps and windows shorter than a segment; `memory.cpu_optimizations` decides."""
    found: list[dict[str, torch.Tensor]] = []
    for alone in (True, False):
        engine = TorchEngine.open(request(tiny_shape(family), memory=MemoryConfig(attention=attention),
                                          cpu_optimizations=alone))
        state = roughened(engine)
        batch = packed_batch()
        [rows] = step.to_rows(engine.spec, batch)
        assert (rows.attention_layout is not None) == alone
        loss, *_ = step.micro_batch_objective(engine.spec, state.model, rows, batch.divisor)
        loss.backward()
        found.append({"loss": loss.detach()} | {name: x.grad for name, x in state.trained.items()})
    one, other = found
    absolute = 2e-5 if family == "gemma4" else 2e-6  # six layers, whose keys get gradients from several
    for name, x in one.items():
        torch.testing.assert_close(x, other[name], rtol=2e-5, atol=absolute * float(other[name].abs().max()), msg=name)


def test_places_lead_back_to_positions() -> None:
    ids = packed_batch().segment_ids[0]
    found = find_segments(ids)
    assert found is not None
    assert found.size == (10, 9)
    kept = np.flatnonzero(ids.reshape(-1))
    assert (found.positions[found.slots[kept]].numpy() == kept).all()
    assert len(found.spare) == 90 - len(kept)
    assert sorted(found.padding.tolist() + kept.tolist()) == list(range(ids.size))
    assert ids.reshape(-1)[found.positions[found.slots[kept]]].tolist() == ids.reshape(-1)[kept].tolist()


@pytest.mark.parametrize("ids", [[[1] * 12], [[1] * 9 + [2, 3, 4]], [[1] * 6 + [2] * 6, [1] * 12]], ids=str)
def test_segments_that_save_less_than_half_are_left_to_the_mask(ids: list[list[int]]) -> None:
    assert find_segments(np.array(ids, np.int32)) is None
