"""Keys and values of what was read and written so far, in rings: a layer keeps no more slots than it can look back.

All rows of a batch share their slots. Prompts are padded on the left, so their last tokens stand side by side; the new
token number c of every row goes to slot ``c mod R``, where the oldest one stood. So one slice is written per step, and
how far back a slot lies is the same for all rows.

Shape suffixes: L layers, l layers of one kind, B rows, P padded prompt length, C room for new tokens, R slots of a
ring, N query heads, K key/value heads, H head size, G = N / K.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.jax.attention import MASKED, scores
from workings.engines.jax.layers import KeysValues, slides
from workings.engines.jax.model import Attend
from workings.engines.jax.params_tree import stacks
from workings.engines.jax.sharding import FSDP, TP, Layout
from workings.models.shape import ModelShape

LOCAL, GLOBAL = "local", "global"


class Ring(NamedTuple):
    """The slots of all layers of one kind, ``[l, B, R, K, H]`` each."""

    keys: jax.Array
    values: jax.Array


Caches = dict[str, Ring]
"""`LOCAL` and `GLOBAL`; a kind that the model does not have is left out."""


def layers_of(shape: ModelShape) -> dict[str, list[int]]:
    """Kind -> numbers of its layers that have keys and values of their own."""
    own = [i for i in range(shape.layers) if not shape.shares_keys(i)]
    kinds = {LOCAL: [i for i in own if shape.slides(i)], GLOBAL: [i for i in own if not shape.slides(i)]}
    return {kind: layers for kind, layers in kinds.items() if layers}


def index_in_kind(shape: ModelShape) -> np.ndarray:
    """``[L]`` int32: the place in its kind's ring of the keys and values that a layer attends to."""
    place = {layer: i for layers in layers_of(shape).values() for i, layer in enumerate(layers)}
    return np.array([place[shape.key_layer(i)] for i in range(shape.layers)], np.int32)


def of_kind(shape: ModelShape, by_stack: dict[str, KeysValues], part: int, layers: list[int]) -> jax.Array:
    """``[l, B, S, K, H]`` keys (``part`` 0) or values (1) of these layers, from those of each stack."""
    if len(by_stack) == 1:
        x = next(iter(by_stack.values()))[part]
        return x if len(layers) == shape.layers else x[np.array(layers)]
    where = {layer: (name, turn) for place, name in stacks(shape).items() for turn, layer in enumerate(place)}
    return jnp.stack([by_stack[name][part][turn] for name, turn in map(where.__getitem__, layers)])


def slots(shape: ModelShape, kind: str, length: int) -> int:
    """Slots of a ring where a row has at most ``length`` tokens: a sliding layer needs no more than its window."""
    return min(shape.sliding_window, length) if kind == LOCAL else length


def fill(shape: ModelShape, layout: Layout, by_stack: dict[str, KeysValues], room: int) -> Caches:
    """Rings that hold the ends of the prompts.

    Args:
        shape: decides which layers slide.
        layout: rows are split over ``fsdp``, heads over ``tp`` where they come out even.
        by_stack: keys and values of each stack, ``[n, B, P, K, H]``, of prompts that are padded on the left.
        room: new tokens that a row can get.
    """
    def end(part: int, kind: str, layers: list[int]) -> jax.Array:
        mine = of_kind(shape, by_stack, part, layers)
        padded = mine.shape[2]
        count = slots(shape, kind, padded + room)
        # Free slots come first: the last token of a prompt lies in slot R - 1, and new token 0 goes to slot 0.
        mine = mine[:, :, max(0, padded - count):]
        mine = jnp.pad(mine, ((0, 0), (0, 0), (max(0, count - padded), 0), (0, 0), (0, 0)))
        return _placed(layout, mine)

    return {kind: Ring(end(0, kind, layers), end(1, kind, layers)) for kind, layers in layers_of(shape).items()}


def repeat(layout: Layout, caches: Caches, copies: int) -> Caches:
    """Each row's rings so many times, next to each other: a device repeats its own rows and sends nothing."""
    return jax.tree.map(lambda x: _placed(layout, jnp.repeat(x, copies, 1)), caches) if copies > 1 else caches


def _placed(layout: Layout, x: jax.Array) -> jax.Array:
    if layout.size == 1:
        return x
    heads = TP if x.shape[3] % layout.tp == 0 else None
    return jax.lax.with_sharding_constraint(x, layout.place(None, FSDP, None, heads))


def put(shape: ModelShape, caches: Caches, by_stack: dict[str, KeysValues], count: jax.Array) -> Caches:
    """The rings with new token number ``count`` of every row; ``by_stack`` as in `fill`, ``[n, B, 1, K, H]``."""
    def written(ring: jax.Array, part: int, layers: list[int]) -> jax.Array:
        mine = of_kind(shape, by_stack, part, layers)
        # One slice serves all rows and layers, because every row is at the same count.
        return jax.lax.dynamic_update_slice_in_dim(ring, mine.astype(ring.dtype), count % ring.shape[2], 2)

    return {kind: Ring(written(caches[kind].keys, 0, layers), written(caches[kind].values, 1, layers))
            for kind, layers in layers_of(shape).items()}


def look(q: jax.Array, k: jax.Array, v: jax.Array, ring: Ring, index: jax.Array, position: jax.Array,
         count: jax.Array, *, window: jax.Array, scale: float, softcap: float) -> jax.Array:
    """Attention ``[B, 1, N, H]`` of new token number ``count`` over a layer's ring and itself.

    Args:
        q: ``[B, 1, N, H]``.
        k: ``[B, 1, K, H]``, the token's own.
        v: ``[B, 1, K, H]``, the token's own.
        ring: before the token is put into it.
        index: which layer of its kind it is.
        position: ``[B]`` of the token in its row.
        count: new tokens that every row had before.
        window: positions that the layer sees back, itself included.
        scale: factor of the scores.
        softcap: bound of the scores; 0 for none.
    """
    keys, values = ring.keys[index], ring.values[index]
    size = keys.shape[1]
    back = size - (jnp.arange(size) - count) % size  # how many positions before the token a slot lies: 1 to R
    # Left padding and slots that nothing was written to lie further back than the row's first token.
    seen = (back[None] <= position[:, None]) & (back < window)[None]
    old = jnp.where(seen[:, None, None, None], scores(q, keys, scale, softcap), MASKED)
    own = scores(q, k, scale, softcap)
    # One softmax over both, without a copy of them side by side.
    # A token sees itself, so the maximum is a real score even where every slot is masked.
    most = jnp.maximum(jnp.max(old, -1, keepdims=True), own)
    old, own = jnp.exp(old - most), jnp.exp(own - most)
    total = jnp.sum(old, -1, keepdims=True) + own
    mixed = (jnp.einsum("bkgst,btkh->bskgh", old.astype(v.dtype), values, preferred_element_type=jnp.float32)
             + jnp.einsum("bkgst,btkh->bskgh", own, v.astype(jnp.float32)))
    return (mixed / total.transpose(0, 3, 1, 2, 4)).astype(q.dtype).reshape(q.shape)


def attend_cached(shape: ModelShape, caches: Caches, position: jax.Array, count: jax.Array, scale: float,
                  layers: Sequence[int]) -> Attend:
    """How a layer of this stack attends for one new token a row: to the ring of its kind and to the token itself.

    ``inputs`` of a layer has ``index`` (`index_in_kind`) beside its constants.
    """
    def attend(q: jax.Array, k: jax.Array, v: jax.Array, inputs: Any) -> jax.Array:
        def of(kind: str) -> Any:
            return lambda: look(q, k, v, caches[kind], inputs["index"], position, count, window=inputs["window"],
                                scale=scale, softcap=shape.attention_softcap)

        if len(caches) == 1:
            return of(next(iter(caches)))()
        local = slides(shape, layers, inputs)
        if isinstance(local, bool):
            return of(LOCAL if local else GLOBAL)()
        # The two rings have different numbers of slots, so a scan over layers must branch; only one side runs.
        return jax.lax.cond(local, of(LOCAL), of(GLOBAL))

    return attend
