"""Gemma 4's per-layer embeddings: a second table gives every token a few numbers for each layer.

They are looked up once for all layers, before the first. Each layer adds its part to a projection of the token's
embedding, and adds the sum to the residual stream through a gate. The table is frozen
(`workings.models.weights.is_frozen`).

Shape suffixes: L layers, B rows, S positions, D width, P per-layer width.
"""

import jax
import jax.numpy as jnp

from workings.engines.jax.embedding import table_rows
from workings.engines.jax.layers import PER_LAYER, LayerInputs, LayerInputTransform
from workings.engines.jax.norm import rms_norm
from workings.engines.jax.params_tree import Params
from workings.engines.jax.projection import project, projection
from workings.engines.jax.sharding import Layout
from workings.models.shape import ModelShape
from workings.models.weights import PER_LAYER_EMBEDDING, PER_LAYER_NORM, PER_LAYER_PROJECTION

GATE, INTO, NORM = "per_layer_input_gate", "per_layer_projection", "post_per_layer_input_norm.weight"
NUMBER = "number"
"""A layer's own number, among its inputs."""


def per_layer_inputs(params: Params, shape: ModelShape, tokens: jax.Array, x: jax.Array,
                     layout: Layout) -> tuple[LayerInputs, LayerInputTransform]:
    """Inputs of all layers for tokens ``[B, S]`` with embeddings x ``[B, S, D]``, and their transform.

    The transform adds a layer's part ``[B, S, P]`` of the per-layer embeddings to its inputs. A model without them has
    no such inputs.
    """
    if not shape.per_layer_width:
        return {}, lambda inputs: inputs
    rows = table_rows(params[PER_LAYER_EMBEDDING], tokens, layout).astype(x.dtype)
    # Layers first: each takes its slice by its own number, inside of the scan over layers.
    rows = jnp.moveaxis(layout.rows(rows.reshape(*tokens.shape, shape.layers, shape.per_layer_width)), 2, 0)
    name = PER_LAYER_PROJECTION.removesuffix(".weight")

    def add_embeddings(inputs: Params) -> Params:
        embeddings = jax.lax.dynamic_index_in_dim(rows, inputs[NUMBER], keepdims=False)
        # The factors are rounded to the format of computation, like that of the token embeddings in `embed`.
        embeddings = embeddings * jnp.asarray(shape.per_layer_width ** 0.5, x.dtype)
        context = project(x, {"weight": inputs[PER_LAYER_PROJECTION]}, name, layout)
        context = rms_norm(context * jnp.asarray(shape.width ** -0.5, x.dtype), params[PER_LAYER_NORM], shape)
        # Divided by the root of two: a sum of two independent parts of one scale is larger by that factor.
        return inputs | {PER_LAYER: (context + embeddings) * jnp.asarray(2.0 ** -0.5, x.dtype)}

    # The file has one matrix for all layers; a layer's part of it is a run of its rows.
    projections = params[PER_LAYER_PROJECTION].reshape(shape.layers, shape.per_layer_width, shape.width)
    return {NUMBER: jnp.arange(shape.layers), PER_LAYER_PROJECTION: projections}, add_embeddings


def add_per_layer(x: jax.Array, w: Params, embeddings: jax.Array, shape: ModelShape, layout: Layout) -> jax.Array:
    """A layer's output ``[B, S, D]`` plus its part ``[B, S, P]`` of the per-layer embeddings, through a gate."""
    gate = jax.nn.gelu(project(x, projection(w, GATE), GATE, layout), approximate=True)
    return x + rms_norm(project(gate * embeddings, projection(w, INTO), INTO, layout), w[NORM], shape)
