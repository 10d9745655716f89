"""The decoder as pure functions over a tree of arrays in Hugging Face's shapes and names.

Tree: ``{"model.embed_tokens.weight": [V, D], "model.norm.weight": [D], "layers": {name: [L, ...]}}`` and, where
embeddings are not tied, ``"lm_head.weight": [V, D]``. Layers are stacked, so that one layer is compiled and scanned
(`workings.engines.jax.layers`).

Shape suffixes: L layers, B rows, S positions, D width, F feed-forward width, N query heads, K key/value heads, H head
size, V vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax import feed_forward
from workings.engines.jax.attention import Attention
from workings.engines.jax.embedding import table_rows
from workings.engines.jax.layers import PER_LAYER, SHARED, KeysValues, Layer, over_layers, slides, unroll
from workings.engines.jax.norm import rms_norm
from workings.engines.jax.params_tree import Params
from workings.engines.jax.per_layer_embedding import add_per_layer, per_layer_inputs
from workings.engines.jax.projection import cast, project, projection
from workings.engines.jax.remat import Remat
from workings.engines.jax.sharding import Layout
from workings.models.shape import ModelShape
from workings.models.weights import EMBEDDING, FINAL_NORM, HEAD, LAYER_SCALAR

Attend = Callable[[jax.Array, jax.Array, jax.Array, Any], jax.Array]
"""``(q_BSNH, k_BTKH, v_BTKH, layer_inputs) -> out_BSNH``."""
Pick = Callable[[jax.Array], jax.Array]
"""``[B, S, ...]`` to ``[B, M, ...]``: some positions of each row."""


def rotate(x: jax.Array, angles: jax.Array, size: jax.Array | None = None) -> jax.Array:
    """Rotary embedding of ``[B, S, heads, H]`` by ``angles`` ``[B, S, H/2]``; halves are paired, not neighbors."""
    cos, sin = jnp.cos(angles)[:, :, None], jnp.sin(angles)[:, :, None]
    if size is not None:  # YaRN makes what it rotates a little longer
        cos, sin = cos * size, sin * size
    # In float32 and rounded once at the end: angles of far positions have more digits than bfloat16.
    first, second = jnp.split(x.astype(jnp.float32), 2, -1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1).astype(x.dtype)


def query_scale(shape: ModelShape) -> float:
    """Factor on attention scores."""
    return shape.query_scale or shape.head_dim ** -0.5


def _attention_block(x: jax.Array, w: Params, angles: jax.Array, shape: ModelShape, attend: Attend,
                     inputs: Any, layout: Layout, layer: int, of_queries: Pick) -> tuple[jax.Array, KeysValues]:
    # OLMo 3 stretches its global layers alone; their keys and queries get a little longer with it.
    stretched = jnp.where(inputs["slides"], 1.0, shape.rope_yarn[-1]) if shape.rope_yarn else None

    def linear(x: jax.Array, name: str) -> jax.Array:
        return project(x, projection(w, name), name, layout)

    def heads(x: jax.Array, letter: str) -> jax.Array:
        return layout.inner(linear(x, f"self_attn.{letter}_proj").reshape(*x.shape[:2], -1, shape.head_dim_of(layer)))

    def turned(x: jax.Array, letter: str, angles: jax.Array) -> jax.Array:
        return rotate(_normed_heads(x, w, letter, shape) if shape.qk_norm else x, angles, stretched)

    q = turned(heads(of_queries(x), "q"), "q", of_queries(angles))
    if shape.shares_keys(layer):
        k, v = inputs[SHARED]
    else:
        raw = heads(x, "k")
        v = raw if shape.keys_as_values and not shape.slides(layer) else heads(x, "v")
        k, v = turned(raw, "k", angles), rms_norm(v, None, shape) if shape.value_norm else v
    mixed = attend(q, k, v, inputs)
    # Where `tp` splits the heads, it splits this matrix by its input: the devices' partial products are added here.
    return layout.inner(linear(mixed.reshape(*mixed.shape[:2], -1), "self_attn.o_proj")), (k, v)


def _normed_heads(x: jax.Array, w: Params, letter: str, shape: ModelShape) -> jax.Array:
    """Queries or keys ``[B, S, heads, H]`` normed before their rotation: each head by itself, or all together."""
    weight = w[f"self_attn.{letter}_norm.weight"]
    if shape.qk_norm_whole:
        return rms_norm(x.reshape(*x.shape[:2], -1), weight, shape).reshape(x.shape)
    return rms_norm(x, weight, shape)


def _feed_forward(x: jax.Array, w: Params, shape: ModelShape, layout: Layout, layer: int, chunks: bool) -> jax.Array:
    # Cast here, while the matrices are still split: what chunks gather over devices has the width of products.
    three = [cast(projection(w, name), x.dtype) for name in feed_forward.NAMES]
    positions = x.shape[0] * x.shape[1] // layout.fsdp
    if chunks and feed_forward.chunk_count(positions) > 1:
        return feed_forward.chunked(x, three, shape, layout, shape.mlp_width_of(layer))
    return feed_forward.gated(x, three, shape, layout)


def block(x: jax.Array, w: Params, positions: jax.Array, shape: ModelShape, attend: Attend,
          inputs: Any, layout: Layout, layer: int, *, chunks: bool = False,
          of_queries: Pick = lambda x: x) -> tuple[jax.Array, KeysValues]:
    """One decoder layer on ``[B, S, D]``, and the keys and values that it attended to.

    ``inputs`` holds this layer's `layer_constants` and goes to ``attend``; ``layer`` is its number, or that of any
    layer of its stack; ``chunks``: see `feed_forward`; ``of_queries`` picks the positions that leave the layer, of
    which alone there are queries.
    """
    def normed(x: jax.Array, name: str) -> jax.Array:
        return rms_norm(x, w[f"{name}_layernorm.weight"], shape)

    # `[B, S, H/2]`, by this layer's own frequencies, which the scan hands in beside its weights.
    angles = positions[..., None].astype(jnp.float32) * inputs["frequencies"]
    mixed, own = _attention_block(normed(x, "input") if shape.pre_norms else x, w, angles, shape, attend, inputs,
                                  layout, layer, of_queries)
    x = of_queries(x)
    # Gemma since its second version norms what a block gives before it is added, too; OLMo 3 norms only that.
    if shape.post_norms:
        x = x + normed(mixed, "post_attention")
        inner = normed(x, "pre_feedforward") if shape.pre_norms else x
        x = x + normed(_feed_forward(inner, w, shape, layout, layer, chunks), "post_feedforward")
    else:
        x = x + mixed
        # Where nothing is normed after a block, Hugging Face's name means the norm before the feed-forward.
        x = x + _feed_forward(normed(x, "post_attention"), w, shape, layout, layer, chunks)
    if PER_LAYER in inputs:
        x = add_per_layer(x, w, of_queries(inputs[PER_LAYER]), shape, layout)
    return x * w[LAYER_SCALAR].astype(x.dtype) if shape.layer_scalar else x, own


def embed(table: jax.Array, tokens: jax.Array, shape: ModelShape, dtype: Any, layout: Layout) -> jax.Array:
    """``[B, S, D]`` embeddings of tokens; Gemma's are multiplied by the root of the width, rounded to ``dtype``."""
    x = table_rows(table, tokens, layout).astype(dtype)
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


def decoder_layer(shape: ModelShape, positions: jax.Array, segment_ids: jax.Array, *, attention: Attention,
                  layout: Layout, chunks: bool, layers: Sequence[int]) -> Layer:
    """The function of a layer of this stack, on rows with these positions and segments.

    Other arguments as of `hidden_states`.
    """
    def attend(q: jax.Array, k: jax.Array, v: jax.Array, inputs: Any) -> jax.Array:
        return attention(q, k, v, segment_ids=segment_ids, window=inputs["window"], scale=query_scale(shape),
                         slides=slides(shape, layers, inputs), softcap=shape.attention_softcap)

    def layer(x: jax.Array, xs: tuple[Params, Params]) -> tuple[jax.Array, KeysValues]:
        out, own = block(x, xs[0], positions, shape, attend, xs[1], layout, layers[0], chunks=chunks)
        return layout.rows(out), own

    return layer


def last_layer_output(params: Params, shape: ModelShape, tokens: jax.Array, positions: jax.Array,
                      segment_ids: jax.Array, *, attention: Attention, remat: Remat, dtype: Any,
                      layout: Layout) -> jax.Array:
    """``[B, S, D]`` what the last layer gives, before the last norm; arguments as of `hidden_states`."""
    def layer(layers: Sequence[int]) -> Layer:
        return decoder_layer(shape, positions, segment_ids, attention=attention, layout=layout, chunks=remat.chunks,
                             layers=layers)

    x = layout.rows(embed(params[EMBEDDING], tokens, shape, dtype, layout))
    given, made = per_layer_inputs(params, shape, tokens, x, layout)
    # With the remat policy `layer` one `[B, S, D]` a layer is kept for backward.
    return over_layers(params, shape, x, layer, given=given, made=made, wrap=remat.wrap, turns=unroll(shape))[0]


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
