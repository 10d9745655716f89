"""Two forms of a model's parameters: a tree, and one dictionary by flat names for moments and checkpoints.

    tree: {"model.norm.weight": [D], "layers": {"self_attn.q_proj.weight": [L, ...]}}
    flat: {"model.norm.weight": [D], "layers.self_attn.q_proj.weight": [L, ...]}

The tensors of equal layers are stacked. If all layers are equal, each tensor has one stack. If not (Gemma 4), there are
several (`workings.models.weights.layer_loops`), and names begin with a stack's layers, written like a slice in Python:

    4:15:5.self_attn.q_proj.weight      [3, ...]    layers 4, 9 and 14
    0-3:15:5.self_attn.q_proj.weight    [12, ...]   layers 0 to 3, 5 to 8 and 10 to 13
"""

import re
from collections.abc import Sequence
from typing import Any

from workings.models.shape import ModelShape
from workings.models.weights import LayerLoop, layer_loops

Params = dict[str, Any]
SLICE = re.compile(r"(\d+)(?:-(\d+))?:(\d+):(\d+)\.")
"""The layers at the beginning of a name: the first one, the last one before the first step, the end, and the step."""
LAYERS = "layers."
"""Prefix of the flat names of the layers' tensors."""


def flatten_params(tree: Params) -> dict[str, Any]:
    """The parameters by flat name: first the tensors outside of the layers, then those of the layers."""
    outer = {name: x for name, x in tree.items() if name != "layers"}
    return outer | {f"{LAYERS}{name}": x for name, x in tree.get("layers", {}).items()}


def unflatten_params(flat: dict[str, Any]) -> Params:
    """The inverse of `flatten_params`."""
    outer = {name: x for name, x in flat.items() if not name.startswith(LAYERS)}
    return outer | {"layers": {name.removeprefix(LAYERS): x for name, x in flat.items() if name.startswith(LAYERS)}}


def is_stacked(name: str) -> bool:
    """Whether a flat name is a stack of layers, whose first axis counts the layers."""
    return name.startswith(LAYERS)


def stacks(shape: ModelShape) -> dict[tuple[int, ...], str]:
    """The stacks of a model: the numbers of the layers -> the prefix of the names of the tensors."""
    prefixes = {stack: _prefix(loop, stack) for loop in layer_loops(shape) for stack in loop.stacks}
    return prefixes if len(prefixes) > 1 else dict.fromkeys(prefixes, "")


def _prefix(loop: LayerLoop, stack: tuple[int, ...]) -> str:
    """The prefix of a stack, such as ``0-3:15:5.``; the layers of the loop's first iteration are 0 to 3."""
    step = loop.layers_per_iteration
    stop = loop.first_layer + loop.iterations * step
    first, last = stack[0], stack[len(stack) // loop.iterations - 1]
    layers = f"{first}-{last}" if first < last else f"{first}"
    return f"{layers}:{stop}:{step}."


def layer_tensor(name: str) -> str:
    """The name of a stack's tensor within a layer."""
    return SLICE.sub("", name.removeprefix(LAYERS), count=1)


def layer_numbers(name: str, count: int) -> Sequence[int]:
    """Numbers of the layers of a stack, in its order; ``name``: of one of its tensors, ``count``: of its layers."""
    match = SLICE.match(name.removeprefix(LAYERS))
    if not match:
        return range(count)
    first, stop, step = int(match[1]), int(match[3]), int(match[4])
    last = int(match[2] or first)
    return [layer + offset for offset in range(0, stop - first, step) for layer in range(first, last + 1)]


def stack_of(layers: Params, prefix: str) -> Params:
    """The tensors of the stack with this prefix, by their names within a layer."""
    return {name.removeprefix(prefix): x for name, x in layers.items() if name.startswith(prefix)}
