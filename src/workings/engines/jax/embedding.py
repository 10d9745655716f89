"""Looking up tokens in an embedding whose rows are spread over all devices, without gathering it anywhere.

Each device looks up, for the tokens of all rows, those that it owns (zero elsewhere); a sum over devices completes
them and gives every device its own rows back. Tokens are taken in chunks, so that what is gathered stays small.
"""

from functools import partial

import jax
import jax.numpy as jnp

from workings.engines.jax.loss import chunks
from workings.engines.jax.sharding import FSDP, TP, Layout, P

GATHERED = 8192
"""Positions of all devices together in one turn: with a number per device, a pod of 256 would gather a gigabyte."""
CHUNK = 1024
"""Most positions of one device in a turn."""


def table_rows(table: jax.Array, tokens: jax.Array, layout: Layout) -> jax.Array:
    """``[B, S, D]`` rows of a table ``[V, D]`` for tokens ``[B, S]``, wherever the table is."""
    # A table that is split by row has most of a device's tokens elsewhere, so looking up needs a collective.
    if layout.splits_vocabulary(table.shape[0]):
        return split_lookup(layout, table, tokens)
    return jnp.take(table, tokens, axis=0, mode="clip")


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def split_lookup(layout: Layout, table: jax.Array, tokens: jax.Array) -> jax.Array:
    """``[B, S, D]`` rows of ``table`` ``[V, D]`` (split by row over all devices) for tokens ``[B, S]`` (split by B)."""
    rows = P(layout.row_axes)
    return layout.shard_map(_lookup_local, (P((FSDP, TP)), rows), rows)(table, tokens)


def _forward(layout: Layout, table: jax.Array, tokens: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return split_lookup(layout, table, tokens), (table, tokens)


def _backward(layout: Layout, kept: tuple[jax.Array, jax.Array], dy: jax.Array) -> tuple[jax.Array, None]:
    rows = P(layout.row_axes)
    add = layout.shard_map(partial(_add_local, layout), (P((FSDP, TP)), rows, rows), P((FSDP, TP)))
    return add(*kept, dy), None


split_lookup.defvjp(_forward, _backward)


def _turns(x: jax.Array) -> jax.Array:
    """``[B, S, ...]`` as ``[n, C, ...]``; padding has index or value zero."""
    return chunks(x, min(CHUNK, max(1, GATHERED // jax.lax.axis_size(FSDP)), x.shape[0] * x.shape[1]))


def _own_index(tokens: jax.Array, size: int) -> jax.Array:
    """Position of a token in this device's rows; ``size`` (past the end) where another device owns it."""
    local = tokens - jax.lax.axis_index((FSDP, TP)) * size
    return jnp.where((local >= 0) & (local < size), local, size)


def _lookup_local(table: jax.Array, tokens: jax.Array) -> jax.Array:
    def turn(chunk: jax.Array) -> jax.Array:
        # Only the `fsdp` axis is gathered: devices along `tp` have the same tokens already.
        index = _own_index(jax.lax.all_gather(chunk, FSDP, axis=0, tiled=True), table.shape[0])
        # Tokens of other devices have the index past the end, which is filled with zeros.
        rows = jnp.take(table, index, axis=0, mode="fill", fill_value=0)
        # At most one device has something to add, so the sum is exact in any number format.
        return jax.lax.psum_scatter(jax.lax.psum(rows, TP), FSDP, scatter_dimension=0, tiled=True)

    # One turn after the other, so the gathered rows of one turn exist at a time.
    rows = jax.lax.map(turn, _turns(tokens))
    return rows.reshape(-1, table.shape[1])[:tokens.size].reshape(*tokens.shape, table.shape[1])


def _add_local(layout: Layout, table: jax.Array, tokens: jax.Array, dy: jax.Array) -> jax.Array:
    def turn(total: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        chunk, rows = (jax.lax.all_gather(x, FSDP, axis=0, tiled=True) for x in xs)
        return total.at[_own_index(chunk, table.shape[0])].add(rows.astype(jnp.float32), mode="drop"), None

    # In float32, because a frequent token's gradient is a sum of many small terms; rounded once at the end.
    total, _ = jax.lax.scan(turn, jnp.zeros(table.shape, jnp.float32), (_turns(tokens), _turns(dy)))
    return layout.sum_over_copies(total).astype(table.dtype)
