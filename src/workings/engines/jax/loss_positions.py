"""Supervised positions apart from the others: what only they need is computed for them alone.

The last layer's output at a position that is not supervised reaches no loss: there only keys and values of the last
layer matter. How many positions of a row are supervised differs from row to row, and a program has fixed shapes, so a
batch picks as many of each row as any row of its shape may need (`Batch.loss_positions`).

Shape suffixes: A micro batches, B rows, S positions, M loss positions of a row.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

LOSS_POSITIONS = "loss_positions"
"""Name among a batch's arrays on the device."""


@dataclass(frozen=True)
class LossPositions:
    """Positions of a micro batch, and for every position its place among them."""

    index_BM: jax.Array
    place_BS: jax.Array
    """M where a position is none of them."""

    @classmethod
    def of(cls, index_BM: jax.Array, length: int) -> "LossPositions":
        """From positions that are distinct within a row."""
        rows = jnp.arange(index_BM.shape[0])[:, None]
        empty = jnp.full((index_BM.shape[0], length), index_BM.shape[1], jnp.int32)
        return cls(index_BM, empty.at[rows, index_BM].set(jnp.arange(index_BM.shape[1], dtype=jnp.int32)[None],
                                                          unique_indices=True))

    def of_rows(self, x: jax.Array) -> jax.Array:
        """``[B, M, ...]`` of x ``[B, S, ...]``."""
        return _pick(x, self.index_BM, self.place_BS)


@jax.custom_vjp
def _pick(x: jax.Array, index_BM: jax.Array, place_BS: jax.Array) -> jax.Array:
    return _rows_of(x, index_BM)


def _rows_of(x: jax.Array, index: jax.Array) -> jax.Array:
    wide = index.reshape(*index.shape, *[1] * (x.ndim - 2))
    return jnp.take_along_axis(x, wide, axis=1, mode="clip")


def _forward(x: jax.Array, index_BM: jax.Array, place_BS: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _rows_of(x, index_BM), place_BS


def _backward(place_BS: jax.Array, dy: jax.Array) -> tuple[jax.Array, None, None]:
    # A gather as well: the automatic derivative is a scatter, which is a loop over scalars on a CPU.
    there = (place_BS < dy.shape[1]).reshape(*place_BS.shape, *[1] * (dy.ndim - 2))
    return jnp.where(there, _rows_of(dy, place_BS), jnp.zeros((), dy.dtype)), None, None


_pick.defvjp(_forward, _backward)
