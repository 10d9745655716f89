"""Several targets a position, each with a weight of its own, in the loss that is cut by vocabulary.

Shape suffixes: C positions of a chunk, K targets of a position, V vocabulary.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Places:
    """Where several targets of each position stand in this device's part of the vocabulary."""

    index: jax.Array
    """``[C, K]``; any place where the target belongs to another device."""
    inside: jax.Array
    """``[C, K]`` whether it is this device's."""

    @classmethod
    def of(cls, t: jax.Array, first: jax.Array | int, size: int) -> "Places":
        """Of targets ``[C, K]`` among ``size`` tokens from ``first`` on."""
        return cls(jnp.clip(t - first, 0, size - 1), (t >= first) & (t < first + size))

    def picked(self, logits: jax.Array) -> jax.Array:
        """``[C, K]``: of logits ``[C, V]`` those of the targets; 0 of those of other devices."""
        return jnp.where(self.inside, jnp.take_along_axis(logits, self.index, 1), 0.0)

    def without(self, x: jax.Array, w: jax.Array) -> jax.Array:
        """``[C, V]`` less the weights ``[C, K]`` at the targets."""
        # A scatter of K numbers a position: to compare with each of them would walk over all logits K times.
        return x.at[jnp.arange(x.shape[0])[:, None], self.index].add(-(w * self.inside))
