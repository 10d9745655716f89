"""Parameters as a tree and as one dictionary of flat names.

A tree is ``{NAME: array, ..., "layers": {NAME: array}}``; in its flat form a tensor below ``layers`` is called
``layers.NAME``. Moments and checkpoints go by flat names.
"""

from typing import Any

Params = dict[str, Any]
LAYERS = "layers."
"""What flat names of the layers' tensors begin with."""


def flatten_params(tree: Params) -> dict[str, Any]:
    """One dictionary by flat names: the tensors outside of the layers first, then those of the layers."""
    outer = {name: x for name, x in tree.items() if name != "layers"}
    return outer | {f"{LAYERS}{name}": x for name, x in tree.get("layers", {}).items()}


def unflatten_params(flat: dict[str, Any]) -> Params:
    """The inverse of `flatten_params`."""
    outer = {name: x for name, x in flat.items() if not name.startswith(LAYERS)}
    return outer | {"layers": {name.removeprefix(LAYERS): x for name, x in flat.items() if name.startswith(LAYERS)}}


def is_stacked(name: str) -> bool:
    """Whether a flat name is a tensor of all layers, ``layers.NAME``: it has one axis more than one layer's has.

    One layer's own tensor is ``layers.NUMBER.NAME`` (see `workings.engines.jax.cpu.unstacked_layers`).
    """
    return name.startswith(LAYERS) and not name[len(LAYERS)].isdigit()
