"""Optimizers of the PyTorch engine by the names that recipes have for them."""

import torch

from workings.config.training import OptimizerConfig
from workings.engines.torch.optimizers.adafactor import Adafactor
from workings.engines.torch.optimizers.adamw import AdamW
from workings.engines.torch.optimizers.adamw8bit import AdamW8bit
from workings.engines.torch.optimizers.base import Optimizer

OPTIMIZERS: dict[str, type[Optimizer]] = {"adamw": AdamW, "adafactor": Adafactor, "adamw8bit": AdamW8bit}


def make_optimizer(config: OptimizerConfig, moment_dtype: torch.dtype) -> Optimizer:
    """The optimizer that a recipe names; a request for another one was refused before (`torch_refusals`).

    Raises:
        RequestError: its library is not installed.
    """
    return OPTIMIZERS[config.name](config, moment_dtype)
