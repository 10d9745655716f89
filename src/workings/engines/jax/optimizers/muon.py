"""Muon."""

from typing import Any

import jax
import jax.numpy as jnp

from workings.config.training import MuonConfig
from workings.engines.jax.optimizers.adamw import AdamW
from workings.engines.jax.optimizers.base import Moments, Optimizer, is_matrix
from workings.engines.jax.params_tree import is_stacked


class Muon(Optimizer):
    """Muon by optax for the matrices of the layers, `AdamW` for everything else.

    Every matrix of a stack is handled alone, and they are made orthogonal one after the other: the float32
    temporaries of an update are those of one layer's matrix.
    """

    slots = ("momentum_buffer", *AdamW.slots)
    needs_layer_stack = True
    config: MuonConfig

    def __init__(self, config: MuonConfig, moment_dtype: Any) -> None:
        super().__init__(config, moment_dtype)
        self.adamw = AdamW(config, moment_dtype)

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
        """See `Optimizer.update`."""
        if not self._orthogonal(name, param):
            return self.adamw.update(name, param, grad, moments, step, learning_rate)
        # Imported here, so that runs with another optimizer load no optax.
        from optax.contrib import MuonDimensionNumbers, MuonState, scale_by_muon

        c = self.config
        # Hugging Face's matrices are [out, in].
        transform = scale_by_muon(beta=c.momentum, ns_steps=c.ns_steps, nesterov=c.nesterov,
                                  weight_dimension_numbers=MuonDimensionNumbers(reduction_axis=1, output_axis=0))

        def one(layer: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            mine, before = layer[0], layer[1].astype(jnp.float32)
            # optax counts the steps that are over, ours counts this one, too.
            # Its coefficients are constants, so our state does not hold them.
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
