"""Each layer's tensors as arrays of their own instead of parts of stacks, for a step that writes its layers out.

On a CPU XLA copies a layer's weights out of a stack before every product, and its gradients back into the stack. In a
flat tree layer 2's tensor is ``layers.2.NAME`` instead of a part of ``layers.NAME``. Only the step sees this form: all
other readers of a state get stacks, which are made when they are read.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax.attention import allowed_pairs, plain_attention, trained_attention
from workings.engines.jax.cpu.loss_positions import LossPositions
from workings.engines.jax.cpu.prefix_sharing import PrefixSharingArrays
from workings.engines.jax.layers import layer_constants
from workings.engines.jax.model import PickPositions, block, decoder_layer, embed, final_norm, query_scale
from workings.engines.jax.params_tree import Params, flatten_params, is_stacked, unflatten_params
from workings.engines.jax.step import Arrays, StepSpec
from workings.models.weights import EMBEDDING

Tree = dict[str, Any]


def unstack(flat: Tree) -> Tree:
    """A flat tree with a tensor for each layer, from one of stacks ``[L, ...]``."""
    tree = unflatten_params(flat)
    stacks = tree["layers"]
    count = min((x.shape[0] for x in stacks.values()), default=0)
    return flatten_params(tree | {"layers": {f"{i}.{name}": x[i] for i in range(count) for name, x in stacks.items()}})


def stack(flat: Tree) -> Tree:
    """The inverse of `unstack`."""
    tree = unflatten_params(flat)
    layers = split_layers(tree["layers"])
    return flatten_params(tree | {"layers": jax.tree.map(lambda *x: jnp.stack(x), *layers) if layers else {}})


def split_layers(unstacked: Params) -> list[Params]:
    """The tensors of each layer in order, from a tree's unstacked ``layers``."""
    layers: dict[int, Params] = {}
    # A name is `2.self_attn.q_proj.weight`: the layer's number comes before the first dot.
    for name, x in unstacked.items():
        number, _, inner = name.partition(".")
        layers.setdefault(int(number), {})[inner] = x
    return [layers[i] for i in range(len(layers))]


def unstack_state(state: Mapping[str, Any]) -> Tree:
    """A whole state with unstacked parameters and moments."""
    return {"params": unflatten_params(unstack(flatten_params(state["params"]))), "step": state["step"],
            "moments": {slot: unstack(tree) for slot, tree in state["moments"].items()}}


class UnstackedState(Mapping[str, Any]):
    """A stored state: ``arrays`` has the step's form, the mapping's values have stacks."""

    def __init__(self, arrays: Tree) -> None:
        self.arrays = arrays
        self._stacked: Tree = {}

    @classmethod
    def from_stacked(cls, state: Mapping[str, Any], sharding: jax.sharding.Sharding) -> "UnstackedState":
        """From a state with stacks, which is consumed; an `UnstackedState` is returned as it is."""
        if isinstance(state, cls):
            return state
        unstacked = cls(jax.jit(unstack_state, out_shardings=sharding)(dict(state)))
        # A slice cannot reuse its stack's memory by donation, so both exist up to here. The stacks are freed now.
        for tree in (flatten_params(state["params"]), *state["moments"].values()):
            for name, x in tree.items():
                if is_stacked(name):
                    x.delete()
        return unstacked

    def __getitem__(self, key: str) -> Any:
        if key not in self._stacked:
            value = self.arrays[key]
            if key == "params":
                value = unflatten_params(_stack(flatten_params(value)))
            elif key == "moments":
                value = {slot: _stack(tree) for slot, tree in value.items()}
            # Cached, because an evaluation reads it for every batch. A step returns a new object, without the copy.
            self._stacked[key] = value
        return self._stacked[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


_stack = jax.jit(stack)


def hidden_states(spec: StepSpec, params: Params, rows: Arrays, loss_at: LossPositions | None,
                  shared: PrefixSharingArrays | None) -> jax.Array:
    """`loss_positions.hidden_states` for unstacked layers, the last layer at loss positions only."""
    # Only plain attention allows fewer queries than keys; else the last layer is computed at all positions.
    few_queries = loss_at is not None and spec.attention is plain_attention
    if shared is not None:
        spec, rows = shared.spec(spec), shared.inputs(rows)
    to_rows: PickPositions = (lambda x: x) if shared is None else shared.to_rows
    shape, positions, segment_ids = spec.shape, rows["positions"], rows["segment_ids"]
    x = spec.layout.rows(embed(params[EMBEDDING], rows["tokens"], shape, spec.compute_dtype, spec.layout))
    layer = decoder_layer(shape, positions, segment_ids, attention=spec.attention, layout=spec.layout,
                          chunks=spec.remat.chunks, layers=range(shape.layers))
    constants = layer_constants(shape)
    *before, last = ((w, {name: c[i] for name, c in constants.items()})
                     for i, w in enumerate(split_layers(params["layers"])))
    # A Python loop, because a scan would want the layers stacked again.
    for xs in before:
        x, _ = layer(x, xs)
    if few_queries and loss_at is not None:
        return final_norm(_last_layer(spec, x, last, positions, segment_ids, loss_at, to_rows), params, shape)
    x = to_rows(layer(x, last)[0])
    return final_norm(x if loss_at is None else loss_at.select(x), params, shape)


def _last_layer(spec: StepSpec, x: jax.Array, tensors: tuple[Params, Params], positions: jax.Array,
                segment_ids: jax.Array, loss_at: LossPositions, to_rows: PickPositions) -> jax.Array:
    """``[B, M, D]``: the last layer at loss positions only; keys and values are computed for all positions."""
    shape = spec.shape

    def attend(q: jax.Array, k: jax.Array, v: jax.Array, inputs: Any) -> jax.Array:
        # `[B, M, S]`: the rows of loss positions, out of `[B, S, S]`.
        allowed = loss_at.select(allowed_pairs(segment_ids, inputs["window"]))
        return trained_attention(q, to_rows(k), to_rows(v), allowed, query_scale(shape), shape.attention_softcap)

    w, inputs = tensors
    last = shape.layers - 1
    return block(x, w, positions, shape, attend, inputs, spec.layout, last,
                 query_positions=lambda x: loss_at.select(to_rows(x)))[0]
