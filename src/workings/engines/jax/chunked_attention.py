"""Attention over chunks of queries: the square of scores never exists whole. Runs on every device."""

import jax
import jax.numpy as jnp

from workings.engines.jax.attention import masked_attention

QUERIES = 256
"""Queries at a time."""


def chunked_attention(q: jax.Array, k: jax.Array, v: jax.Array, *, segment_ids: jax.Array, window: jax.Array,
                      slides: bool | jax.Array, scale: float, softcap: float) -> jax.Array:
    """The numbers of `plain_attention`, the scores of `QUERIES` positions in memory; recomputed in backward."""
    del slides
    batch, length, heads, size = q.shape
    chunk = min(QUERIES, length)
    count = -(-length // chunk)
    rest = count * chunk - length
    # The last chunk is filled up with queries whose results are cut off at the end.
    padded = jnp.pad(q, ((0, 0), (0, rest), (0, 0), (0, 0))).reshape(batch, count, chunk, heads, size)
    ids = jnp.pad(segment_ids, ((0, 0), (0, rest))).reshape(batch, count, chunk)
    keys = jnp.arange(length)

    @jax.checkpoint
    def one(xs: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        part, part_ids, index = xs
        distance = (index * chunk + jnp.arange(chunk))[:, None] - keys[None]
        allowed = (distance >= 0) & (distance < window) & (part_ids[:, :, None] == segment_ids[:, None, :])
        return masked_attention(part, k, v, allowed, scale=scale, softcap=softcap)

    # The walk is sequential: the scores of one chunk exist at a time, `[B, K, G, 256, T]` in float32.
    out = jax.lax.map(one, (padded.swapaxes(0, 1), ids.swapaxes(0, 1), jnp.arange(count)))
    return out.swapaxes(0, 1).reshape(batch, count * chunk, heads, size)[:, :length]
