"""The decoder as pure functions over a tree of arrays in Hugging Face's shapes and names.

Tree: ``{"model.embed_tokens.weight": [V, D], "model.norm.weight": [D], "layers": {name: [L, ...]}}`` and, where
embeddings are not tied, ``"lm_head.weight": [V, D]``. Layers are stacked, so that one layer is compiled and scanned.

Shape suffixes: L layers, B rows, S positions, D width, F feed-forward width, N query heads, K key/value heads, H head
size, V vocabulary.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.jax import feed_forward
from workings.engines.jax.attention import Attention
from workings.engines.jax.embedding import split_lookup
from workings.engines.jax.matmul import lookup
from workings.engines.jax.params_tree import Params
from workings.engines.jax.projection import cast, project, projection
from workings.engines.jax.remat import Remat
from workings.engines.jax.sharding import Layout
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import EMBEDDING, FINAL_NORM, HEAD

Attend = Callable[[jax.Array, jax.Array, jax.Array, Any], tuple[jax.Array, Any]]
"""``(q, k, v, layer_inputs) -> (out_BSNH, extra)``; ``extra`` is what a scan over layers collects (a cache)."""
Pick = Callable[[jax.Array], jax.Array]
"""``[B, S, ...]`` to ``[B, M, ...]``: some positions of each row."""


def rms_norm(x: jax.Array, weight: jax.Array, shape: ModelShape) -> jax.Array:
    """Root-mean-square norm over the last axis, computed in float32, returned in x's dtype."""
    wide = x.astype(jnp.float32)
    normed = wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), -1, keepdims=True) + shape.rms_norm_eps)
    # Gemma stores its weight as a distance from one and multiplies before it rounds; the others round first.
    # This is where transformers rounds, so both give the same numbers in bfloat16, too.
    if shape.norm_plus_one:
        return (normed * (1.0 + weight.astype(jnp.float32))).astype(x.dtype)
    return normed.astype(x.dtype) * weight.astype(x.dtype)


def frequencies(shape: ModelShape) -> np.ndarray:
    """``[L, H/2]`` float32: angle per position of each layer (sliding layers have their own base)."""
    # NumPy computes this while the program is traced, so the program holds it as a constant.
    powers = np.arange(0, shape.head_dim, 2, dtype=np.float32) / np.float32(shape.head_dim)
    plain = 1.0 / (np.float32(shape.rope_theta) ** powers) / np.float32(shape.rope_scaling)
    if shape.rope_llama3:
        plain = _llama3(plain, *shape.rope_llama3)
    # Gemma 3 stretches only the rotation of its global layers; sliding layers keep the plain one of their own base.
    local_theta = shape.local_rope_theta if family_of(shape).local_rotation else shape.rope_theta
    local = 1.0 / (np.float32(local_theta) ** powers)
    return np.stack([local if shape.slides(i) else plain for i in range(shape.layers)]).astype(np.float32)


def _llama3(plain: np.ndarray, factor: float, low: float, high: float, original: float) -> np.ndarray:
    """Llama 3.1's scaling: long waves are slowed by ``factor``, short ones kept, those between are mixed."""
    length = 2 * np.pi / plain
    # A wave's turns within the original context, between two limits: 1 is kept as it is, 0 is slowed.
    mix = np.clip((original / length - low) / (high - low), 0.0, 1.0)
    return (1 - mix) * plain / factor + mix * plain


def windows(shape: ModelShape) -> np.ndarray:
    """``[L]`` int32: how many positions each layer sees back, itself included."""
    # No distance reaches this number, so one scan over both kinds of layers compares with it and needs no branch.
    everything = np.iinfo(np.int32).max
    return np.array([shape.sliding_window if shape.slides(i) else everything for i in range(shape.layers)], np.int32)


def rotate(x: jax.Array, angles: jax.Array) -> jax.Array:
    """Rotary embedding of ``[B, S, heads, H]`` by ``angles`` ``[B, S, H/2]``; halves are paired, not neighbors."""
    cos, sin = jnp.cos(angles)[:, :, None], jnp.sin(angles)[:, :, None]
    # In float32 and rounded once at the end: angles of far positions have more digits than bfloat16.
    first, second = jnp.split(x.astype(jnp.float32), 2, -1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1).astype(x.dtype)


def layer_constants(shape: ModelShape) -> Params:
    """What differs between layers and is not a weight; scanned beside the weights."""
    return {"frequencies": jnp.asarray(frequencies(shape)), "window": jnp.asarray(windows(shape)),
            "slides": jnp.asarray([shape.slides(i) for i in range(shape.layers)])}


def query_scale(shape: ModelShape) -> float:
    """Factor on attention scores."""
    return shape.query_scale or shape.head_dim ** -0.5


def _attention_block(x: jax.Array, w: Params, angles: jax.Array, shape: ModelShape, attend: Attend,
                     inputs: Any, layout: Layout, of_queries: Pick) -> tuple[jax.Array, Any]:
    def linear(x: jax.Array, name: str) -> jax.Array:
        return project(x, projection(w, name), name, layout)

    def heads(x: jax.Array, name: str) -> jax.Array:
        return layout.inner(linear(x, f"self_attn.{name}_proj").reshape(*x.shape[:2], -1, shape.head_dim))

    q, k, v = heads(of_queries(x), "q"), heads(x, "k"), heads(x, "v")
    # Over the head size and before the rotation; all heads of a layer share the two weights.
    if shape.qk_norm:
        q = rms_norm(q, w["self_attn.q_norm.weight"], shape)
        k = rms_norm(k, w["self_attn.k_norm.weight"], shape)
    mixed, extra = attend(rotate(q, of_queries(angles)), rotate(k, angles), v, inputs)
    # Where `tp` splits the heads, it splits this matrix by its input: the devices' partial products are added here.
    return layout.inner(linear(mixed.reshape(*mixed.shape[:2], -1), "self_attn.o_proj")), extra


def _feed_forward(x: jax.Array, w: Params, shape: ModelShape, layout: Layout, chunks: bool) -> jax.Array:
    # Cast here, while the matrices are still split: what chunks gather over devices has the width of products.
    three = [cast(projection(w, name), x.dtype) for name in feed_forward.NAMES]
    positions = x.shape[0] * x.shape[1] // layout.fsdp
    if chunks and feed_forward.chunk_count(positions) > 1:
        return feed_forward.chunked(x, three, shape, layout)
    return feed_forward.gated(x, three, shape, layout)


def block(x: jax.Array, w: Params, positions: jax.Array, shape: ModelShape, attend: Attend,
          inputs: Any, layout: Layout, *, chunks: bool = False,
          of_queries: Pick = lambda x: x) -> tuple[jax.Array, Any]:
    """One decoder layer on ``[B, S, D]``.

    ``inputs`` holds this layer's `layer_constants` and goes to ``attend``; ``chunks``: see `feed_forward`;
    ``of_queries`` picks the positions that leave the layer, of which alone there are queries.
    """
    # `[B, S, H/2]`, by this layer's own frequencies, which the scan hands in beside its weights.
    angles = positions[..., None].astype(jnp.float32) * inputs["frequencies"]
    mixed, extra = _attention_block(rms_norm(x, w["input_layernorm.weight"], shape), w, angles, shape, attend, inputs,
                                    layout, of_queries)
    x = of_queries(x)
    # Gemma 2 and 3 norm what a block gives before it is added, too.
    if shape.post_norms:
        x = x + rms_norm(mixed, w["post_attention_layernorm.weight"], shape)
        inner = _feed_forward(rms_norm(x, w["pre_feedforward_layernorm.weight"], shape), w, shape, layout, chunks)
        return x + rms_norm(inner, w["post_feedforward_layernorm.weight"], shape), extra
    x = x + mixed
    # Where nothing is normed after a block, Hugging Face's name means the norm before the feed-forward.
    normed = rms_norm(x, w["post_attention_layernorm.weight"], shape)
    return x + _feed_forward(normed, w, shape, layout, chunks), extra


def embed(table: jax.Array, tokens: jax.Array, shape: ModelShape, dtype: Any, layout: Layout) -> jax.Array:
    """``[B, S, D]`` embeddings of tokens; Gemma's are multiplied by the root of the width, rounded to ``dtype``."""
    # A table that is split by row has most of a device's tokens elsewhere, so looking up needs a collective.
    rows = split_lookup(layout, table, tokens) if layout.splits_vocabulary(table.shape[0]) else lookup(table, tokens)
    x = rows.astype(dtype)
    return x * jnp.asarray(shape.width ** 0.5, dtype) if shape.scaled_embeddings else x


def unembedding(params: Params) -> jax.Array:
    """The ``[V, D]`` matrix that turns hidden states into logits."""
    return params[HEAD] if HEAD in params else params[EMBEDDING]


def final_logits(hidden: jax.Array, head: jax.Array, shape: ModelShape) -> jax.Array:
    """``[..., V]`` float32 logits of normed hidden states."""
    # Products of bfloat16 are added up in float32, and the logits are never rounded to bfloat16.
    raw = jnp.einsum("...d,vd->...v", hidden, head.astype(hidden.dtype), preferred_element_type=jnp.float32)
    return shape.final_softcap * jnp.tanh(raw / shape.final_softcap) if shape.final_softcap else raw


def final_norm(x: jax.Array, params: Params, shape: ModelShape) -> jax.Array:
    """The norm before the logits."""
    return rms_norm(x, params[FINAL_NORM], shape)


def unroll(shape: ModelShape) -> int:
    """Layers per turn of the loop.

    A few layers are written out: a loop copies every kept activation into a stack,
    which costs a tiny model a third of its step and one of 50 million parameters a sixteenth; for a deep one it saves
    minutes of compilation.
    """
    return shape.layers if shape.layers <= 8 else 1


Layer = Callable[[jax.Array, tuple[Params, Params]], tuple[jax.Array, None]]
"""``(x, (weights, constants)) -> (x, None)``: one layer, in the form that `jax.lax.scan` takes."""


def decoder_layer(shape: ModelShape, positions: jax.Array, segment_ids: jax.Array, *, attention: Attention,
                  layout: Layout, chunks: bool) -> Layer:
    """The function of one layer on rows with these positions and segments; arguments as of `hidden_states`."""
    def attend(q: jax.Array, k: jax.Array, v: jax.Array, inputs: Any) -> tuple[jax.Array, Any]:
        return attention(q, k, v, segment_ids=segment_ids, window=inputs["window"], slides=inputs["slides"],
                         scale=query_scale(shape), softcap=shape.attention_softcap), None

    def layer(x: jax.Array, xs: tuple[Params, Params]) -> tuple[jax.Array, None]:
        out, _ = block(x, xs[0], positions, shape, attend, xs[1], layout, chunks=chunks)
        return layout.rows(out), None

    return layer


def last_layer_output(params: Params, shape: ModelShape, tokens: jax.Array, positions: jax.Array,
                      segment_ids: jax.Array, *, attention: Attention, remat: Remat, dtype: Any,
                      layout: Layout) -> jax.Array:
    """``[B, S, D]`` what the last layer gives, before the last norm; arguments as of `hidden_states`."""
    x = layout.rows(embed(params[EMBEDDING], tokens, shape, dtype, layout))
    layer = decoder_layer(shape, positions, segment_ids, attention=attention, layout=layout, chunks=remat.chunks)
    # Remat wraps the layer and not the scan: with `layer` one `[B, S, D]` a layer is kept for backward.
    x, _ = jax.lax.scan(remat.wrap(layer), x, (params["layers"], layer_constants(shape)), unroll=unroll(shape))
    return x


def hidden_states(params: Params, shape: ModelShape, tokens: jax.Array, positions: jax.Array, segment_ids: jax.Array,
                  *, attention: Attention, remat: Remat, dtype: Any, layout: Layout) -> jax.Array:
    """``[B, S, D]`` normed hidden states of rows of tokens.

    Args:
        params: the tree described above.
        shape: sizes and switches.
        tokens, positions, segment_ids: ``[B, S]`` int32, as in `workings.models.batch.Batch`.
        attention: one of `workings.engines.jax.attention`.
        remat: one of `workings.engines.jax.remat`; wraps the function of one layer.
        dtype: of activations and matrix products.
        layout: where rows and weights lie; constrains activations to stay split by row.
    """
    x = last_layer_output(params, shape, tokens, positions, segment_ids, attention=attention, remat=remat, dtype=dtype,
                          layout=layout)
    return final_norm(x, params, shape)
