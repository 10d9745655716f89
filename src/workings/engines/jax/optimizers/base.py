"""What an optimizer of the JAX engine is: an update rule as pure functions over dictionaries of arrays by flat name.

Arrays have a first axis L where layers are stacked.
"""

from abc import ABC, abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from workings.config.training import AdafactorConfig, AdamWFields
from workings.engines.jax.params_tree import is_stacked

Moments = dict[str, dict[str, jax.Array]]
"""Slot -> flat name -> array."""


class Optimizer(ABC):
    """An update rule: the moments it begins with, the update of one tensor, and where its moments lie on a mesh."""

    slots: tuple[str, ...]
    """Names of its moments."""
    needs_layer_stack = False
    """Whether it knows a layer's tensor by its stack."""

    def __init__(self, config: AdamWFields | AdafactorConfig, moment_dtype: Any) -> None:
        self.config = config
        self.moment_dtype = moment_dtype

    @abstractmethod
    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments."""

    @abstractmethod
    def update(self, name: str, param: jax.Array, grad: jax.Array, moments: dict[str, jax.Array], step: jax.Array,
               learning_rate: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """New float32 value of one tensor (or stack of tensors) and its new moments. ``step`` counts from 1."""

    def place(self, slot: str, name: str, parameter: NamedSharding) -> NamedSharding:
        """Where a moment lies: where its parameter lies, unless it has another shape."""
        del slot, name
        return parameter


def is_matrix(name: str, x: jax.Array) -> bool:
    """Whether weight decay applies: matrices, not norms or biases. Stacked tensors have one axis more."""
    return x.ndim - is_stacked(name) >= 2


def global_norm(grads: dict[str, jax.Array]) -> jax.Array:
    """L2 norm over all tensors, in float32."""
    # On a mesh each device squares its own parts, and one number a tensor is added over devices.
    return jnp.sqrt(sum(jnp.sum(jnp.square(g.astype(jnp.float32))) for g in grads.values()))


def clip_factor(norm: jax.Array, limit: float) -> jax.Array:
    """What gradients are multiplied by so that their global norm is at most ``limit``; 1 where it already is."""
    # Smaller than any norm that matters: a step whose gradients are all zero divides by it.
    return jnp.minimum(1.0, limit / jnp.maximum(norm, 1e-30))
