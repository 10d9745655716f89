"""Which of our engines has an optimizer, asked without its framework, and how an engine lists its own."""

from typing import Any

from workings.config.training import OPTIMIZERS, OptimizerConfig
from workings.engines.base import Refusal


def register_optimizer(optimizers: dict[str, type[Any]], name: str, optimizer: type[Any]) -> None:
    """Add an engine's optimizer by the name of its configuration. Raises `ValueError` where the name is taken."""
    if name in optimizers:
        raise ValueError(f"two optimizers of the name {name}: {optimizers[name].__name__}, {optimizer.__name__}")
    optimizers[name] = optimizer


def optimizer_refusal(config: OptimizerConfig, engine: str) -> Refusal | None:
    """Why an engine does not take this optimizer; None where it has it (`OptimizerFields.engines`)."""
    if engine in config.engines:
        return None
    *names, last = (each.optimizer_name() for each in OPTIMIZERS if engine in each.engines)
    return Refusal(feature=f"optimizer {config.name}", given=f"optimizer.name: {config.name} with engine {engine}",
                   expected=f"{', '.join(names)} or {last}",
                   try_next=f"optimizer.name=adamw, or engine={config.engines[0]}")
