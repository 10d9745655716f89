"""Attention functions. All take the same arguments, so the model does not know which one it was given.

Shape suffixes: B rows, S query positions, T key positions, N query heads, K key/value heads, G = N / K, H head size.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

MASKED = -2.0e38
"""Score of a masked pair: finite, so that a row without any allowed key gives numbers and not NaN."""

Attention = Callable[..., jax.Array]
"""``(q_BSNH, k_BSKH, v_BSKH, *, segment_ids_BS, window, slides, scale, softcap) -> BSNH``: causal attention within
segments. ``window`` (positions seen back) and ``slides`` are scalars of the layer at hand, known only when it runs."""


def allowed_pairs(segment_ids: jax.Array, window: jax.Array) -> jax.Array:
    """``[B, S, S]`` True where query s may see key t: same segment, not later, at most ``window - 1`` back.

    Rows of a batch keep their order inside a segment, so comparing indices is comparing positions.
    """
    index = jnp.arange(segment_ids.shape[-1])
    distance = index[:, None] - index[None, :]
    causal = (distance >= 0) & (distance < window)
    return causal & (segment_ids[..., :, None] == segment_ids[..., None, :])


def scores(q: jax.Array, k: jax.Array, scale: float, softcap: float) -> jax.Array:
    """``[B, K, G, S, T]`` float32 scores before masking."""
    batch, queries, heads, size = q.shape
    groups = heads // k.shape[2]
    grouped = q.reshape(batch, queries, k.shape[2], groups, size)
    raw = jnp.einsum("bskgh,btkh->bkgst", grouped, k, preferred_element_type=jnp.float32) * scale
    return softcap * jnp.tanh(raw / softcap) if softcap else raw


def masked_attention(q: jax.Array, k: jax.Array, v: jax.Array, allowed: jax.Array, *, scale: float,
                     softcap: float) -> jax.Array:
    """All scores at once, in float32: ``[B, S, N, H]``.

    Args:
        q: ``[B, S, N, H]``.
        k: ``[B, T, K, H]``.
        v: ``[B, T, K, H]``.
        allowed: ``[B, S, T]``, true where a query may look.
        scale: factor of the scores.
        softcap: bound of the scores; 0 for none.
    """
    masked = jnp.where(allowed[:, None, None], scores(q, k, scale, softcap), MASKED)
    weights = jax.nn.softmax(masked, axis=-1).astype(v.dtype)
    return jnp.einsum("bkgst,btkh->bskgh", weights, v).reshape(q.shape)


def plain_attention(q: jax.Array, k: jax.Array, v: jax.Array, *, segment_ids: jax.Array, window: jax.Array,
                    slides: jax.Array, scale: float, softcap: float) -> jax.Array:
    """Attention with the whole ``[S, S]`` square of scores in memory."""
    del slides  # the window says it all
    return masked_attention(q, k, v, allowed_pairs(segment_ids, window), scale=scale, softcap=softcap)
