"""Whether one of our engines has an optimizer, asked without loading the engine's framework."""

from workings.config.training import OPTIMIZERS, OptimizerConfig
from workings.engines.base import Refusal


def optimizer_refusal(config: OptimizerConfig, engine: str) -> Refusal | None:
    """Why an engine does not take this optimizer; None where it has it (`OptimizerFields.engines`)."""
    if engine in config.engines:
        return None
    *names, last = (each.optimizer_name() for each in OPTIMIZERS if engine in each.engines)
    return Refusal(feature=f"optimizer {config.name}", given=f"optimizer.name: {config.name} with engine {engine}",
                   expected=f"{', '.join(names)} or {last}",
                   try_next=f"optimizer.name=adamw, or engine={config.engines[0]}")
