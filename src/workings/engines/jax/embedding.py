"""Looks up tokens in an embedding that is split by row over all devices, without gathering the embedding.

Each device looks up the tokens of all devices in its own part, with zeros for tokens that it does not have. The sum
over devices is the result, and each device keeps it for its own tokens. Tokens are taken in chunks to save memory.

Shape suffixes: B rows, S positions, D width, V vocabulary, C positions of a chunk.
"""

from functools import partial

import jax
import jax.numpy as jnp

from workings.engines.jax.loss import chunks
from workings.engines.jax.sharding import FSDP, TP, Layout, P

GATHERED = 8192
"""The most positions of all devices together in a chunk."""
CHUNK = 1024
"""The most positions of one device in a chunk."""


def table_rows(table: jax.Array, tokens: jax.Array, layout: Layout) -> jax.Array:
    """``[B, S, D]`` rows of a table ``[V, D]`` for tokens ``[B, S]``; the table may be split by row or whole."""
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


def _in_chunks(x: jax.Array) -> jax.Array:
    """``[B, S, ...]`` as ``[n, C, ...]``, padded with zeros."""
    return chunks(x, min(CHUNK, max(1, GATHERED // jax.lax.axis_size(FSDP)), x.shape[0] * x.shape[1]))


def _own_index(tokens: jax.Array, size: int) -> jax.Array:
    """Row of each token in this device's part of the table, which has ``size`` rows; ``size`` for all other tokens."""
    local = tokens - jax.lax.axis_index((FSDP, TP)) * size
    return jnp.where((local >= 0) & (local < size), local, size)


def _lookup_local(table: jax.Array, tokens: jax.Array) -> jax.Array:
    def look_up(chunk: jax.Array) -> jax.Array:
        # Devices along `tp` have the same tokens already.
        index = _own_index(jax.lax.all_gather(chunk, FSDP, axis=0, tiled=True), table.shape[0])
        rows = jnp.take(table, index, axis=0, mode="fill", fill_value=0)
        # All devices but one add zeros, so the sum is exact in any number format.
        return jax.lax.psum_scatter(jax.lax.psum(rows, TP), FSDP, scatter_dimension=0, tiled=True)

    rows = jax.lax.map(look_up, _in_chunks(tokens))
    return rows.reshape(-1, table.shape[1])[:tokens.size].reshape(*tokens.shape, table.shape[1])


def _add_local(layout: Layout, table: jax.Array, tokens: jax.Array, dy: jax.Array) -> jax.Array:
    def add_chunk(total: jax.Array, xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        chunk, rows = (jax.lax.all_gather(x, FSDP, axis=0, tiled=True) for x in xs)
        return total.at[_own_index(chunk, table.shape[0])].add(rows.astype(jnp.float32), mode="drop"), None

    # In float32, because a frequent token's gradient is a sum of many small terms.
    total, _ = jax.lax.scan(add_chunk, jnp.zeros(table.shape, jnp.float32), (_in_chunks(tokens), _in_chunks(dy)))
    return layout.sum_over_copies(total).astype(table.dtype)
