"""Masked next-token loss as a sum, so that micro batches, devices and batches add up exactly.

Shape suffixes: B rows, S positions, D width, V vocabulary.
"""

import jax
import jax.numpy as jnp

from workings.engines.jax.model import final_logits
from workings.models.shape import ModelShape


def token_losses(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """``[B, S]`` negative log likelihood in nats of ``targets`` under float32 ``logits`` ``[B, S, V]``."""
    # Compare and sum instead of gather: it fuses, and its gradient is no scatter (a scalar loop on a CPU).
    hit = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1) == targets[..., None]
    return jax.nn.logsumexp(logits, -1) - jnp.sum(jnp.where(hit, logits, 0.0), -1)


def loss_sum(hidden: jax.Array, head: jax.Array, targets: jax.Array, weights: jax.Array, shape: ModelShape) -> jax.Array:
    """Sum of ``weights * loss`` over all positions, with all logits in memory at once."""
    return jnp.sum(token_losses(final_logits(hidden, head, shape), targets) * weights)
