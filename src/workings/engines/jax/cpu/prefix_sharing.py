"""Prefix sharing in the JAX step: positions with equal prefixes are computed once (`workings.engines.prefix_sharing`).

Shape suffixes: B rows, S positions of a row, P distinct positions of a micro batch.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines import prefix_sharing
from workings.engines.jax.attention import Attention
from workings.engines.jax.step import Arrays, StepSpec
from workings.engines.prefix_sharing import MAX_ROWS
from workings.models.batch import Batch

FIRST, INDEX = NAMES = "distinct_first", "distinct_index"
"""Names among a batch's arrays on the device."""


def batch_arrays(batch: Batch) -> dict[str, np.ndarray]:
    """``[A, 1, P]`` and ``[A, B, S]`` arrays for `PrefixSharingArrays.from_rows`; empty where nothing is shared."""
    sharing = prefix_sharing.PrefixSharing.from_batch(batch)
    # A row axis of length one keeps the form [A, B, ...] that the step splits into micro batches.
    return {} if sharing is None else {FIRST: sharing.first_AP[:, None], INDEX: sharing.index_ABS}


@dataclass(frozen=True)
class PrefixSharingArrays:
    """Distinct positions of a micro batch as one row, and the map between them and the micro batch's rows."""

    first_P: jax.Array
    """First of the flattened positions that each distinct position stands for."""
    index_BS: jax.Array
    """Distinct position of each position."""

    @classmethod
    def from_rows(cls, rows: Arrays) -> "PrefixSharingArrays | None":
        """From a micro batch's arrays; None where they have no distinct positions."""
        return cls(rows[FIRST][0], rows[INDEX]) if FIRST in rows else None

    def to_rows(self, x: jax.Array) -> jax.Array:
        """``[B, S, ...]`` of x ``[1, P, ...]``; anything finite at padding."""
        return _to_rows(x, self.first_P, self.index_BS)

    def to_distinct(self, x: jax.Array) -> jax.Array:
        """``[1, P, ...]`` of x ``[B, S, ...]`` that is equal where prefixes are; anything at spare positions."""
        return _to_distinct(x, self.first_P, self.index_BS)

    def inputs(self, rows: Arrays) -> Arrays:
        """Inputs of a model: tokens and positions ``[1, P]``, and the rows' segments, which attention needs."""
        return {"segment_ids": rows["segment_ids"]} | {name: self.to_distinct(rows[name])
                                                       for name in ("tokens", "positions")}

    def spec(self, spec: StepSpec) -> StepSpec:
        """The step with an attention of distinct positions."""
        return replace(spec, attention=self._attention(spec.attention))

    def _attention(self, attention: Attention) -> Attention:
        def distinct_attention(q: jax.Array, k: jax.Array, v: jax.Array, **named: Any) -> jax.Array:
            # Only attention mixes positions: everything else is computed once for each distinct position.
            return self.to_distinct(attention(self.to_rows(q), self.to_rows(k), self.to_rows(v), **named))

        return distinct_attention


def _flat(x: jax.Array) -> jax.Array:
    """``[B, S, ...]`` as ``[B * S, ...]``."""
    # Rows are contiguous, so this moves no data.
    return x.reshape(-1, *x.shape[2:])


def masked(mask: jax.Array, x: jax.Array) -> jax.Array:
    """``x`` where ``mask``, of its leading axes, is true; 0 elsewhere."""
    return jnp.where(mask.reshape(*mask.shape, *[1] * (x.ndim - mask.ndim)), x, jnp.zeros((), x.dtype))


# Derivatives without scatters, which the automatic ones have: on a CPU a scatter is a loop over scalars.
@jax.custom_vjp
def _to_rows(x: jax.Array, first_P: jax.Array, index_BS: jax.Array) -> jax.Array:
    return jnp.take(x[0], index_BS, axis=0)


def _to_rows_forward(x: jax.Array, *maps: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return _to_rows(x, *maps), maps


def _to_rows_backward(maps: tuple[jax.Array, ...], dy: jax.Array) -> tuple[jax.Array, None, None]:
    first_P, index_BS = maps
    # Rows that share a position are neighbours: pairs are added, then fours, then eights. Padding's gradients are zero.
    further = 1
    while further < min(MAX_ROWS, len(dy)):
        # Doubling the distance each time adds n equal neighbors in log2(n) passes instead of n.
        alike = masked(index_BS[further:] == index_BS[:-further], dy[further:])
        dy = dy + jnp.pad(alike, ((0, further), *[(0, 0)] * (dy.ndim - 1)))
        further *= 2
    # Spare positions point behind the rows; clipped for the read, then set to zero.
    return masked(first_P < index_BS.size, jnp.take(_flat(dy), first_P, axis=0, mode="clip"))[None], None, None


_to_rows.defvjp(_to_rows_forward, _to_rows_backward)


@jax.custom_vjp
def _to_distinct(x: jax.Array, first_P: jax.Array, index_BS: jax.Array) -> jax.Array:
    return jnp.take(_flat(x), first_P, axis=0, mode="clip")[None]


def _to_distinct_forward(x: jax.Array, *maps: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return _to_distinct(x, *maps), maps


def _to_distinct_backward(maps: tuple[jax.Array, ...], dy: jax.Array) -> tuple[jax.Array, None, None]:
    first_P, index_BS = maps
    # Only at the position that it was taken from. Padding has index 0, whose first position is never padding.
    taken = jnp.take(first_P, index_BS) == jnp.arange(index_BS.size).reshape(index_BS.shape)
    return masked(taken, jnp.take(dy[0], index_BS, axis=0)), None, None


_to_distinct.defvjp(_to_distinct_forward, _to_distinct_backward)
