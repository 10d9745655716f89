"""Optimizers of the JAX engine: AdamW, Adafactor and Muon as pure functions of arrays by flat name.

``update`` gives the new float32 value of a tensor or a stack of layers, and its new moments. The first ``step`` is 1.
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
        return parameter

    def _decayed(self, name: str, param: jax.Array, direction: jax.Array, learning_rate: jax.Array) -> jax.Array:
        """The new float32 value of a tensor, from the direction of its update and decoupled weight decay."""
        wide = param.astype(jnp.float32)
        if self.config.weight_decay and is_matrix(name, param):
            direction = direction + self.config.weight_decay * wide
        return wide - learning_rate * direction


def is_matrix(name: str, x: jax.Array) -> bool:
    """Whether weight decay applies to a tensor: to matrices, not to norms or biases."""
    return x.ndim - is_stacked(name) >= 2


def global_norm(grads: dict[str, jax.Array]) -> jax.Array:
    """L2 norm over all tensors, in float32."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(g.astype(jnp.float32))) for g in grads.values()))


def clip_factor(norm: jax.Array, limit: float) -> jax.Array:
    """Factor that brings the gradients' global norm down to ``limit``; 1 if it is not above."""
    # The tiny number avoids a division by zero if all gradients are zero.
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
        # The update uses the moments before they are rounded to their stored format.
        mean = c.beta1 * moments["exp_avg"].astype(jnp.float32) + (1 - c.beta1) * grad
        square = c.beta2 * moments["exp_avg_sq"].astype(jnp.float32) + (1 - c.beta2) * jnp.square(grad)
        count = step.astype(jnp.float32)
        # As in PyTorch, epsilon is added after the correction and after the root.
        direction = (mean / (1 - c.beta1 ** count)) / (jnp.sqrt(square / (1 - c.beta2 ** count)) + c.epsilon)
        new = {"exp_avg": mean.astype(self.moment_dtype), "exp_avg_sq": square.astype(self.moment_dtype)}
        return self._decayed(name, param, direction, learning_rate), new


@dataclass(frozen=True)
class Adafactor(_Rule):
    """Adafactor (Shazeer and Stern, 2018) with a given learning rate.

    It is transformers' `Adafactor` with ``scale_parameter=False, relative_step=False`` and no first moment. A matrix
    has a row and a column of second moments, a vector one for each element. Layers have their own means and clips.
    """

    config: AdafactorConfig

    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments: a row and a column for a matrix, one for each element of a vector."""
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
        # It is 0 at step 1, so the zeros that moments begin with get no weight.
        decay = 1.0 - step.astype(jnp.float32) ** -c.decay_power
        square = jnp.square(grad) + c.epsilon

        def mixed(slot: str, new: jax.Array) -> jax.Array:
            return decay * moments[slot].astype(jnp.float32) + (1.0 - decay) * new

        if is_matrix(name, param):
            # Row times column, divided by the mean of the row, approximates the matrix of squares.
            row, col = mixed("exp_avg_sq_row", square.mean(-1)), mixed("exp_avg_sq_col", square.mean(-2))
            factor = jax.lax.rsqrt(row / row.mean(-1, keepdims=True))[..., None] * jax.lax.rsqrt(col)[..., None, :]
            new = {"exp_avg_sq_row": row, "exp_avg_sq_col": col}
            direction = self._clipped(grad, factor, (-2, -1))
        else:
            new = {"exp_avg_sq": mixed("exp_avg_sq", square)}
            direction = self._clipped(grad, jax.lax.rsqrt(new["exp_avg_sq"]), (-1,))
        return (self._decayed(name, param, direction, learning_rate),
                {slot: x.astype(self.moment_dtype) for slot, x in new.items()})

    def _clipped(self, grad: jax.Array, factor: jax.Array, axes: tuple[int, ...]) -> jax.Array:
        """``grad * factor``, divided so that its root mean square is at most the threshold (section 6 of the paper)."""
        size = jnp.sqrt(jnp.mean(jnp.square(grad * factor), axes, keepdims=True))
        return grad * factor / jnp.maximum(1.0, size / self.config.clip_threshold)


@dataclass(frozen=True)
class Muon(_Rule):
    """Muon by optax for the matrices of the layers, one after the other to save memory; `AdamW` for the rest."""

    config: MuonConfig

    @property
    def adamw(self) -> AdamW:
        """The rule of all other tensors."""
        return AdamW(self.config, self.moment_dtype)

    @staticmethod
    def _orthogonal(name: str, x: jax.Array) -> bool:
        return is_stacked(name) and is_matrix(name, x)

    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments: one for the layers' matrices, AdamW's two for all other tensors."""
        matrices = {name: x for name, x in params.items() if self._orthogonal(name, x)}
        others = {name: x for name, x in params.items() if name not in matrices}
        momentum = {name: jnp.zeros(x.shape, self.moment_dtype) for name, x in matrices.items()}
        return self.adamw.init(others) | {"momentum_buffer": momentum}

    def update(self, name: str, param: jax.Array, grad: jax.Array, moments: dict[str, jax.Array], step: jax.Array,
               learning_rate: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """New value and moments of a tensor."""
        if not self._orthogonal(name, param):
            return self.adamw.update(name, param, grad, moments, step, learning_rate)
        from optax.contrib import MuonDimensionNumbers, MuonState, scale_by_muon

        c = self.config
        transform = scale_by_muon(beta=c.momentum, ns_steps=c.ns_steps, nesterov=c.nesterov,
                                  weight_dimension_numbers=MuonDimensionNumbers(reduction_axis=1, output_axis=0))

        def update_layer(xs: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            layer_grad, momentum = xs
            # optax counts from 0. Its coefficients are constants, so our state does not store them.
            state = MuonState(count=step - 1, mu=momentum.astype(jnp.float32),
                              ns_coeffs=transform.init(layer_grad).ns_coeffs)
            direction, after = transform.update(layer_grad, state)
            return direction, after.mu.astype(self.moment_dtype)

        direction, momentum = jax.lax.map(update_layer, (grad, moments["momentum_buffer"]))
        out, inner = param.shape[-2:]
        # `original` is by Muon's author (Jordan, 2024). The other one (Liu et al., 2025) fits AdamW's learning rates.
        factor = max(1.0, out / inner) ** 0.5 if c.adjust_lr == "original" else 0.2 * max(out, inner) ** 0.5
        wide = param.astype(jnp.float32)
        return wide - learning_rate * (factor * direction + c.weight_decay * wide), {"momentum_buffer": momentum}


Optimizer = AdamW | Adafactor | Muon
OPTIMIZERS: dict[str, Callable[[Any, Any], Optimizer]] = {"adamw": AdamW, "adafactor": Adafactor, "muon": Muon}
"""Optimizers by their names in recipes."""


def make_optimizer(config: OptimizerConfig, moment_dtype: Any) -> Optimizer:
    """The optimizer of a recipe, which `jax_refusals` has accepted."""
    return OPTIMIZERS[config.name](config, moment_dtype)
