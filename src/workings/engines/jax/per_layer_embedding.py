"""Gemma 4's per-layer embeddings: a second table gives every token a few numbers for each layer.

They are looked up once for all layers, before the first, and each layer lets its own part into the residual stream
through a gate. The table is frozen (`workings.models.weights.is_frozen`).

Shape suffixes: L layers, B rows, S positions, D width, P per-layer width.
"""

import jax
import jax.numpy as jnp

from workings.engines.jax.embedding import table_rows
from workings.engines.jax.layers import PER_LAYER, Given
from workings.engines.jax.norm import rms_norm
from workings.engines.jax.params_tree import Params
from workings.engines.jax.projection import project, projection
from workings.engines.jax.sharding import Layout
from workings.models.shape import ModelShape
from workings.models.weights import PER_LAYER_EMBEDDING, PER_LAYER_NORM, PER_LAYER_PROJECTION

GATE, INTO, NORM = "per_layer_input_gate", "per_layer_projection", "post_per_layer_input_norm.weight"


def per_layer_inputs(params: Params, shape: ModelShape, tokens: jax.Array, x: jax.Array, layout: Layout) -> Given:
    """``[L, B, S, P]`` of tokens ``[B, S]`` whose embeddings are x ``[B, S, D]``; nothing where a model has none."""
    if not shape.per_layer_width:
        return {}
    size = (*tokens.shape, shape.layers, shape.per_layer_width)
    of_tokens = table_rows(params[PER_LAYER_EMBEDDING], tokens, layout).astype(x.dtype).reshape(size)
    of_tokens = of_tokens * jnp.asarray(shape.per_layer_width ** 0.5, x.dtype)
    name = PER_LAYER_PROJECTION.removesuffix(".weight")
    context = project(x, {"weight": params[PER_LAYER_PROJECTION]}, name, layout).reshape(size)
    context = rms_norm(context * jnp.asarray(shape.width ** -0.5, x.dtype), params[PER_LAYER_NORM], shape)
    both = (context + of_tokens) * jnp.asarray(2.0 ** -0.5, x.dtype)
    return {PER_LAYER: jnp.moveaxis(layout.rows(both), 2, 0)}


def add_per_layer(x: jax.Array, w: Params, own: jax.Array, shape: ModelShape, layout: Layout) -> jax.Array:
    """``[B, S, D]``: what a layer gives, and its part ``[B, S, P]`` of the per-layer embeddings through a gate."""
    gate = jax.nn.gelu(project(x, projection(w, GATE), GATE, layout), approximate=True)
    return x + rms_norm(project(gate * own, projection(w, INTO), INTO, layout), w[NORM], shape)
