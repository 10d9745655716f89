"""A recipe: one YAML file that asks for a run."""

from typing import Literal, Self

from pydantic import Field, model_validator

from workings.config.data import DataConfig
from workings.config.method import FULL, MethodConfig
from workings.config.model import ModelConfig
from workings.config.section import Section, refused
from workings.config.training import (
    BatchConfig,
    CheckpointConfig,
    EvaluationConfig,
    MemoryConfig,
    MeshConfig,
    OptimizerConfig,
    PrecisionConfig,
    TrainingConfig,
)

DEFAULT_ENGINE = "jax"
"""Engine of a recipe that names none, and the first that `engine: auto` takes: it runs on every kind of device."""


class Recipe(Section):
    """What is asked for. Every key is documented where it is defined; unknown keys are refused."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    """Name of the run, used in logs and reports."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Decides random weights, the order of rows and stochastic rounding."""
    engine: str = DEFAULT_ENGINE
    """A registered engine: `jax`, `torch`, `tunix`, or one that another package provides. `auto`: the one of
    `jax` and `torch` that does what is asked and is installed, `jax` where both are."""
    device: Literal["auto", "cpu", "gpu", "cuda", "tpu"] = "auto"
    """Where to run. `auto` takes the accelerator that is there; a device that is asked for and absent is an error."""
    model: ModelConfig
    """Which model, from which weights."""
    tokenizer: str = "model"
    """Directory or Hub id with `tokenizer.json`; `model`: the one beside the weights."""
    data: DataConfig
    """Which traces, rendered how."""
    batch: BatchConfig
    """Rows per update."""
    method: MethodConfig = FULL
    """Which weights are trained: all of them, or low-rank adapters."""
    training: TrainingConfig
    """Updates and learning rate."""
    optimizer: OptimizerConfig
    """Update rule."""
    precision: PrecisionConfig = PrecisionConfig()
    """Number formats."""
    memory: MemoryConfig = MemoryConfig()
    """Activations, attention and logits: what stays, what is computed again."""
    mesh: MeshConfig = MeshConfig()
    """Devices and how they share the work."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Saving."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Measuring."""

    @model_validator(mode="after")
    def adapters_round_to_nearest(self) -> Self:
        """Frozen weights are never updated, and what is updated is not bf16."""
        if self.method.name != "full" and self.precision.rounding != "nearest":
            raise refused(f"precision.rounding: {self.precision.rounding} with method.name: {self.method.name}",
                          "nearest: adapters are float32 and keep the whole update", "precision.rounding=nearest")
        return self
