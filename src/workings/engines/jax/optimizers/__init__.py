"""Optimizers of the JAX engine by the names that recipes have for them; one that is not here is refused."""

from functools import partial
from typing import Any

from workings.config.training import OptimizerConfig
from workings.engines.jax.optimizers.adafactor import Adafactor
from workings.engines.jax.optimizers.adamw import AdamW
from workings.engines.jax.optimizers.base import Optimizer
from workings.engines.jax.optimizers.muon import Muon
from workings.engines.refusals import optimizer_refusal, register_optimizer

OPTIMIZERS: dict[str, type[Optimizer]] = {}
register = partial(register_optimizer, OPTIMIZERS)

register("adamw", AdamW)
register("adafactor", Adafactor)
register("muon", Muon)


def make_optimizer(config: OptimizerConfig, moment_dtype: Any) -> Optimizer:
    """The optimizer that a recipe names. Raises `RequestError` for one that this engine does not have."""
    if refusal := optimizer_refusal(config, "jax"):
        raise refusal.error()
    return OPTIMIZERS[config.name](config, moment_dtype)
