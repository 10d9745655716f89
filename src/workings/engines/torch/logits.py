"""Logits, which only comparisons of engines need."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from workings.engines.torch.model import final_logits, hidden_states
from workings.engines.torch.step import State, to_rows
from workings.models.batch import Batch

if TYPE_CHECKING:
    from workings.engines.torch.engine import TorchEngine


@torch.no_grad()
def logits(engine: "TorchEngine", state: State, batch: Batch) -> np.ndarray:
    """``[B, S, V]`` float32 logits of a batch's first micro batch."""
    rows = to_rows(engine.spec, batch)[0]
    hidden = hidden_states(state.model, rows.tokens, rows.positions, rows.visible)
    return final_logits(state.model, hidden, engine.spec.shape.final_softcap).cpu().numpy()
