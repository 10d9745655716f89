"""Parameters as a tree ``{NAME: array, ..., "layers": {NAME: array}}`` and as one dictionary of flat names.

In the flat form, by which moments and checkpoints go, a tensor below ``layers`` is called ``layers.NAME``.

Tensors of layers are stacked. Where all layers are alike there is one stack of each, ``self_attn.q_proj.weight``
``[L, ...]``. Where they are not (Gemma 4) there are several stacks (`workings.models.weights.layer_loops`), and names
begin with the layers of a stack, written like a slice in Python: ``4:15:5.self_attn.q_proj.weight`` ``[3, ...]`` holds
layers 4, 9 and 14, and ``0-3:15:5.self_attn.q_proj.weight`` ``[12, ...]`` layers 0 to 3, 5 to 8 and 10 to 13.
"""

import re
from collections.abc import Sequence
from typing import Any

from workings.models.shape import ModelShape
from workings.models.weights import LayerLoop, layer_loops

Params = dict[str, Any]
SLICE = re.compile(r"(\d+)(?:-(\d+))?:(\d+):(\d+)\.")
LAYERS = "layers."
"""Prefix of the flat names of the layers' tensors."""


def flatten_params(tree: Params) -> dict[str, Any]:
    """One dictionary by flat names: the tensors outside of the layers first, then those of the layers."""
    outer = {name: x for name, x in tree.items() if name != "layers"}
    return outer | {f"{LAYERS}{name}": x for name, x in tree.get("layers", {}).items()}


def unflatten_params(flat: dict[str, Any]) -> Params:
    """The inverse of `flatten_params`."""
    outer = {name: x for name, x in flat.items() if not name.startswith(LAYERS)}
    return outer | {"layers": {name.removeprefix(LAYERS): x for name, x in flat.items() if name.startswith(LAYERS)}}


def is_stacked(name: str) -> bool:
    """Whether a flat name is a stack of layers' tensors, with one axis more than one layer's tensor has."""
    return name.startswith(LAYERS)


def stacks(shape: ModelShape) -> dict[tuple[int, ...], str]:
    """The stacks of a model: the numbers of their layers, and the prefix of the names of their tensors."""
    all_stacks = [(loop, stack) for loop in layer_loops(shape) for stack in loop.stacks]
    return {stack: "" if len(all_stacks) == 1 else _slice(loop, stack) for loop, stack in all_stacks}


def _slice(loop: LayerLoop, stack: tuple[int, ...]) -> str:
    # A stack repeats its layers once for each iteration of the loop, so its first iteration names it.
    first, last = stack[0], stack[len(stack) // loop.iterations - 1]
    step = loop.layers_per_iteration
    return f"{first if first == last else f'{first}-{last}'}:{loop.first_layer + loop.iterations * step}:{step}."


def layer_tensor(name: str) -> str:
    """A tensor's name within its layer, from the name of a stack."""
    return SLICE.sub("", name.removeprefix(LAYERS), count=1)


def layer_numbers(name: str, count: int) -> Sequence[int]:
    """Numbers of the layers of a stack, from its name and the number of its layers."""
    match = SLICE.match(name.removeprefix(LAYERS))
    if not match:
        return range(count)
    first, last, stop, step = (int(number or match[1]) for number in match.groups())
    # Iteration by iteration, which is the order in which the stack holds its layers.
    return [layer + offset for offset in range(0, stop - first, step) for layer in range(first, last + 1)]


def stack_of(layers: Params, prefix: str) -> Params:
    """The tensors of one stack, by a layer's names."""
    return {name.removeprefix(prefix): x for name, x in layers.items() if name.startswith(prefix)}
