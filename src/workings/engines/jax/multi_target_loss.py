"""Targets of a loss with several targets a position, each with a weight of its own, where devices split the vocabulary.

Shape suffixes: C positions of a chunk, K targets of a position, V vocabulary.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class TargetIndices:
    """Indices of the targets of each position in this device's part of the vocabulary."""

    index: jax.Array
    """``[C, K]``; any valid index where the target belongs to another device."""
    on_this_shard: jax.Array
    """``[C, K]`` bool: whether the target is in this device's part."""

    @classmethod
    def from_tokens(cls, tokens: jax.Array, first: jax.Array | int, size: int) -> "TargetIndices":
        """From target tokens ``[C, K]``, for a device with ``size`` tokens from ``first`` on."""
        return cls(jnp.clip(tokens - first, 0, size - 1), (tokens >= first) & (tokens < first + size))

    def logits_at(self, logits: jax.Array) -> jax.Array:
        """``[C, K]`` logits of the targets, out of ``[C, V]``; 0 for targets of other devices."""
        return jnp.where(self.on_this_shard, jnp.take_along_axis(logits, self.index, 1), 0.0)

    def subtract_at(self, x: jax.Array, weights: jax.Array) -> jax.Array:
        """``[C, V]`` minus the weights ``[C, K]`` at the targets."""
        # A scatter of K numbers a position: comparing every logit with each target would read all logits K times.
        return x.at[jnp.arange(x.shape[0])[:, None], self.index].add(-(weights * self.on_this_shard))
