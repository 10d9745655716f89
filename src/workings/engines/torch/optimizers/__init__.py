"""Optimizers of the PyTorch engine by the names that recipes have for them; one that is not here is refused."""

from functools import partial

import torch

from workings.config.training import OptimizerConfig
from workings.engines.refusals import optimizer_refusal, register_optimizer
from workings.engines.torch.optimizers.adafactor import Adafactor
from workings.engines.torch.optimizers.adamw import AdamW
from workings.engines.torch.optimizers.adamw8bit import AdamW8bit
from workings.engines.torch.optimizers.base import Optimizer

OPTIMIZERS: dict[str, type[Optimizer]] = {}
register = partial(register_optimizer, OPTIMIZERS)

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
