"""A state with an array for each layer's tensor instead of one for all layers, where a step writes its layers out.

On a CPU a layer of a stack is a copy before every product, and its gradient is copied back into the stack. What a
state is to everybody else stays what it is: stacks are made when they are asked for.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax.optimizer import STACK, flat, nested

Arrays = dict[str, Any]


def cut(tree: Arrays) -> Arrays:
    """A flat tree of stacks ``[L, ...]`` as one with a tensor for each layer."""
    whole = nested(tree)
    stacks = whole["layers"]
    count = min((x.shape[0] for x in stacks.values()), default=0)
    return flat(whole | {"layers": [{name: x[i] for name, x in stacks.items()} for i in range(count)]})


def stack(tree: Arrays) -> Arrays:
    """The inverse of `cut`."""
    whole = nested(tree)
    layers = whole["layers"]  # a list, where the tree has tensors of layers at all
    return flat(whole | {"layers": jax.tree.map(lambda *x: jnp.stack(x), *layers) if layers else {}})


def cut_state(state: Mapping[str, Any]) -> Arrays:
    """A whole state with its layers apart: parameters as a list of layers, moments by flat name."""
    return {"params": nested(cut(flat(state["params"]))), "step": state["step"],
            "moments": {slot: cut(tree) for slot, tree in state["moments"].items()}}


class LayersApart(Mapping[str, Any]):
    """A state between two steps: ``arrays`` is what the step takes, the keys are those of a state with stacks."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._stacked: Arrays = {}

    @classmethod
    def of(cls, state: Mapping[str, Any], place: jax.sharding.Sharding) -> "LayersApart":
        """From a state with stacks, which is consumed, or as it is."""
        if isinstance(state, cls):
            return state
        apart = cls(jax.jit(cut_state, out_shardings=place)(dict(state)))
        for tree in (flat(state["params"]), *state["moments"].values()):
            for name, x in tree.items():
                if name.startswith(STACK):
                    x.delete()
        return apart

    def __getitem__(self, key: str) -> Any:
        if key not in self._stacked:
            found = self.arrays[key]
            if key == "params":
                found = nested(_stack(flat(found)))
            elif key == "moments":
                found = {slot: _stack(tree) for slot, tree in found.items()}
            self._stacked[key] = found
        return self._stacked[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


_stack = jax.jit(stack)
