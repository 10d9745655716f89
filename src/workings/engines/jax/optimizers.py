"""Optimizers of the JAX engine: update rules as pure functions of arrays by flat name.

Arrays have a first axis L where layers are stacked. ``update`` gives the new float32 value of one tensor (or stack of
tensors) and its new moments; its ``step`` counts from 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from workings.config.training import AdafactorConfig, AdamWFields, MuonConfig, OptimizerConfig
from workings.engines.jax.params_tree import is_stacked

Moments = dict[str, dict[str, jax.Array]]
"""Slot -> flat name -> array."""


@dataclass(frozen=True)
class _Rule:
    """An update rule: initial moments, the update of one tensor, and the shardings of its moments."""

    config: Any
    moment_dtype: Any

    def moment_sharding(self, slot: str, name: str, parameter: NamedSharding) -> NamedSharding:
        """Sharding of a moment: that of its parameter, unless the shapes differ."""
        del slot, name
        return parameter


def is_matrix(name: str, x: jax.Array) -> bool:
    """Whether weight decay applies: matrices, not norms or biases. Stacked tensors have one axis more."""
    return x.ndim - is_stacked(name) >= 2


def global_norm(grads: dict[str, jax.Array]) -> jax.Array:
    """L2 norm over all tensors, in float32."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(g.astype(jnp.float32))) for g in grads.values()))


def clip_factor(norm: jax.Array, limit: float) -> jax.Array:
    """Factor that brings the gradients' global norm down to ``limit``; 1 if it is not above."""
    # A step whose gradients are all zero divides by this tiny number instead of zero.
    return jnp.minimum(1.0, limit / jnp.maximum(norm, 1e-30))


@dataclass(frozen=True)
class AdamW(_Rule):
    """AdamW with bias correction and decoupled decay (Loshchilov and Hutter, 2019, algorithm 2)."""

    config: AdamWFields

    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments of the parameters' shapes."""
        return {slot: {name: jnp.zeros(x.shape, self.moment_dtype) for name, x in params.items()}
                for slot in ("exp_avg", "exp_avg_sq")}

    def update(self, name: str, param: jax.Array, grad: jax.Array, moments: dict[str, jax.Array], step: jax.Array,
               learning_rate: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """New value and moments of a tensor."""
        c = self.config
        # This step uses float32 moments, before these are rounded to what is stored.
        mean = c.beta1 * moments["exp_avg"].astype(jnp.float32) + (1 - c.beta1) * grad
        square = c.beta2 * moments["exp_avg_sq"].astype(jnp.float32) + (1 - c.beta2) * jnp.square(grad)
        count = step.astype(jnp.float32)
        # As in PyTorch, epsilon is added after the correction and after the root.
        direction = (mean / (1 - c.beta1 ** count)) / (jnp.sqrt(square / (1 - c.beta2 ** count)) + c.epsilon)
        wide = param.astype(jnp.float32)
        if c.weight_decay and is_matrix(name, param):
            direction = direction + c.weight_decay * wide
        new = {"exp_avg": mean.astype(self.moment_dtype), "exp_avg_sq": square.astype(self.moment_dtype)}
        return wide - learning_rate * direction, new


@dataclass(frozen=True)
class Adafactor(_Rule):
    """Adafactor (Shazeer and Stern, 2018) with a given learning rate.

    It is transformers' `Adafactor` with ``scale_parameter=False, relative_step=False`` and no first moment.

    A matrix has a row and a column of second moments, a vector a full one. Every matrix of a stack is a matrix of its
    own: means and the clip of the update never cross layers. All float32 values are functions of one element and of
    these small vectors, so the compiler fuses them and no float32 copy of a matrix exists.
    """

    config: AdafactorConfig

    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments: a row and a column for a matrix, the whole for a vector."""
        moments: Moments = {slot: {} for slot in ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq")}
        for name, x in params.items():
            if is_matrix(name, x):
                moments["exp_avg_sq_row"][name] = jnp.zeros(x.shape[:-1], self.moment_dtype)
                moments["exp_avg_sq_col"][name] = jnp.zeros((*x.shape[:-2], x.shape[-1]), self.moment_dtype)
            else:
                moments["exp_avg_sq"][name] = jnp.zeros(x.shape, self.moment_dtype)
        return moments

    def moment_sharding(self, slot: str, name: str, parameter: NamedSharding) -> NamedSharding:
        """A row of moments is split as the parameter's rows are, a column as its columns."""
        if slot == "exp_avg_sq":
            return parameter
        spec = (*parameter.spec, *[None] * (2 + is_stacked(name) - len(parameter.spec)))
        kept = spec[:-1] if slot == "exp_avg_sq_row" else (*spec[:-2], spec[-1])
        return NamedSharding(parameter.mesh, PartitionSpec(*kept))

    def update(self, name: str, param: jax.Array, grad: jax.Array, moments: dict[str, jax.Array], step: jax.Array,
               learning_rate: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """New value and moments of a tensor."""
        c = self.config
        # This is 0 at step 1: the zeros that moments begin with get no weight, and no correction is needed.
        decay = 1.0 - step.astype(jnp.float32) ** -c.decay_power
        square = jnp.square(grad) + c.epsilon

        def mixed(slot: str, new: jax.Array) -> jax.Array:
            return decay * moments[slot].astype(jnp.float32) + (1.0 - decay) * new

        axes: tuple[int, ...]
        if is_matrix(name, param):
            # Row times column over the mean of rows approximates the matrix of squares, so two vectors are stored.
            row, col = mixed("exp_avg_sq_row", square.mean(-1)), mixed("exp_avg_sq_col", square.mean(-2))
            factor = jax.lax.rsqrt(row / row.mean(-1, keepdims=True))[..., None] * jax.lax.rsqrt(col)[..., None, :]
            new, axes = {"exp_avg_sq_row": row, "exp_avg_sq_col": col}, (-2, -1)
        else:
            full = mixed("exp_avg_sq", square)
            factor, new, axes = jax.lax.rsqrt(full), {"exp_avg_sq": full}, (-1,)
        # Section 6 of the paper: an update whose root mean square is above the threshold is scaled down to it.
        size = jnp.sqrt(jnp.mean(jnp.square(grad * factor), axes, keepdims=True))
        wide = param.astype(jnp.float32)
        direction = grad * factor / jnp.maximum(1.0, size / c.clip_threshold)
        if c.weight_decay and is_matrix(name, param):
            direction = direction + c.weight_decay * wide
        return wide - learning_rate * direction, {slot: x.astype(self.moment_dtype) for slot, x in new.items()}


@dataclass(frozen=True)
class Muon(_Rule):
    """Muon by optax for the matrices of the layers, `AdamW` for everything else.

    Every matrix of a stack is handled alone, and they are made orthogonal one after the other: the float32
    temporaries of an update are those of one layer's matrix.
    """

    config: MuonConfig

    @property
    def adamw(self) -> AdamW:
        """The rule of all other tensors."""
        return AdamW(self.config, self.moment_dtype)

    @staticmethod
    def _orthogonal(name: str, x: jax.Array) -> bool:
        return is_stacked(name) and is_matrix(name, x)

    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments: one for the layers' matrices, AdamW's two for all else."""
        mine = {name: x for name, x in params.items() if self._orthogonal(name, x)}
        rest = {name: x for name, x in params.items() if name not in mine}
        return self.adamw.init(rest) | {
            "momentum_buffer": {name: jnp.zeros(x.shape, self.moment_dtype) for name, x in mine.items()}}

    def update(self, name: str, param: jax.Array, grad: jax.Array, moments: dict[str, jax.Array], step: jax.Array,
               learning_rate: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """New value and moments of a tensor."""
        if not self._orthogonal(name, param):
            return self.adamw.update(name, param, grad, moments, step, learning_rate)
        from optax.contrib import MuonDimensionNumbers, MuonState, scale_by_muon

        c = self.config
        transform = scale_by_muon(beta=c.momentum, ns_steps=c.ns_steps, nesterov=c.nesterov,
                                  weight_dimension_numbers=MuonDimensionNumbers(reduction_axis=1, output_axis=0))

        def one(layer: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            mine, before = layer[0], layer[1].astype(jnp.float32)
            # optax counts the steps that are over; its coefficients are constants, so our state does not hold them.
            state = MuonState(count=step - 1, mu=before, ns_coeffs=transform.init(mine).ns_coeffs)
            direction, after = transform.update(mine, state)
            return direction, after.mu.astype(self.moment_dtype)

        direction, momentum = jax.lax.map(one, (grad, moments["momentum_buffer"]))
        out, inner = param.shape[-2:]
        # The second factor is meant to give updates of AdamW's size, so that its learning rates can be used.
        # `original` is the factor of Muon's author (Jordan, 2024), the other that of Liu et al., 2025.
        factor = max(1.0, out / inner) ** 0.5 if c.adjust_lr == "original" else 0.2 * max(out, inner) ** 0.5
        wide = param.astype(jnp.float32)
        return wide - learning_rate * (factor * direction + c.weight_decay * wide), {"momentum_buffer": momentum}


Optimizer = AdamW | Adafactor | Muon
OPTIMIZERS: dict[str, Callable[[Any, Any], Optimizer]] = {"adamw": AdamW, "adafactor": Adafactor, "muon": Muon}
"""By the names that recipes have for them."""


def make_optimizer(config: OptimizerConfig, moment_dtype: Any) -> Optimizer:
    """The optimizer that a recipe names; a request for another one was refused before (`jax_refusals`)."""
    return OPTIMIZERS[config.name](config, moment_dtype)
