"""Runs all layers of a model by scans over stacks of equal layers, so that each kind of layer is compiled once.

What differs between equal layers, such as a window, is an input of the scan (`layer_constants`).

Shape suffixes: L layers, n of a stack, B rows, S positions, D width, H head size, K key/value heads, P per-layer width.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.jax.params_tree import Params, stack_of, stacks
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import LayerLoop, layer_loops

KeysValues = tuple[jax.Array, jax.Array]
"""``[B, S, K, H]`` keys (normed and rotated) and values of one layer."""
Layer = Callable[[jax.Array, tuple[Params, Params]], tuple[jax.Array, KeysValues]]
"""``(x, (weights, inputs)) -> (x, keys and values)``; inputs are the layer's `layer_constants` and `LayerInputs`."""
PER_LAYER, SHARED = "per_layer", "shared"
"""Names of further inputs of a layer: its per-layer embeddings ``[B, S, P]``, and `KeysValues` of an earlier layer."""
LayerInputs = Mapping[str, jax.Array]
"""Further inputs of all layers by name, ``[L, ...]`` each; a layer gets its own ``[...]``."""
LOCAL, GLOBAL = "local", "global"
"""Kinds of layers: with a sliding window, and without one."""


def kind_of(shape: ModelShape, layer: int) -> str:
    """`LOCAL` or `GLOBAL`."""
    return LOCAL if shape.slides(layer) else GLOBAL


def frequencies(shape: ModelShape, layer: int) -> np.ndarray:
    """``[H/2]`` float32: rotation angles per position in this layer, computed as in transformers."""
    size = shape.head_dim_of(layer)
    powers = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    if not shape.rotates(layer):
        return np.zeros_like(powers)  # an angle of zero turns nothing
    if shape.slides(layer) and family_of(shape).local_rotation:
        # Gemma 3 and 4 stretch only the rotation of global layers; sliding ones keep the plain one.
        return (1.0 / (np.float32(shape.local_rope_theta) ** powers)).astype(np.float32)
    plain = 1.0 / (np.float32(shape.rope_theta) ** powers)
    if shape.slides(layer):
        return plain.astype(np.float32)
    stretched = plain / np.float32(shape.rope_scaling)
    if shape.rope_llama3:
        stretched = _llama3(stretched, shape)
    if shape.rope_yarn:
        stretched = _yarn(stretched, shape)
    # The slowest frequencies do not rotate, if only a part of the head does.
    stretched[int(shape.rotated_part * size // 2):] = 0
    return stretched.astype(np.float32)


def _llama3(plain: np.ndarray, shape: ModelShape) -> np.ndarray:
    """Llama 3.1's scaling: slow frequencies are divided by ``factor``, fast ones are kept, others are mixed."""
    factor, low, high, original = shape.rope_llama3
    turns = original / (2 * np.pi / plain)  # within the original context
    kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return (1 - kept) * plain / factor + kept * plain


def _yarn(plain: np.ndarray, shape: ModelShape) -> np.ndarray:
    """YaRN's scaling (Peng et al., 2023): slow frequencies are divided by ``factor``, fast ones are kept."""
    factor, original, fast, slow, _ = shape.rope_yarn
    size = 2 * len(plain)

    def index(turns: float) -> float:
        """Index of the frequency that turns this many times within the original context."""
        return float(size * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(shape.rope_theta)))

    # Between these two indices both are mixed. As in transformers, the indices are rounded outward.
    low, high = max(np.floor(index(fast)), 0), min(np.ceil(index(slow)), size - 1)
    slowed = np.clip((np.arange(len(plain)) - low) / max(high - low, 1e-3), 0.0, 1.0).astype(np.float32)
    return plain / np.float32(factor) * slowed + plain * (1 - slowed)


def layer_constants(shape: ModelShape, layers: Sequence[int]) -> Params:
    """Constants ``[n, ...]`` of a stack's layers; ``window``: positions that a token attends to, its own included."""
    widest = np.iinfo(np.int32).max  # all positions
    return {"frequencies": jnp.asarray(np.stack([frequencies(shape, i) for i in layers])),
            "window": jnp.asarray([shape.sliding_window if shape.slides(i) else widest for i in layers], np.int32),
            "slides": jnp.asarray([shape.slides(i) for i in layers])}


def slides(shape: ModelShape, layers: Sequence[int], inputs: Params) -> bool | jax.Array:
    """Whether a layer of this stack has a sliding window: a Python bool if that is known before the scan runs."""
    kinds = {shape.slides(i) for i in layers}
    return kinds.pop() if len(kinds) == 1 and len(layers) < shape.layers else inputs["slides"]


def unroll(shape: ModelShape) -> int:
    """Iterations of a scan over layers to unroll: all of a few layers, which is faster; else one, to compile faster."""
    return shape.layers if shape.layers <= 8 else 1


class _Carry(NamedTuple):
    """What a layer passes on: its output, and by kind of layer the keys and values that later layers attend to."""

    x: jax.Array
    shared_kv: dict[str, KeysValues]


@dataclass(frozen=True)
class LayerScan:
    """A scan over all layers of a model."""

    shape: ModelShape
    make_layer: Callable[[Sequence[int]], Layer]
    """Gives the function of a layer, for a stack of these layers."""
    inputs: LayerInputs
    wrap: Callable[[Any], Any] = lambda layer: layer
    """Applied to the function of each layer, for example a remat policy."""
    keep_kv: bool = False
    """Whether keys and values of all layers are returned."""
    unroll: int = 1
    """Iterations of a loop that are unrolled."""

    def run(self, params: Params, x: jax.Array) -> tuple[jax.Array, dict[str, KeysValues]]:
        """The last layer's output ``[B, S, D]``, and keys and values ``[n, B, S, K, H]`` by the prefix of a stack."""
        kept: dict[str, KeysValues] = {}
        shared_kv: dict[str, KeysValues] = {}
        for loop in layer_loops(self.shape):
            (x, from_loop), kept_of_loop = self._run_loop(loop, params["layers"], x, shared_kv)
            shared_kv |= from_loop
            kept |= kept_of_loop
        return x, kept

    def _run_loop(self, loop: LayerLoop, layers: Params, x: jax.Array,
                  shared_kv: Mapping[str, KeysValues]) -> tuple[_Carry, dict[str, KeysValues]]:
        """What the last layer of a loop passes on, and the keys and values to keep, as in `run`."""
        shared_kinds = {stack: _shared_kind(self.shape, stack) for stack in loop.stacks}
        steps = [self._layer_step(stack, kind, shared_kv) for stack, kind in shared_kinds.items()]

        def iteration(carry: _Carry, xs: Any) -> tuple[_Carry, list[KeysValues | None]]:
            kv = []
            for stack, step, stack_xs in zip(loop.stacks, steps, xs, strict=True):
                if len(stack) == loop.iterations:
                    carry, stack_kv = step(carry, stack_xs)
                else:  # equal neighbors have their own loop inside the iteration
                    carry, stack_kv = jax.lax.scan(step, carry, stack_xs, unroll=self.unroll)
                kv.append(stack_kv)
            return carry, kv

        xs = [self._scan_inputs(loop, stack, layers) for stack in loop.stacks]
        # Each iteration replaces the shared keys and values; the zeros are only there for the first one to replace.
        zeros = {kind: _zero_kv(self.shape, stack[0], x) for stack, kind in shared_kinds.items() if kind is not None}
        end, kv_by_stack = jax.lax.scan(iteration, _Carry(x, zeros), xs, unroll=self.unroll)
        prefixes = stacks(self.shape)
        return end, {prefixes[stack]: jax.tree.map(lambda x: x.reshape(-1, *x.shape[-4:]), kv)
                     for stack, kv in zip(loop.stacks, kv_by_stack, strict=True) if kv is not None}

    def _scan_inputs(self, loop: LayerLoop, stack: tuple[int, ...], layers: Params) -> tuple[Params, Params]:
        """Weights and inputs of a stack, with the loop's iterations as the first axis."""
        own = stack_of(layers, stacks(self.shape)[stack]), layer_constants(self.shape, stack)
        weights, constants = jax.tree.map(partial(_split_iterations, loop), own)
        return weights, constants | {name: _slice_stack(loop, stack, x) for name, x in self.inputs.items()}

    def _layer_step(self, stack: Sequence[int], shared_kind: str | None, shared_kv: Mapping[str, KeysValues]) -> Any:
        """A layer as a scan calls it; ``shared_kind``: from `_shared_kind`; ``shared_kv``: of earlier loops."""
        reuses_kv = self.shape.shares_keys(stack[0])
        reused = {SHARED: shared_kv[kind_of(self.shape, stack[0])]} if reuses_kv else {}
        one_layer = self.make_layer(stack)
        needs_kv = shared_kind is not None or self.keep_kv
        layer = self.wrap(one_layer if needs_kv else lambda x, xs: (one_layer(x, xs)[0], None))

        def step(carry: _Carry, xs: tuple[Params, Params]) -> tuple[_Carry, KeysValues | None]:
            weights, inputs = xs
            x, kv = layer(carry.x, (weights, inputs | reused))
            shared = {} if shared_kind is None else {shared_kind: kv}
            return _Carry(x, carry.shared_kv | shared), kv if self.keep_kv and not reuses_kv else None

        return step


def _split_iterations(loop: LayerLoop, x: jax.Array) -> jax.Array:
    """A stack ``[n, ...]`` as ``[iterations, n / iterations, ...]``; unchanged if there is one layer per iteration."""
    return x if len(x) == loop.iterations else x.reshape(loop.iterations, -1, *x.shape[1:])


def _slice_stack(loop: LayerLoop, stack: Sequence[int], x: jax.Array) -> jax.Array:
    """The layers of a stack out of ``[L, ...]``, in the form of `_split_iterations`."""
    if len(stack) == len(x):
        return x
    # Slices instead of a list of indices: their derivative is padding and no scatter.
    end = loop.first_layer + loop.iterations * loop.layers_per_iteration
    by_iteration = x[loop.first_layer:end].reshape(loop.iterations, loop.layers_per_iteration, *x.shape[1:])
    first = stack[0] - loop.first_layer
    own = by_iteration[:, first:first + len(stack) // loop.iterations]
    return _split_iterations(loop, own.reshape(len(stack), *x.shape[1:]))


def _shared_kind(shape: ModelShape, stack: Sequence[int]) -> str | None:
    """The kind of the stack's last layer, if later layers attend to its keys and values; None if no layer does."""
    shared_layers = {shape.key_layer(i) for i in range(shape.layers) if shape.shares_keys(i)}
    return kind_of(shape, stack[-1]) if stack[-1] in shared_layers else None


def _zero_kv(shape: ModelShape, layer: int, x: jax.Array) -> KeysValues:
    zeros = jnp.zeros((*x.shape[:2], shape.kv_heads_of(layer), shape.head_dim_of(layer)), x.dtype)
    return zeros, zeros


@dataclass(frozen=True)
class Remat:
    """A policy that keeps some activations of a layer for backward, and computes the others again."""

    wrap: Callable[[Any], Any]
    """Applied to the function of one layer."""
    chunks: bool
    """Whether its feed-forward runs in chunks."""


# The barrier against common subexpressions is not needed inside a scan.
_checkpoint = partial(jax.checkpoint, prevent_cse=False)
POLICIES = {
    "none": Remat(lambda layer: layer, False),
    # Keeps the results of products with weights. Attention's products have batch dimensions and are computed again.
    "dots": Remat(partial(_checkpoint, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable), False),
    # Keeps only the layer's input.
    "layer": Remat(_checkpoint, True)}
"""Policies by `memory.remat` of a recipe."""
