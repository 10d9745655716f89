"""Optimizers of the JAX engine by the names that recipes have for them."""

from typing import Any

from workings.config.training import OptimizerConfig
from workings.engines.jax.optimizers.adafactor import Adafactor
from workings.engines.jax.optimizers.adamw import AdamW
from workings.engines.jax.optimizers.base import Optimizer
from workings.engines.jax.optimizers.muon import Muon

OPTIMIZERS: dict[str, type[Optimizer]] = {"adamw": AdamW, "adafactor": Adafactor, "muon": Muon}


def make_optimizer(config: OptimizerConfig, moment_dtype: Any) -> Optimizer:
    """The optimizer that a recipe names; a request for another one was refused before (`jax_refusals`)."""
    return OPTIMIZERS[config.name](config, moment_dtype)
