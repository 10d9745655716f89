"""Greedy generation in batches with a key/value cache, compiled for few padded shapes.

Prompts are padded on the right to a power of two. New tokens of all rows go to the same cache slots after the padding,
so one slice is written per step; which slots a row may see, and how far apart two tokens are, is decided by positions.

Shape suffixes: L layers, B rows, P padded prompt length, C room for new tokens, T = P + C slots, K heads, H head size.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.base import Completion
from workings.engines.jax.attention import masked_attention
from workings.engines.jax.model import (
    Params,
    block,
    embed,
    final_logits,
    final_norm,
    layer_constants,
    query_scale,
    unembedding,
)
from workings.engines.jax.step import StepSpec
from workings.models.weights import EMBEDDING

Caches = tuple[jax.Array, jax.Array]
"""Keys and values ``[L, B, T, K, H]``."""
SMALLEST = 16
"""Shortest padded length: shorter prompts share its program."""
MOST_ROWS = 128
"""Most rows answered at a time."""


def bucket(length: int, smallest: int = SMALLEST) -> int:
    """The next power of two, at least ``smallest``."""
    return max(smallest, 1 << (length - 1).bit_length())


def _prefill(spec: StepSpec, params: Params, tokens: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Hidden states ``[B, P, D]`` of the prompts, and keys and values ``[L, B, P, K, H]`` of every layer."""
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    segments = jnp.ones_like(tokens)  # padding is on the right: no real token can see it

    def attend(q: jax.Array, k: jax.Array, v: jax.Array, inputs: Any) -> tuple[jax.Array, Any]:
        out = spec.attention(q, k, v, segment_ids=segments, window=inputs["window"], slides=inputs["slides"],
                             scale=query_scale(spec.shape), softcap=spec.shape.attention_softcap)
        return out, (k, v)

    def layer(x: jax.Array, xs: tuple[Params, Params]) -> tuple[jax.Array, Any]:
        return block(x, xs[0], positions, spec.shape, attend, xs[1], spec.layout)

    x = embed(params[EMBEDDING], tokens, spec.shape, spec.compute_dtype, spec.layout)
    x, (keys, values) = jax.lax.scan(layer, x, (params["layers"], layer_constants(spec.shape)))
    return x, keys, values


def _decode(spec: StepSpec, params: Params, token: jax.Array, position: jax.Array, slot: jax.Array, seen: jax.Array,
            slot_positions: jax.Array, caches: Caches) -> tuple[jax.Array, Caches]:
    """Next token of every row, and the caches with this token's keys and values in ``slot``.

    ``seen`` and ``slot_positions`` are ``[B, T]``: whether a row may see a slot, and that slot's position.
    """
    distance = position[:, None] - slot_positions

    def attend(q: jax.Array, k: jax.Array, v: jax.Array, inputs: Any) -> tuple[jax.Array, Any]:
        index, (keys, values) = inputs["index"], inputs["caches"]
        keys = jax.lax.dynamic_update_slice(keys, k[None].astype(keys.dtype), (index, 0, slot, 0, 0))
        values = jax.lax.dynamic_update_slice(values, v[None].astype(values.dtype), (index, 0, slot, 0, 0))
        allowed = (seen & (distance < inputs["window"]))[:, None]
        out = masked_attention(q, keys[index], values[index], allowed, scale=query_scale(spec.shape),
                               softcap=spec.shape.attention_softcap)
        return out, (keys, values)

    def layer(carry: tuple[jax.Array, Any], xs: tuple[Params, Params, jax.Array]) -> tuple[tuple[jax.Array, Any], None]:
        inputs = xs[1] | {"index": xs[2], "caches": carry[1]}
        return block(carry[0], xs[0], position[:, None], spec.shape, attend, inputs, spec.layout), None

    x = embed(params[EMBEDDING], token[:, None], spec.shape, spec.compute_dtype, spec.layout)
    xs = (params["layers"], layer_constants(spec.shape), jnp.arange(spec.shape.layers))
    (x, caches), _ = jax.lax.scan(layer, (x, caches), xs)
    return _greedy(spec, params, x)[:, 0], caches


def _greedy(spec: StepSpec, params: Params, x: jax.Array) -> jax.Array:
    hidden = final_norm(x, params, spec.shape)
    return jnp.argmax(final_logits(hidden, unembedding(params), spec.shape), -1).astype(jnp.int32)


def make_generate(spec: StepSpec, room: int) -> Callable[..., jax.Array]:
    """``(params, tokens_BP, lengths_B, limit, stop_ids, real_B) -> tokens [B, room]`` (0 after a row's end).

    The loop ends when every row has written a stop token or ``limit`` tokens; rows that are not ``real`` are padding.
    """
    def generate(params: Params, tokens: jax.Array, lengths: jax.Array, limit: jax.Array, stop_ids: jax.Array,
                 real: jax.Array) -> jax.Array:
        rows, padded = tokens.shape
        x, keys, values = _prefill(spec, params, tokens)
        last = jnp.take_along_axis(x, (lengths - 1)[:, None, None], 1)
        space = ((0, 0), (0, 0), (0, room), (0, 0), (0, 0))
        caches = (jnp.pad(keys, space), jnp.pad(values, space))
        index = jnp.arange(padded + room)
        prompt = index[None] < lengths[:, None]
        slot_positions = jnp.where(index[None] < padded, index[None], lengths[:, None] + index[None] - padded)

        def going(carry: Any) -> jax.Array:
            return (carry[0] < limit) & ~jnp.all(carry[2])

        def one(carry: Any) -> Any:
            count, token, done, out, caches = carry
            out = jax.lax.dynamic_update_slice(out, jnp.where(done, 0, token)[:, None], (0, count))
            done = done | jnp.isin(token, stop_ids)
            seen = prompt | ((index >= padded) & (index <= padded + count))[None]
            token, caches = _decode(spec, params, token, lengths + count, padded + count, seen, slot_positions, caches)
            return count + 1, token, done, out, caches

        start = (jnp.int32(0), _greedy(spec, params, last)[:, 0], ~real, jnp.zeros((rows, room), jnp.int32), caches)
        return jax.lax.while_loop(going, one, start)[3]

    return generate


@dataclass(frozen=True)
class PromptBatch:
    """Prompts of similar length, padded: what one call of the compiled program gets."""

    indices: list[int]
    tokens: np.ndarray
    lengths: np.ndarray
    real: np.ndarray


def prompt_batches(prompts: Sequence[Sequence[int]], rows_multiple: int = 1) -> list[PromptBatch]:
    """Prompts sorted by length (so that little is padding) and cut into batches of at most `MOST_ROWS` rows.

    ``rows_multiple``: the number of rows is a multiple of it (devices that share the rows).
    """
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    batches = []
    for start in range(0, len(order), MOST_ROWS):
        indices = order[start:start + MOST_ROWS]
        rows = bucket(len(indices), 8)
        rows = -(-rows // rows_multiple) * rows_multiple
        tokens = np.zeros((rows, bucket(max(len(prompts[i]) for i in indices))), np.int32)
        lengths = np.ones(rows, np.int32)
        for row, i in enumerate(indices):
            tokens[row, :len(prompts[i])] = prompts[i]
            lengths[row] = len(prompts[i])
        batches.append(PromptBatch(indices, tokens, lengths, np.arange(rows) < len(indices)))
    return batches


def cut(tokens: list[int], limit: int, stop_ids: Sequence[int]) -> Completion:
    """A row's tokens up to its stop token, or ``limit`` of them."""
    for i, token in enumerate(tokens[:limit]):
        if token in stop_ids:
            return Completion(tokens=tokens[:i], finish_reason="stop")
    return Completion(tokens=tokens[:limit], finish_reason="length")
