"""Optimizers of the PyTorch engine by the names that recipes have for them; one that is not here is refused."""

import torch

from workings.config.training import OptimizerConfig
from workings.engines.optimizer_refusal import optimizer_refusal
from workings.engines.torch.optimizers.adafactor import Adafactor
from workings.engines.torch.optimizers.adamw import AdamW
from workings.engines.torch.optimizers.adamw8bit import AdamW8bit
from workings.engines.torch.optimizers.base import Optimizer

OPTIMIZERS: dict[str, type[Optimizer]] = {}


def register(name: str, optimizer: type[Optimizer]) -> None:
    """Make an optimizer known by the name of its configuration. Raises `ValueError` where the name is taken."""
    if name in OPTIMIZERS:
        raise ValueError(f"two optimizers of the name {name}: {OPTIMIZERS[name].__name__}, {optimizer.__name__}")
    OPTIMIZERS[name] = optimizer


register("adamw", AdamW)
register("adafactor", Adafactor)
register("adamw8bit", AdamW8bit)


def make_optimizer(config: OptimizerConfig, moment_dtype: torch.dtype) -> Optimizer:
    """The optimizer that a recipe names.

    Raises:
        RequestError: this engine does not have it, or its library is not installed.
    """
    if refusal := optimizer_refusal(config, "torch"):
        raise refusal.error()
    return OPTIMIZERS[config.name](config, moment_dtype)
