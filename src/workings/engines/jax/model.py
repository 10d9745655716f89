"""The decoder as pure functions over a tree of arrays in Hugging Face's shapes and names.

    {"model.embed_tokens.weight": [V, D], "model.norm.weight": [D], "layers": {name: [L, ...]}}

If embeddings are not tied, the tree also has ``lm_head.weight`` ``[V, D]``. Layers are stacked for a scan (`layers`).

Gemma 4's per-layer embeddings are a second, frozen table, which gives every token a few numbers for each layer. Each
layer adds its part to a projection of the token's embedding, and adds the sum to the residual stream through a gate.

Shape suffixes: L layers, B rows, S positions, D width, F feed-forward width, N query heads, K key/value heads, H head
size, P per-layer width, V vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax import feed_forward
from workings.engines.jax.attention import Attention
from workings.engines.jax.embedding import table_rows
from workings.engines.jax.layers import (
    PER_LAYER,
    POLICIES,
    SHARED,
    KeysValues,
    Layer,
    LayerInputs,
    LayerScan,
    Remat,
    slides,
)
from workings.engines.jax.params_tree import Params
from workings.engines.jax.projection import DROPOUT_KEY, cast, project, projection
from workings.engines.jax.sharding import Layout
from workings.models import family as names
from workings.models.shape import ModelShape

Attend = Callable[[jax.Array, jax.Array, jax.Array, Any], jax.Array]
"""``(q_BSNH, k_BTKH, v_BTKH, layer_inputs) -> out_BSNH``."""
GATE, INTO, NORM = "per_layer_input_gate", "per_layer_projection", "post_per_layer_input_norm.weight"
"""Hugging Face's names of a layer's tensors for the per-layer embeddings."""
NUMBER = "number"
"""Name of an input of a layer: its own number."""


def rms_norm(x: jax.Array, weight: jax.Array | None, shape: ModelShape) -> jax.Array:
    """Root-mean-square norm of the last axis, in float32, rounded as in transformers; ``weight``: None for 1."""
    wide = x.astype(jnp.float32)
    normed = wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), -1, keepdims=True) + shape.rms_norm_eps)
    if weight is None:
        return normed.astype(x.dtype)
    # Gemma stores the distance of its weight from one.
    if shape.norm_plus_one:
        return (normed * (1.0 + weight.astype(jnp.float32))).astype(x.dtype)
    if shape.norm_rounds_once:
        return (normed * weight.astype(jnp.float32)).astype(x.dtype)
    return normed.astype(x.dtype) * weight.astype(x.dtype)


def rotate(x: jax.Array, angles: jax.Array, size: jax.Array | None = None) -> jax.Array:
    """Rotary embedding of x ``[B, S, heads, H]`` by ``angles`` ``[B, S, H/2]``, times ``size`` (YaRN)."""
    cos, sin = jnp.cos(angles)[:, :, None], jnp.sin(angles)[:, :, None]
    if size is not None:
        cos, sin = cos * size, sin * size
    # Element i of the first half of a head is paired with element i of the second half.
    first, second = jnp.split(x.astype(jnp.float32), 2, -1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1).astype(x.dtype)


def query_scale(shape: ModelShape) -> float:
    """Factor on attention scores."""
    return shape.query_scale or shape.head_dim ** -0.5


def _attention_block(x: jax.Array, w: Params, angles: jax.Array, shape: ModelShape, attend: Attend, inputs: Any,
                     layout: Layout, layer: int) -> tuple[jax.Array, KeysValues]:
    """Attention of one layer ``[B, S, D]``, and its keys and values; arguments as in `block`."""
    # OLMo 3 applies YaRN to its global layers only.
    yarn_scale = jnp.where(inputs["slides"], 1.0, shape.rope_yarn[-1]) if shape.rope_yarn else None

    def linear(x: jax.Array, name: str) -> jax.Array:
        return project(x, projection(w, name), name, layout)

    def heads(x: jax.Array, letter: str) -> jax.Array:
        return layout.inner(linear(x, f"self_attn.{letter}_proj").reshape(*x.shape[:2], -1, shape.head_dim_of(layer)))

    def rotated(x: jax.Array, letter: str, angles: jax.Array) -> jax.Array:
        return rotate(_normed_heads(x, w, letter, shape) if shape.qk_norm else x, angles, yarn_scale)

    q = rotated(heads(x, "q"), "q", angles)
    if shape.shares_keys(layer):
        k, v = inputs[SHARED]
    else:
        keys = heads(x, "k")
        # In Gemma 4 31B's global layers one projection gives keys and values.
        v = keys if shape.keys_as_values and not shape.slides(layer) else heads(x, "v")
        k, v = rotated(keys, "k", angles), rms_norm(v, None, shape) if shape.value_norm else v
    attended = attend(q, k, v, inputs)
    return layout.inner(linear(attended.reshape(*attended.shape[:2], -1), "self_attn.o_proj")), (k, v)


def _normed_heads(x: jax.Array, w: Params, letter: str, shape: ModelShape) -> jax.Array:
    """Queries or keys ``[B, S, heads, H]``, normed per head or over all heads."""
    weight = w[f"self_attn.{letter}_norm.weight"]
    if shape.qk_norm_whole:
        return rms_norm(x.reshape(*x.shape[:2], -1), weight, shape).reshape(x.shape)
    return rms_norm(x, weight, shape)


def _feed_forward(x: jax.Array, w: Params, shape: ModelShape, layout: Layout, layer: int, chunks: bool) -> jax.Array:
    # Cast before matrices are gathered, so that devices send the smaller format.
    matrices = [cast(projection(w, name), x.dtype) for name in feed_forward.NAMES]
    positions = x.shape[0] * x.shape[1] // layout.shape.row_devices
    # In chunks all devices would drop the same inputs.
    has_dropout = any(DROPOUT_KEY in tensors for tensors in matrices)
    if chunks and not has_dropout and feed_forward.chunk_count(positions) > 1:
        return feed_forward.chunked(x, matrices, shape, layout, shape.mlp_width_of(layer))
    return feed_forward.gated(x, matrices, shape, layout, layout.inner)


def block(x: jax.Array, w: Params, positions: jax.Array, shape: ModelShape, attend: Attend,
          inputs: Any, layout: Layout, layer: int, *, chunks: bool = False) -> tuple[jax.Array, KeysValues]:
    """Output ``[B, S, D]`` of a decoder layer, and the keys and values that it attended to.

    ``positions`` ``[B, S]``: of each token in its segment; ``inputs``: as in `layers.Layer`, for ``attend``, too;
    ``layer``: number of any layer of its stack; ``chunks``: whether the feed-forward may run in chunks.
    """
    def normed(x: jax.Array, name: str) -> jax.Array:
        return rms_norm(x, w[f"{name}_layernorm.weight"], shape)

    angles = positions[..., None].astype(jnp.float32) * inputs["frequencies"]
    attended, kv = _attention_block(normed(x, "input") if shape.pre_norms else x, w, angles, shape, attend, inputs,
                                  layout, layer)
    # Gemma 2 and later also norm the output of attention and feed-forward; OLMo 3 norms only these outputs.
    if shape.post_norms:
        x = x + normed(attended, "post_attention")
        y = normed(x, "pre_feedforward") if shape.pre_norms else x
        x = x + normed(_feed_forward(y, w, shape, layout, layer, chunks), "post_feedforward")
    else:
        x = x + attended
        # Here Hugging Face calls the norm before the feed-forward `post_attention`.
        x = x + _feed_forward(normed(x, "post_attention"), w, shape, layout, layer, chunks)
    if PER_LAYER in inputs:
        x = add_per_layer(x, w, inputs[PER_LAYER], shape, layout)
    return x * w[names.LAYER_SCALAR].astype(x.dtype) if shape.layer_scalar else x, kv


def embed(table: jax.Array, tokens: jax.Array, shape: ModelShape, dtype: Any, layout: Layout) -> jax.Array:
    """``[B, S, D]`` embeddings of tokens; Gemma's are multiplied by the root of the width, rounded to ``dtype``."""
    x = table_rows(table, tokens, layout).astype(dtype)
    return x * jnp.asarray(shape.width ** 0.5, dtype) if shape.scaled_embeddings else x


def unembedding(params: Params) -> jax.Array:
    """The ``[V, D]`` matrix that turns hidden states into logits."""
    return params[names.HEAD] if names.HEAD in params else params[names.EMBEDDING]


def final_logits(hidden: jax.Array, head: jax.Array, shape: ModelShape) -> jax.Array:
    """``[..., V]`` float32 logits of normed hidden states."""
    raw = jnp.einsum("...d,vd->...v", hidden, head.astype(hidden.dtype), preferred_element_type=jnp.float32)
    return shape.final_softcap * jnp.tanh(raw / shape.final_softcap) if shape.final_softcap else raw


def final_norm(x: jax.Array, params: Params, shape: ModelShape) -> jax.Array:
    """The norm before the logits."""
    return rms_norm(x, params[names.FINAL_NORM], shape)


def run_layers(params: Params, shape: ModelShape, tokens: jax.Array, positions: jax.Array, segment_ids: jax.Array, *,
               attention: Attention, dtype: Any, layout: Layout, remat: Remat = POLICIES["none"], unroll: int = 1,
               keep_kv: bool = False) -> tuple[jax.Array, dict[str, KeysValues]]:
    """Output ``[B, S, D]`` of the last layer, before the last norm; keys and values as `LayerScan.run` returns them.

    ``tokens``, ``positions``, ``segment_ids``: ``[B, S]``, as in `Batch`; ``dtype``: of activations and products.
    """
    embedded = layout.rows(embed(params[names.EMBEDDING], tokens, shape, dtype, layout))
    inputs, transform = per_layer_inputs(params, shape, tokens, embedded, layout)

    def make_layer(layers: Sequence[int]) -> Layer:
        def attend(q: jax.Array, k: jax.Array, v: jax.Array, inputs: Any) -> jax.Array:
            return attention(q, k, v, segment_ids=segment_ids, window=inputs["window"], scale=query_scale(shape),
                             slides=slides(shape, layers, inputs), softcap=shape.attention_softcap)

        def layer(x: jax.Array, xs: tuple[Params, Params]) -> tuple[jax.Array, KeysValues]:
            weights, own_inputs = xs
            # Inside the layer, so that a remat policy computes the transform again in backward.
            out, kv = block(x, weights, positions, shape, attend, transform(own_inputs), layout, layers[0],
                            chunks=remat.chunks)
            return layout.rows(out), kv

        return layer

    return LayerScan(shape, make_layer, inputs, remat.wrap, keep_kv, unroll).run(params, embedded)


def per_layer_inputs(params: Params, shape: ModelShape, tokens: jax.Array, x: jax.Array,
                     layout: Layout) -> tuple[LayerInputs, Callable[[Params], Params]]:
    """Inputs of all layers for tokens ``[B, S]`` with embeddings x ``[B, S, D]``, and a transform of a layer's inputs.

    The transform adds the layer's part ``[B, S, P]`` of the per-layer embeddings, if the model has some.
    """
    if not shape.per_layer_width:
        return {}, lambda inputs: inputs
    rows = table_rows(params[names.PER_LAYER_EMBEDDING], tokens, layout).astype(x.dtype)
    rows = jnp.moveaxis(layout.rows(rows.reshape(*tokens.shape, shape.layers, shape.per_layer_width)), 2, 0)
    name = names.PER_LAYER_PROJECTION.removesuffix(".weight")

    def add_embeddings(inputs: Params) -> Params:
        embeddings = jax.lax.dynamic_index_in_dim(rows, inputs[NUMBER], keepdims=False)
        embeddings = embeddings * jnp.asarray(shape.per_layer_width ** 0.5, x.dtype)
        context = project(x, {"weight": inputs[names.PER_LAYER_PROJECTION]}, name, layout)
        context = rms_norm(context * jnp.asarray(shape.width ** -0.5, x.dtype), params[names.PER_LAYER_NORM], shape)
        # A sum of two independent terms is larger than each of them by the root of two.
        return inputs | {PER_LAYER: (context + embeddings) * jnp.asarray(2.0 ** -0.5, x.dtype)}

    projections = params[names.PER_LAYER_PROJECTION].reshape(shape.layers, shape.per_layer_width, shape.width)
    return {NUMBER: jnp.arange(shape.layers), names.PER_LAYER_PROJECTION: projections}, add_embeddings


def add_per_layer(x: jax.Array, w: Params, embeddings: jax.Array, shape: ModelShape, layout: Layout) -> jax.Array:
    """A layer's output ``[B, S, D]`` plus its part ``[B, S, P]`` of the per-layer embeddings, through a gate."""
    gate = jax.nn.gelu(project(x, projection(w, GATE), GATE, layout), approximate=True)
    return x + rms_norm(project(gate * embeddings, projection(w, INTO), INTO, layout), w[NORM], shape)
