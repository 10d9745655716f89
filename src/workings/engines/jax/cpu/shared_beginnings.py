"""What rows begin with, computed once where they begin alike (`workings.engines.shared_beginnings`).

Shape suffixes: B rows, S positions of a row, P distinct positions of a micro batch.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines import shared_beginnings
from workings.engines.jax.attention import Attention
from workings.engines.jax.step import Arrays, StepSpec
from workings.engines.shared_beginnings import MOST_ROWS
from workings.models.batch import Batch

FIRST, INDEX = NAMES = "distinct_first", "distinct_index"
"""Names among a batch's arrays on the device."""


def batch_arrays(batch: Batch) -> dict[str, np.ndarray]:
    """``[A, 1, P]`` and ``[A, B, S]``, as `SharedBeginnings.of` takes them, or none where nothing is shared."""
    found = shared_beginnings.SharedBeginnings.of(batch)
    return {} if found is None else {FIRST: found.first_AP[:, None], INDEX: found.index_ABS}


@dataclass(frozen=True)
class SharedBeginnings:
    """Distinct positions of a micro batch, as one row, and the rows in which they stand."""

    first_P: jax.Array
    index_BS: jax.Array

    @classmethod
    def of(cls, rows: Arrays) -> "SharedBeginnings | None":
        """Those of a micro batch, or None where its batch brings none."""
        return cls(rows[FIRST][0], rows[INDEX]) if FIRST in rows else None

    def rows(self, x: jax.Array) -> jax.Array:
        """``[B, S, ...]`` of x ``[1, P, ...]``; anything finite at padding."""
        return _to_rows(x, self.first_P, self.index_BS)

    def distinct(self, x: jax.Array) -> jax.Array:
        """``[1, P, ...]`` of x ``[B, S, ...]`` that is equal where rows are; anything at spare ones."""
        return _to_distinct(x, self.first_P, self.index_BS)

    def inputs(self, rows: Arrays) -> Arrays:
        """What a model takes: tokens and positions ``[1, P]``, and segments of the rows, which attention sees."""
        return {"segment_ids": rows["segment_ids"]} | {name: self.distinct(rows[name])
                                                       for name in ("tokens", "positions")}

    def spec(self, spec: StepSpec) -> StepSpec:
        """The step with an attention that takes distinct positions."""
        return replace(spec, attention=self._attention(spec.attention))

    def _attention(self, attention: Attention) -> Attention:
        def of_distinct(q: jax.Array, k: jax.Array, v: jax.Array, **named: Any) -> jax.Array:
            return self.distinct(attention(self.rows(q), self.rows(k), self.rows(v), **named))

        return of_distinct


def _flat(x: jax.Array) -> jax.Array:
    """``[B, S, ...]`` as ``[B * S, ...]``."""
    return x.reshape(-1, *x.shape[2:])


def masked(known: jax.Array, x: jax.Array) -> jax.Array:
    """``x`` where the leading axes are known, and 0 elsewhere."""
    return jnp.where(known.reshape(*known.shape, *[1] * (x.ndim - known.ndim)), x, jnp.zeros((), x.dtype))


# Both derivatives are without scatters, which the automatic ones have: on a CPU those are loops.
@jax.custom_vjp
def _to_rows(x: jax.Array, first_P: jax.Array, index_BS: jax.Array) -> jax.Array:
    return jnp.take(x[0], index_BS, axis=0)


def _to_rows_forward(x: jax.Array, *places: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return _to_rows(x, *places), places


def _to_rows_backward(places: tuple[jax.Array, ...], dy: jax.Array) -> tuple[jax.Array, None, None]:
    first_P, index_BS = places
    # Rows that share a position are neighbours: each adds up 2 of them, then 4, then 8. Padding's gradients are zero.
    further = 1
    while further < min(MOST_ROWS, len(dy)):
        alike = masked(index_BS[further:] == index_BS[:-further], dy[further:])
        dy = dy + jnp.pad(alike, ((0, further), *[(0, 0)] * (dy.ndim - 1)))
        further *= 2
    return masked(first_P < index_BS.size, jnp.take(_flat(dy), first_P, axis=0, mode="clip"))[None], None, None


_to_rows.defvjp(_to_rows_forward, _to_rows_backward)


@jax.custom_vjp
def _to_distinct(x: jax.Array, first_P: jax.Array, index_BS: jax.Array) -> jax.Array:
    return jnp.take(_flat(x), first_P, axis=0, mode="clip")[None]


def _to_distinct_forward(x: jax.Array, *places: jax.Array) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    return _to_distinct(x, *places), places


def _to_distinct_backward(places: tuple[jax.Array, ...], dy: jax.Array) -> tuple[jax.Array, None, None]:
    first_P, index_BS = places
    # Only where it was taken from. Padding has the index 0, whose place is never padding.
    taken = jnp.take(first_P, index_BS) == jnp.arange(index_BS.size).reshape(index_BS.shape)
    return masked(taken, jnp.take(dy[0], index_BS, axis=0)), None, None


_to_distinct.defvjp(_to_distinct_forward, _to_distinct_backward)
