"""Base class of the JAX engine's optimizers: an update rule as pure functions of arrays by flat name.

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
    """An update rule: initial moments, the update of one tensor, and the shardings of its moments."""

    slots: tuple[str, ...]
    """Names of the moments."""
    needs_layer_stack = False
    """Whether it needs layers in stacks."""

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

    def moment_sharding(self, slot: str, name: str, parameter: NamedSharding) -> NamedSharding:
        """Sharding of a moment: that of its parameter, unless the shapes differ."""
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
    """Factor that brings the gradients' global norm down to ``limit``; 1 if it is not above."""
    # A step whose gradients are all zero divides by this tiny number instead of zero.
    return jnp.minimum(1.0, limit / jnp.maximum(norm, 1e-30))
