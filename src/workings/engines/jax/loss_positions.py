"""The loss at supervised positions only: the last layer's output at other positions does not reach it.

The number of supervised positions differs from row to row and a program has fixed shapes, so a batch selects as many
positions of each row as any row of its shape may need (`Batch.loss_positions`).

For a CPU only (`memory.cpu_optimizations`): on an accelerator, a plan may be made before the rows are known. Full
training of SmolLM2-135M on rows of GSM8K takes 1.19 times as long without it, LoRA 1.02 times (benchmarks/LOG.md).

Shape suffixes: A micro batches, B rows, S positions, M loss positions of a row.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

LOSS_POSITIONS = "loss_positions"
"""Name of the array among a batch's arrays on the device."""


@dataclass(frozen=True)
class LossPositions:
    """Loss positions of a micro batch, and the inverse."""

    index_BM: jax.Array
    """Loss positions of each row."""
    inverse_BS: jax.Array
    """Number of each position among the row's loss positions; M where it is not one of them."""

    @classmethod
    def from_indices(cls, index_BM: jax.Array, length: int) -> "LossPositions":
        """From loss positions that are distinct within a row."""
        rows = jnp.arange(index_BM.shape[0])[:, None]
        empty = jnp.full((index_BM.shape[0], length), index_BM.shape[1], jnp.int32)
        # A scatter of a few integers, which saves one of activations in every backward.
        return cls(index_BM, empty.at[rows, index_BM].set(jnp.arange(index_BM.shape[1], dtype=jnp.int32)[None],
                                                          unique_indices=True))

    def select(self, x: jax.Array) -> jax.Array:
        """``[B, M, ...]`` of x ``[B, S, ...]``."""
        return _pick(x, self.index_BM, self.inverse_BS)

    def at_positions(self, x_BM: jax.Array) -> jax.Array:
        """The inverse of `select`: ``[B, S]``, 0 at other positions."""
        return _spread(x_BM, self.inverse_BS)


@jax.custom_vjp
def _pick(x: jax.Array, index_BM: jax.Array, inverse_BS: jax.Array) -> jax.Array:
    return _rows_of(x, index_BM)


def _rows_of(x: jax.Array, index: jax.Array) -> jax.Array:
    # M, which marks a position that is not a loss position, is clipped here; `_spread` puts zeros there.
    wide = index.reshape(*index.shape, *[1] * (x.ndim - 2))
    return jnp.take_along_axis(x, wide, axis=1, mode="clip")


def _forward(x: jax.Array, index_BM: jax.Array, inverse_BS: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _rows_of(x, index_BM), inverse_BS


def _backward(inverse_BS: jax.Array, dy: jax.Array) -> tuple[jax.Array, None, None]:
    return _spread(dy, inverse_BS), None, None


def _spread(x: jax.Array, inverse_BS: jax.Array) -> jax.Array:
    # A gather: the automatic derivative would be a scatter, which is a loop over scalars on a CPU.
    is_taken = (inverse_BS < x.shape[1]).reshape(*inverse_BS.shape, *[1] * (x.ndim - 2))
    return jnp.where(is_taken, _rows_of(x, inverse_BS), jnp.zeros((), x.dtype))


_pick.defvjp(_forward, _backward)
