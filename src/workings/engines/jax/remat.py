"""Remat policies: which activations of a layer are kept for backward and which are computed again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

Layer = Callable[..., Any]


def keep_all(layer: Layer) -> Layer:
    """Every activation is kept: fastest, largest."""
    return layer


def recompute_layer(layer: Layer) -> Layer:
    """Only the layer's input is kept: about one third more operations, smallest."""
    # Inside a scan nothing can be shared between forward and backward, so the barrier against it is not needed.
    return jax.checkpoint(layer, prevent_cse=False)


def recompute_all_but_products(layer: Layer) -> Layer:
    """Results of products with weights are kept; norms, activations, rotations and attention are computed again."""
    # Attention's two products have rows and heads as batch dimensions, so this policy does not keep their results.
    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    return jax.checkpoint(layer, prevent_cse=False, policy=policy)


@dataclass(frozen=True)
class Remat:
    """A policy: what happens to the function of one layer, and whether its feed-forward runs in chunks."""

    wrap: Callable[[Layer], Layer]
    chunks: bool


POLICIES = {"none": Remat(keep_all, False), "dots": Remat(recompute_all_but_products, False),
            "layer": Remat(recompute_layer, True)}
"""`memory.remat` of a recipe -> policy."""
