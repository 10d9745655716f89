"""The last layer and the loss at supervised positions only.

The last layer's output at a position that is not supervised reaches no loss: there only keys and values of the last
layer matter. How many positions of a row are supervised differs from row to row, and a program has fixed shapes, so a
batch picks as many of each row as any row of its shape may need (`Batch.loss_positions`).

It was measured on a CPU alone; and a plan for an accelerator may be made before the rows are known.

Shape suffixes: A micro batches, B rows, S positions, M loss positions of a row.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from workings.engines.jax.cpu.shared_beginnings import SharedBeginnings, masked
from workings.engines.jax.model import final_norm, last_layer_output
from workings.engines.jax.params_tree import Params
from workings.engines.jax.step import Arrays, StepSpec

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
        # A scatter of a few integers, once a micro batch, which saves one of activations in every backward.
        return cls(index_BM, empty.at[rows, index_BM].set(jnp.arange(index_BM.shape[1], dtype=jnp.int32)[None],
                                                          unique_indices=True))

    def of_rows(self, x: jax.Array) -> jax.Array:
        """``[B, M, ...]`` of x ``[B, S, ...]``."""
        return _pick(x, self.index_BM, self.place_BS)

    def at_positions(self, x_BM: jax.Array) -> jax.Array:
        """``[B, S]``: the inverse of `of_rows`, 0 at positions that are none of them."""
        return _spread(x_BM, self.place_BS)


def hidden_states(spec: StepSpec, params: Params, rows: Arrays, at: LossPositions | None,
                  shared: SharedBeginnings | None) -> jax.Array:
    """``[B, M, D]`` normed hidden states at loss positions, or ``[B, S, D]``, of stacked layers computed whole."""
    if shared is not None:
        spec, rows = shared.spec(spec), shared.inputs(rows)
    x = last_layer_output(params, spec.shape, rows["tokens"], rows["positions"], rows["segment_ids"],
                          attention=spec.attention, remat=spec.remat, dtype=spec.compute_dtype, layout=spec.layout)
    if shared is not None:
        x = shared.rows(x)
    return final_norm(x if at is None else at.of_rows(x), params, spec.shape)


@jax.custom_vjp
def _pick(x: jax.Array, index_BM: jax.Array, place_BS: jax.Array) -> jax.Array:
    return _rows_of(x, index_BM)


def _rows_of(x: jax.Array, index: jax.Array) -> jax.Array:
    # M itself, which says that a position is none of them, is clipped here; `_spread` puts zeros there.
    wide = index.reshape(*index.shape, *[1] * (x.ndim - 2))
    return jnp.take_along_axis(x, wide, axis=1, mode="clip")


def _forward(x: jax.Array, index_BM: jax.Array, place_BS: jax.Array) -> tuple[jax.Array, jax.Array]:
    return _rows_of(x, index_BM), place_BS


def _backward(place_BS: jax.Array, dy: jax.Array) -> tuple[jax.Array, None, None]:
    return _spread(dy, place_BS), None, None


def _spread(x: jax.Array, place_BS: jax.Array) -> jax.Array:
    # A gather as well: the automatic derivative is a scatter, which is a loop over scalars on a CPU.
    return masked(place_BS < x.shape[1], _rows_of(x, place_BS))


_pick.defvjp(_forward, _backward)
