"""Attention functions with one signature (`Attention`): plain, and in chunks of queries to save memory.

Shape suffixes: B rows, S query positions, T key positions, N query heads, K key/value heads, G = N / K, H head size.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

MASKED = -2.0e38
"""Score of a masked pair. It is finite, so that a row without any allowed key gives numbers and not NaN, and above the
lowest float32 by enough that the softmax can subtract a row's maximum."""
QUERIES = 256
"""Query positions whose scores exist at one time in `chunked_attention`."""

Attention = Callable[..., jax.Array]
"""``(q_BSNH, k_BSKH, v_BSKH, *, segment_ids_BS, window, slides, scale, softcap) -> BSNH``: causal attention within
segments. A layer gives its ``window`` (number of positions that a query sees, its own included) and whether it
``slides`` as traced scalars; ``slides`` is a Python bool if it is the same for all layers of the scan."""


def scores(q: jax.Array, k: jax.Array, scale: float, softcap: float) -> jax.Array:
    """``[B, K, G, S, T]`` float32 scores before masking."""
    batch, queries, heads, size = q.shape
    groups = heads // k.shape[2]
    # Query heads that share a key head are neighbors in Hugging Face's weights.
    grouped = q.reshape(batch, queries, k.shape[2], groups, size)
    raw = jnp.einsum("bskgh,btkh->bkgst", grouped, k, preferred_element_type=jnp.float32) * scale
    return softcap * jnp.tanh(raw / softcap) if softcap else raw


def _attended(q: jax.Array, k: jax.Array, v: jax.Array, allowed: jax.Array, scale: float,
              softcap: float) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Attention ``[B, S, N, H]``, the float32 weights of the keys and the scores, both ``[B, K, G, S, T]``.

    q ``[B, S, N, H]``, k and v ``[B, T, K, H]``; ``allowed`` ``[B, S, T]``: keys of a query; ``softcap``: 0 for none.
    """
    raw = scores(q, k, scale, softcap)
    # The softmax is float32; its weights are rounded to v's dtype for the product.
    weights = jax.nn.softmax(jnp.where(allowed[:, None, None], raw, MASKED), axis=-1)
    return jnp.einsum("bkgst,btkh->bskgh", weights.astype(v.dtype), v).reshape(q.shape), weights, raw


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def trained_attention(q: jax.Array, k: jax.Array, v: jax.Array, allowed: jax.Array, scale: float,
                      softcap: float) -> jax.Array:
    """`_attended` with a derivative by hand, which reads scores less often. Every query must be allowed a key."""
    return _attended(q, k, v, allowed, scale, softcap)[0]


def _forward(q: jax.Array, k: jax.Array, v: jax.Array, allowed: jax.Array, scale: float,
             softcap: float) -> tuple[jax.Array, Any]:
    out, weights, raw = _attended(q, k, v, allowed, scale, softcap)
    return out, (q, k, v, out, weights, raw if softcap else None)


def _backward(scale: float, softcap: float, residuals: Any,
              d_out: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, None]:
    q, k, v, out, weights, capped_scores = residuals
    grouped = (*q.shape[:2], k.shape[2], -1, q.shape[3])
    d_grouped = d_out.reshape(grouped)
    # The sum over keys of weight x gradient equals the sum over the head of output x gradient, which are smaller.
    total = jnp.sum((d_out * out).astype(jnp.float32).reshape(grouped), -1).transpose(0, 2, 3, 1)
    d_weights = jnp.einsum("bskgh,btkh->bkgst", d_grouped, v, preferred_element_type=jnp.float32)
    # The derivative of the softmax. It is 0 for a masked pair, whose weight is 0.
    d_scores = weights * (d_weights - total[..., None]) * scale
    if capped_scores is not None:
        d_scores = d_scores * (1 - jnp.square(capped_scores / softcap))
    d_scores = d_scores.astype(q.dtype)
    d_q = jnp.einsum("bkgst,btkh->bskgh", d_scores, k).reshape(q.shape)
    # The narrow operand comes first: the compiler for CPUs transposes the left one.
    d_k = jnp.einsum("bskgh,bkgst->bkht", q.reshape(grouped), d_scores).transpose(0, 3, 1, 2)
    d_v = jnp.einsum("bskgh,bkgst->bkht", d_grouped, weights.astype(v.dtype)).transpose(0, 3, 1, 2)
    return d_q, d_k, d_v, None


trained_attention.defvjp(_forward, _backward)


def plain_attention(q: jax.Array, k: jax.Array, v: jax.Array, *, segment_ids: jax.Array, window: jax.Array,
                    slides: bool | jax.Array, scale: float, softcap: float) -> jax.Array:
    """Attention with the scores of all pairs of positions in memory."""
    index = jnp.arange(segment_ids.shape[-1])
    distance = index[:, None] - index[None, :]
    allowed = (distance >= 0) & (distance < window) & (segment_ids[..., :, None] == segment_ids[..., None, :])
    return trained_attention(q, k, v, allowed, scale, softcap)


def chunked_attention(q: jax.Array, k: jax.Array, v: jax.Array, *, segment_ids: jax.Array, window: jax.Array,
                      slides: bool | jax.Array, scale: float, softcap: float) -> jax.Array:
    """Attention with the scores of `QUERIES` positions in memory at a time; backward computes them again."""
    batch, length, heads, size = q.shape
    chunk = min(QUERIES, length)
    count = -(-length // chunk)
    rest = count * chunk - length
    # The last chunk is padded with queries whose results are cut off at the end.
    padded = jnp.pad(q, ((0, 0), (0, rest), (0, 0), (0, 0))).reshape(batch, count, chunk, heads, size)
    ids = jnp.pad(segment_ids, ((0, 0), (0, rest))).reshape(batch, count, chunk)
    keys = jnp.arange(length)

    @jax.checkpoint
    def attend_chunk(xs: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        queries, query_ids, number = xs
        distance = (number * chunk + jnp.arange(chunk))[:, None] - keys[None]
        allowed = (distance >= 0) & (distance < window) & (query_ids[:, :, None] == segment_ids[:, None, :])
        return _attended(queries, k, v, allowed, scale, softcap)[0]

    out = jax.lax.map(attend_chunk, (padded.swapaxes(0, 1), ids.swapaxes(0, 1), jnp.arange(count)))
    return out.swapaxes(0, 1).reshape(batch, count * chunk, heads, size)[:, :length]
