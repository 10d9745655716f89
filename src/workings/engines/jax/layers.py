"""Walking over the layers: the loops that a model's layers make, what differs between layers, and what one hands on.

Shape suffixes: n layers of a stack, B rows, S positions, D width, H head size, K key/value heads, P per-layer width.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.jax.params_tree import Params, stack_of, stacks
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import Loop, layer_loops

KeysValues = tuple[jax.Array, jax.Array]
"""``[B, S, K, H]`` keys, normed and rotated, and values of one layer."""
Layer = Callable[[jax.Array, tuple[Params, Params]], tuple[jax.Array, KeysValues]]
"""``(x, (weights, inputs)) -> (x, keys and values)``: one layer. ``inputs`` are its `layer_constants` and `Given`."""
PER_LAYER, SHARED = "per_layer", "shared"
"""Further inputs of a layer: ``[B, S, P]`` its part of the per-layer embeddings, and the `KeysValues` of the earlier
layer that it attends to."""
Given = Mapping[str, jax.Array]
"""Further inputs of all layers, ``[L, ...]`` each, by name."""
Made = Callable[[Params], Params]
"""A layer's inputs with what is made of them inside the layer, where a remat policy has it made again in backward."""


def frequencies(shape: ModelShape, layer: int) -> np.ndarray:
    """``[H/2]`` float32: angle per position in this layer (sliding layers may have a base of their own)."""
    # NumPy computes this while the program is traced, so the program holds it as a constant.
    size = shape.head_dim_of(layer)
    powers = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    if not shape.rotates(layer):
        return np.zeros_like(powers)  # an angle of zero turns nothing
    if shape.slides(layer) and family_of(shape).local_rotation:
        # Gemma 3 and 4 stretch only the rotation of global layers; sliding ones keep the plain one of their own base.
        return (1.0 / (np.float32(shape.local_rope_theta) ** powers)).astype(np.float32)
    plain = 1.0 / (np.float32(shape.rope_theta) ** powers)
    if shape.slides(layer):
        return plain.astype(np.float32)
    plain = plain / np.float32(shape.rope_scaling)
    if shape.rope_llama3:
        plain = _llama3(plain, *shape.rope_llama3)
    if shape.rope_yarn:
        plain = _yarn(plain, shape)
    # The slowest frequencies are left out. The halves that are turned together stay those of the whole head.
    plain[int(shape.rotated_part * size // 2):] = 0
    return plain.astype(np.float32)


def _llama3(plain: np.ndarray, factor: float, low: float, high: float, original: float) -> np.ndarray:
    """Llama 3.1's scaling: long waves are slowed by ``factor``, short ones kept, those between are mixed."""
    length = 2 * np.pi / plain
    # A wave's turns within the original context, between two limits: 1 is kept as it is, 0 is slowed.
    mix = np.clip((original / length - low) / (high - low), 0.0, 1.0)
    return (1 - mix) * plain / factor + mix * plain


def _yarn(plain: np.ndarray, shape: ModelShape) -> np.ndarray:
    """YaRN's scaling (Peng et al., 2023): long waves are slowed by ``factor``, short ones are kept."""
    factor, original, fast, slow, _ = shape.rope_yarn
    size = 2 * len(plain)

    def place(turns: float) -> float:
        """Which of the frequencies turns so many times within the original context."""
        return float(size * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(shape.rope_theta)))

    low, high = max(np.floor(place(fast)), 0), min(np.ceil(place(slow)), size - 1)
    slowed = np.clip((np.arange(len(plain)) - low) / max(high - low, 1e-3), 0.0, 1.0).astype(np.float32)
    return plain / np.float32(factor) * slowed + plain * (1 - slowed)


def window(shape: ModelShape, layer: int) -> int:
    """How many positions a layer sees back, itself included."""
    # No distance reaches this number, so one scan over both kinds of layers compares with it and needs no branch.
    return shape.sliding_window if shape.slides(layer) else int(np.iinfo(np.int32).max)


def layer_constants(shape: ModelShape, layers: Sequence[int] | None = None) -> Params:
    """What differs between the layers of a stack (all by default) and is not a weight; scanned beside the weights."""
    layers = layers if layers is not None else range(shape.layers)
    return {"frequencies": jnp.asarray(np.stack([frequencies(shape, i) for i in layers])),
            "window": jnp.asarray(np.array([window(shape, i) for i in layers], np.int32)),
            "slides": jnp.asarray([shape.slides(i) for i in layers])}


def slides(shape: ModelShape, layers: Sequence[int], inputs: Params) -> bool | jax.Array:
    """Whether a layer of this stack slides: known while the program is made, where the whole stack does or does not."""
    kinds = {shape.slides(i) for i in layers}
    return kinds.pop() if len(kinds) == 1 and len(layers) < shape.layers else inputs["slides"]


def unroll(shape: ModelShape) -> int:
    """Turns of a loop that are written out one after the other.

    A few layers are written out: a loop copies every kept activation into a stack,
    which costs a tiny model a third of its step and one of 50 million parameters a sixteenth; for a deep one it saves
    minutes of compilation.
    """
    return shape.layers if shape.layers <= 8 else 1


def over_layers(params: Params, shape: ModelShape, x: jax.Array, layer: Callable[[Sequence[int]], Layer], *,
                given: Given, made: Made, wrap: Callable[[Any], Any] = lambda layer: layer, keep: bool = False,
                turns: int = 1) -> tuple[jax.Array, dict[str, KeysValues]]:
    """``[B, S, D]`` after all layers, and ``[n, B, S, K, H]`` keys and values of each stack that has some.

    Args:
        params: the whole tree.
        shape: of the model.
        x: ``[B, S, D]`` before the first layer.
        layer: gives the function of a layer of the stack with these layers.
        given: see `Given`.
        made: see `Made`.
        wrap: applied to that function; a remat policy wraps the layer and not the scan.
        keep: whether keys and values are wanted.
        turns: turns of a loop that are written out.
    """
    names, kept = stacks(shape), dict[str, KeysValues]()
    shared: dict[bool, KeysValues] = {}
    for loop in layer_loops(shape):
        sources = {place: _kind_that_is_shared(shape, place) for place in loop.places}
        steps = [_step(shape, place, wrap(partial(_one, layer(place), made, source is not None or keep)), source,
                       shared, keep) for place, source in sources.items()]

        def turn(carry: Any, xs: Any, loop: Loop = loop, steps: Any = steps) -> Any:
            out = []
            for place, step, own in zip(loop.places, steps, xs, strict=True):
                # Equal neighbors are a loop of their own inside the turn, so that their layer is compiled once, too.
                carry, kept = step(carry, own) if len(place) == loop.turns else jax.lax.scan(
                    step, carry, own, unroll=turns)
                out.append(kept)
            return carry, out

        xs = [jax.tree.map(partial(_by_turns, loop), (stack_of(params["layers"], names[place]),
                                                      layer_constants(shape, place)))
              for place in loop.places]
        xs = [(weights, inputs | {name: _of_place(loop, place, each) for name, each in given.items()})
              for place, (weights, inputs) in zip(loop.places, xs, strict=True)]
        # The last turn's keys and values are what is shared, so a turn hands its own on in the place of the last one's.
        start = {kind: _nothing(shape, place[0], x) for place, kind in sources.items() if kind is not None}
        (x, kept_parts), out = jax.lax.scan(turn, (x, start), xs, unroll=turns)
        shared |= kept_parts
        kept |= {names[place]: jax.tree.map(partial(_stacked, len(place)), own)
                 for place, own in zip(loop.places, out, strict=True) if own is not None}
    return x, kept


def _step(shape: ModelShape, place: Sequence[int], one: Any, source: bool | None, shared: Mapping[bool, KeysValues],
          keep: bool) -> Any:
    """A layer as a scan wants it: what it carries is ``[B, S, D]`` and the keys and values that later loops share."""
    shares = shape.shares_keys(place[0])

    def step(carry: Any, xs: tuple[Params, Params]) -> Any:
        (x, kept), (weights, inputs) = carry, xs
        x, own = one(x, (weights, inputs | ({SHARED: shared[shape.slides(place[0])]} if shares else {})))
        return (x, kept if source is None else kept | {source: own}), own if keep and not shares else None

    return step


def _by_turns(loop: Loop, each: jax.Array) -> jax.Array:
    """A stack ``[n, ...]`` as ``[turns, n / turns, ...]``, where a turn has several of its layers."""
    return each if len(each) == loop.turns else each.reshape(loop.turns, -1, *each.shape[1:])


def _stacked(count: int, each: jax.Array) -> jax.Array:
    """``[n, B, S, K, H]`` of keys or values by turns."""
    return each.reshape(count, *each.shape[-4:])


def _of_place(loop: Loop, place: Sequence[int], each: jax.Array) -> jax.Array:
    """Of ``[L, ...]`` the layers of a place, as `_by_turns`."""
    if len(place) == len(each):
        return each
    # Slices and no list of indices: their derivative is padding and no scatter.
    turns = each[loop.first:loop.first + loop.turns * loop.step].reshape(loop.turns, loop.step, *each.shape[1:])
    first = place[0] - loop.first
    return _by_turns(loop, turns[:, first:first + len(place) // loop.turns].reshape(len(place), *each.shape[1:]))


def _one(layer: Layer, made: Made, wanted: bool, x: jax.Array,
         xs: tuple[Params, Params]) -> tuple[jax.Array, KeysValues | None]:
    """A layer that gives its keys and values only where somebody wants them."""
    x, own = layer(x, (xs[0], made(xs[1])))
    return x, own if wanted else None


def _kind_that_is_shared(shape: ModelShape, place: Sequence[int]) -> bool | None:
    """Whether the stack's last layer slides, if later layers attend to its keys; None if none do."""
    asking = (i for i in range(shape.layers) if shape.shares_keys(i))
    return shape.slides(place[-1]) if place[-1] in {shape.key_layer(i) for i in asking} else None


def _nothing(shape: ModelShape, layer: int, x: jax.Array) -> KeysValues:
    empty = jnp.zeros((*x.shape[:2], shape.kv_heads_of(layer), shape.head_dim_of(layer)), x.dtype)
    return empty, empty
