"""Key/value cache of generation, as ring buffers: a layer has no more slots than the tokens that it can attend to.

All rows of a batch use the same slot for the same step. Prompts are padded on the left, so that their last tokens are
in one slot; new token number c of every row goes to slot ``c mod R``, over the oldest one. So one slice is written per
step, and the distance to a slot is the same for all rows.

Shape suffixes: L layers, l layers of one kind, B rows, P padded prompt length, C room for new tokens, R slots of a
ring, N query heads, K key/value heads, H head size, G = N / K.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Layout as DeviceLayout
from jax.experimental.layout import with_layout_constraint

from workings.engines.jax.attention import MASKED, scores
from workings.engines.jax.layers import KeysValues, slides
from workings.engines.jax.model import Attend
from workings.engines.jax.params_tree import stacks
from workings.engines.jax.sharding import TP, Layout
from workings.models.shape import ModelShape

LOCAL, GLOBAL = "local", "global"


class Ring(NamedTuple):
    """Keys and values of all layers of one kind, ``[l, B, R, K, H]`` each."""

    keys: jax.Array
    values: jax.Array


Caches = dict[str, Ring]
"""The rings of `LOCAL` (sliding) and `GLOBAL` layers, where the model has such layers."""


def layers_of(shape: ModelShape) -> dict[str, list[int]]:
    """Numbers of the layers of each kind that have their own keys and values."""
    own = [i for i in range(shape.layers) if not shape.shares_keys(i)]
    kinds = {LOCAL: [i for i in own if shape.slides(i)], GLOBAL: [i for i in own if not shape.slides(i)]}
    return {kind: layers for kind, layers in kinds.items() if layers}


def index_in_kind(shape: ModelShape) -> np.ndarray:
    """``[L]`` int32: index in its kind's ring of the keys and values that a layer attends to."""
    index = {layer: i for layers in layers_of(shape).values() for i, layer in enumerate(layers)}
    return np.array([index[shape.key_layer(i)] for i in range(shape.layers)], np.int32)


def select_layers(shape: ModelShape, kv_by_stack: dict[str, KeysValues], part: int, layers: list[int]) -> jax.Array:
    """``[l, B, S, K, H]`` keys (``part`` 0) or values (``part`` 1) of these layers, from those of each stack."""
    if len(kv_by_stack) == 1:
        x = next(iter(kv_by_stack.values()))[part]
        # A gather copies the cache; where all layers are of one kind it is left out.
        return x if len(layers) == shape.layers else x[np.array(layers)]
    location = {layer: (prefix, i) for stack, prefix in stacks(shape).items() for i, layer in enumerate(stack)}
    return jnp.stack([kv_by_stack[prefix][part][i] for prefix, i in map(location.__getitem__, layers)])


def from_prompts(shape: ModelShape, layout: Layout, kv_by_stack: dict[str, KeysValues], room: int) -> Caches:
    """Rings with the last tokens of the prompts, as many as each kind of layer can attend to.

    ``kv_by_stack``: ``[n, B, P, K, H]`` of prompts that are padded on the left; ``room``: new tokens of a row.
    """
    def last_tokens(part: int, kind: str, layers: list[int]) -> jax.Array:
        x = select_layers(shape, kv_by_stack, part, layers)
        padded = x.shape[2]
        # A sliding layer needs no more slots than its window.
        count = min(shape.sliding_window, padded + room) if kind == LOCAL else padded + room
        # Free slots come first: the last token of a prompt is in slot R - 1, and new token 0 goes to slot 0.
        x = x[:, :, max(0, padded - count):]
        x = jnp.pad(x, ((0, 0), (0, 0), (max(0, count - padded), 0), (0, 0), (0, 0)))
        return _shard(layout, x)

    return {kind: Ring(*(last_tokens(part, kind, layers) for part in (0, 1)))
            for kind, layers in layers_of(shape).items()}


def repeat_rows(layout: Layout, caches: Caches, copies: int) -> Caches:
    """Rings in which each row is repeated ``copies`` times."""
    return jax.tree.map(lambda x: _shard(layout, jnp.repeat(x, copies, 1)), caches) if copies > 1 else caches


def fills_by_head(layout: Layout) -> bool:
    """Whether prompts are read into rings in the order of `by_head`, from which XLA's programs for GPUs decode.

    They would copy a cache in another order as a whole before the first token. For other devices XLA chooses the order.
    """
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
    def write(ring: jax.Array, part: int, layers: list[int]) -> jax.Array:
        x = select_layers(shape, kv_by_stack, part, layers)
        if on_tpu:
            # With rows next to each other, as a layer makes them, XLA's TPU programs would keep the whole ring in an
            # order that attention does not read, and copy it for every token.
            x = with_layout_constraint(x, DeviceLayout((0, 1, 3, 2, 4)))
        # One slice serves all rows and layers, because every row is at the same count.
        return jax.lax.dynamic_update_slice_in_dim(ring, x.astype(ring.dtype), count % ring.shape[2], 2)

    on_tpu = layout.mesh.devices.flat[0].platform == "tpu"
    return {kind: Ring(write(caches[kind].keys, 0, layers), write(caches[kind].values, 1, layers))
            for kind, layers in layers_of(shape).items()}


def attend_to_cache(q: jax.Array, k: jax.Array, v: jax.Array, ring: Ring, index: jax.Array, position: jax.Array,
                    count: jax.Array, *, window: jax.Array, scale: float, softcap: float) -> jax.Array:
    """Attention ``[B, 1, N, H]`` of new token number ``count`` over a layer's ring and itself.

    q ``[B, 1, N, H]``; k and v ``[B, 1, K, H]`` are the token's own, which the ring does not have yet; ``index``: the
    layer's in the ring; ``position`` ``[B]``: of the token in its row; ``window``: positions that the layer attends to,
    the token's own included; ``softcap``: bound of the scores, 0 for none.
    """
    keys, values = ring.keys[index], ring.values[index]
    size = keys.shape[1]
    distance = size - (jnp.arange(size) - count) % size  # from the token back to the token in each slot: 1 to R
    # Left padding and empty slots are further back than the row's first token.
    visible = (distance[None] <= position[:, None]) & (distance < window)[None]
    old = jnp.where(visible[:, None, None, None], scores(q, keys, scale, softcap), MASKED)
    own = scores(q, k, scale, softcap)
    # One softmax over slots and the token itself, without joining the two arrays.
    # The token always attends to itself, so the maximum is a real score even where every slot is masked.
    top = jnp.maximum(jnp.max(old, -1, keepdims=True), own)
    old, own = jnp.exp(old - top), jnp.exp(own - top)
    total = jnp.sum(old, -1, keepdims=True) + own
    mixed = (jnp.einsum("bkgst,btkh->bskgh", old.astype(v.dtype), values, preferred_element_type=jnp.float32)
             + jnp.einsum("bkgst,btkh->bskgh", own, v.astype(jnp.float32)))
    return (mixed / total.transpose(0, 3, 1, 2, 4)).astype(q.dtype).reshape(q.shape)


def attend_cached(shape: ModelShape, caches: Caches, position: jax.Array, count: jax.Array, scale: float,
                  layers: Sequence[int]) -> Attend:
    """Attention of one new token a row, for the layers of this stack, whose inputs have ``index`` (`index_in_kind`)."""
    def attend(q: jax.Array, k: jax.Array, v: jax.Array, inputs: Any) -> jax.Array:
        def to_ring(kind: str) -> Any:
            return lambda: attend_to_cache(q, k, v, caches[kind], inputs["index"], position, count,
                                           window=inputs["window"], scale=scale, softcap=shape.attention_softcap)

        if len(caches) == 1:
            return to_ring(*caches)()
        local = slides(shape, layers, inputs)
        if isinstance(local, bool):
            return to_ring(LOCAL if local else GLOBAL)()
        # The two rings have different numbers of slots, so a scan over layers must branch; only one side runs.
        return jax.lax.cond(local, to_ring(LOCAL), to_ring(GLOBAL))

    return attend
