"""Key/value cache of generation. Each layer has a ring buffer of R slots, one for each token that it can attend to.

All rows of a batch use the same slots. Prompts are padded on the left, so that their last tokens are in slot R - 1. New
token number c of every row goes to slot ``c mod R`` and replaces the oldest token. With R = 4, a prompt ``a b`` and new
tokens ``c d e``:

    - - a b  ->  c - a b  ->  c d a b  ->  c d e b

Shape suffixes: L layers, l layers of one kind, n layers of a stack, B rows, P padded prompt length, R slots of a ring,
N query heads, K key/value heads, H head size, G = N / K.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Layout as DeviceLayout
from jax.experimental.layout import with_layout_constraint

from workings.engines.jax.attention import MASKED, scores
from workings.engines.jax.layers import GLOBAL, LOCAL, KeysValues, kind_of, slides
from workings.engines.jax.model import Attend
from workings.engines.jax.params_tree import stacks
from workings.engines.jax.sharding import TP, Layout
from workings.models.shape import ModelShape


class Ring(NamedTuple):
    """Keys and values of all layers of one kind, ``[l, B, R, K, H]`` each."""

    keys: jax.Array
    values: jax.Array


Caches = dict[str, Ring]
"""The rings of `LOCAL` (sliding) and of `GLOBAL` layers, if the model has such layers."""


def layers_of(shape: ModelShape) -> dict[str, list[int]]:
    """Numbers of the layers of each kind that have their own keys and values."""
    own = [i for i in range(shape.layers) if not shape.shares_keys(i)]
    kinds = {kind: [i for i in own if kind_of(shape, i) == kind] for kind in (LOCAL, GLOBAL)}
    return {kind: layers for kind, layers in kinds.items() if layers}


def index_in_kind(shape: ModelShape) -> np.ndarray:
    """``[L]`` int32: where each layer finds the keys and values that it attends to, in the ring of its kind."""
    index = {layer: i for layers in layers_of(shape).values() for i, layer in enumerate(layers)}
    return np.array([index[shape.key_layer(i)] for i in range(shape.layers)], np.int32)


def select_layers(shape: ModelShape, kv_by_stack: dict[str, KeysValues], layers: list[int]) -> Ring:
    """Keys and values ``[l, B, S, K, H]`` of these layers, from those of each stack ``[n, B, S, K, H]``."""
    location = {layer: (prefix, i) for stack, prefix in stacks(shape).items() for i, layer in enumerate(stack)}

    def select(part: int) -> jax.Array:
        if len(kv_by_stack) > 1:
            return jnp.stack([kv_by_stack[prefix][part][i] for prefix, i in map(location.__getitem__, layers)])
        x = next(iter(kv_by_stack.values()))[part]
        # Indexing would copy the cache, also if it selects all layers.
        return x if len(layers) == shape.layers else x[np.array(layers)]

    return Ring(select(0), select(1))


def from_prompts(shape: ModelShape, layout: Layout, kv_by_stack: dict[str, KeysValues], capacity: int) -> Caches:
    """Rings that begin with the last tokens of the prompts, as many as each kind of layer can attend to.

    ``kv_by_stack``: ``[n, B, P, K, H]`` of prompts that are padded on the left; ``capacity``: new tokens of a row.
    """
    def last_tokens(kind: str, x: jax.Array) -> jax.Array:
        padded = x.shape[2]
        all_tokens = padded + capacity
        slots = min(shape.sliding_window, all_tokens) if kind == LOCAL else all_tokens
        free = max(0, slots - padded)
        last = x[:, :, max(0, padded - slots):]
        return _shard(layout, jnp.pad(last, ((0, 0), (0, 0), (free, 0), (0, 0), (0, 0))))

    return {kind: Ring(*(last_tokens(kind, x) for x in select_layers(shape, kv_by_stack, layers)))
            for kind, layers in layers_of(shape).items()}


def repeat_rows(layout: Layout, caches: Caches, copies: int) -> Caches:
    """Rings in which each row is repeated ``copies`` times."""
    return jax.tree.map(lambda x: _shard(layout, jnp.repeat(x, copies, 1)), caches) if copies > 1 else caches


def fills_by_head(layout: Layout) -> bool:
    """Whether prompts are read in the order of `by_head`, into which XLA for GPUs would copy the whole cache."""
    return bool(layout.mesh.devices.flat[0].platform == "gpu")


def by_head(caches: Caches) -> Caches:
    """Rings with keys ``[l, B, K, R, H]`` and values ``[l, B, K, H, R]``."""
    return {kind: Ring(ring.keys.transpose(0, 1, 3, 2, 4), ring.values.transpose(0, 1, 3, 4, 2))
            for kind, ring in caches.items()}


def by_position(caches: Caches) -> Caches:
    """The inverse of `by_head`; XLA makes it a view of the same memory."""
    return {kind: Ring(ring.keys.transpose(0, 1, 3, 2, 4), ring.values.transpose(0, 1, 4, 2, 3))
            for kind, ring in caches.items()}


def _shard(layout: Layout, x: jax.Array) -> jax.Array:
    # Fewer key heads than devices along `tp` are copied to each.
    return layout.constrain(x, None, layout.row_axes, None, TP if x.shape[3] % layout.shape.tp == 0 else None)


def append(shape: ModelShape, layout: Layout, caches: Caches, kv_by_stack: dict[str, KeysValues],
           count: jax.Array) -> Caches:
    """The rings with new token number ``count`` of every row, from its keys and values ``[n, B, 1, K, H]``."""
    on_tpu = layout.mesh.devices.flat[0].platform == "tpu"

    def write(ring: jax.Array, x: jax.Array) -> jax.Array:
        if on_tpu:
            # In the order that a layer gives, XLA's TPU programs would copy the whole ring for every token.
            x = with_layout_constraint(x, DeviceLayout((0, 1, 3, 2, 4)))
        return jax.lax.dynamic_update_slice_in_dim(ring, x.astype(ring.dtype), count % ring.shape[2], 2)

    return {kind: Ring(*map(write, caches[kind], select_layers(shape, kv_by_stack, layers)))
            for kind, layers in layers_of(shape).items()}


def attend_to_cache(q: jax.Array, k: jax.Array, v: jax.Array, ring: Ring, index: jax.Array, position: jax.Array,
                    count: jax.Array, *, window: jax.Array, scale: float, softcap: float) -> jax.Array:
    """Attention ``[B, 1, N, H]`` of new token number ``count`` to the tokens of a layer's ring and to itself.

    q ``[B, 1, N, H]``; k and v ``[B, 1, K, H]``: the token's own, not yet in the ring; ``index``: of the layer in the
    ring; ``position`` ``[B]``: of the token in its row; ``window``: as in `layer_constants`; ``softcap``: 0 for none.
    """
    keys, values = ring.keys[index], ring.values[index]
    slots = keys.shape[1]
    # From the token back to the token in each slot, 1 to R: for token 1 and the slots `c - a b` 1, 4, 3 and 2.
    distance = slots - (jnp.arange(slots) - count) % slots
    # Padding and free slots are further back than the row's first token.
    visible = (distance[None] <= position[:, None]) & (distance < window)[None]
    old = jnp.where(visible[:, None, None, None], scores(q, keys, scale, softcap), MASKED)
    own = scores(q, k, scale, softcap)
    # One softmax over slots and the token itself, without joining the two arrays.
    top = jnp.maximum(jnp.max(old, -1, keepdims=True), own)
    old, own = jnp.exp(old - top), jnp.exp(own - top)
    total = jnp.sum(old, -1, keepdims=True) + own
    mixed = (jnp.einsum("bkgst,btkh->bskgh", old.astype(v.dtype), values, preferred_element_type=jnp.float32)
             + jnp.einsum("bkgst,btkh->bskgh", own, v.astype(jnp.float32)))
    return (mixed / total.transpose(0, 3, 1, 2, 4)).astype(q.dtype).reshape(q.shape)


def attend_cached(shape: ModelShape, caches: Caches, position: jax.Array, count: jax.Array, scale: float,
                  layers: Sequence[int]) -> Attend:
    """The attention of one new token per row, for the layers of a stack; their inputs have ``index``."""
    def attend(q: jax.Array, k: jax.Array, v: jax.Array, inputs: Any) -> jax.Array:
        def to_ring(kind: str) -> Any:
            return lambda: attend_to_cache(q, k, v, caches[kind], inputs["index"], position, count,
                                           window=inputs["window"], scale=scale, softcap=shape.attention_softcap)

        if len(caches) == 1:
            (kind,) = caches
            return to_ring(kind)()
        local = slides(shape, layers, inputs)
        if isinstance(local, bool):
            return to_ring(LOCAL if local else GLOBAL)()
        # The rings have different numbers of slots, so a scan over both kinds of layers must branch.
        return jax.lax.cond(local, to_ring(LOCAL), to_ring(GLOBAL))

    return attend
