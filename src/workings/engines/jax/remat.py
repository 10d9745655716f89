"""Remat policies: which activations of a layer are kept for backward and which are computed again."""

from collections.abc import Callable
from typing import Any

import jax

Remat = Callable[[Callable[..., Any]], Callable[..., Any]]


def keep_all(layer: Callable[..., Any]) -> Callable[..., Any]:
    """Every activation is kept: fastest, largest."""
    return layer


def recompute_layer(layer: Callable[..., Any]) -> Callable[..., Any]:
    """Only the layer's input is kept: about one third more operations, smallest."""
    # Inside a scan nothing can be shared between forward and backward, so the barrier against it is not needed.
    return jax.checkpoint(layer, prevent_cse=False)


POLICIES: dict[str, Remat] = {"none": keep_all, "layer": recompute_layer}
"""`memory.remat` of a recipe -> policy."""
