"""Logits, which only comparisons of engines need."""

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from workings.engines.jax.model import final_logits, hidden_states, unembedding
from workings.engines.jax.params_tree import Params
from workings.models.batch import Batch

if TYPE_CHECKING:
    from workings.engines.jax.engine import JaxEngine


def logits(engine: "JaxEngine", state: dict[str, Any], batch: Batch) -> np.ndarray:
    """``[B, S, V]`` float32 logits of a batch's first micro batch."""
    spec = engine.spec

    # A new function at each call, so each call compiles; and all logits exist at once. Comparisons are few and small.
    @jax.jit
    def compute(params: Params, tokens: jax.Array, positions: jax.Array, segment_ids: jax.Array) -> jax.Array:
        hidden = hidden_states(params, spec.shape, tokens, positions, segment_ids, attention=spec.attention,
                               remat=spec.remat, dtype=spec.compute_dtype, layout=spec.layout)
        return final_logits(hidden, unembedding(params), spec.shape)

    return np.asarray(compute(state["params"], batch.tokens[0], batch.positions[0], batch.segment_ids[0]))
