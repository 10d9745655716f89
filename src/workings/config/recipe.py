"""A recipe: one YAML file that defines a run. Each section is a class; its fields are the keys."""

import types
import typing
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    model_serializer,
    model_validator,
)

from workings.config.algorithm import Algorithm, algorithms
from workings.config.data import DataConfig
from workings.config.environment import NamedEnvironment
from workings.config.method import FULL, KNOWN_PROJECTIONS, FullConfig, MethodConfig
from workings.config.model import FromPretrained, ModelConfig
from workings.config.rewards import RewardConfig
from workings.config.sampler import SamplerConfig, samplers
from workings.config.section import Section, refused, written_out
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

if TYPE_CHECKING:
    AlgorithmConfig = Algorithm
    NamedSampler = SamplerConfig
else:
    AlgorithmConfig = Annotated[Union[algorithms()], Field(discriminator="name")]  # noqa: UP007
    NamedSampler = Annotated[Union[samplers()], Field(discriminator="name"), BeforeValidator(written_out)]  # noqa: UP007
MADE_BY_ENVIRONMENT = "environment"
"""Value of `data.traces` where the environment makes the tasks."""
IMITATION = algorithms()[0](name="sft")
DEFAULT_ENGINE = "jax"
"""Engine of a recipe that names none, and the first that `engine: auto` takes: it runs on every kind of device."""


class Recipe(Section):
    """All settings of a run. Every key is documented where it is defined; unknown keys are refused."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    """Name of the run, used in logs and reports."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Seed of random weights, the order of rows, sampling and stochastic rounding."""
    engine: str = DEFAULT_ENGINE
    """Engine: `jax`, `torch`, `tunix`, or one that another package provides. `auto`: the one of `jax` and `torch` that
    supports the recipe and is installed; `jax` if both are."""
    device: Literal["auto", "cpu", "gpu", "cuda", "tpu"] = "auto"
    """Device to run on; `auto`: this machine's accelerator, or the CPU. A named device that is absent is an error."""
    model: ModelConfig
    """The model and its first weights."""
    tokenizer: str = "model"
    """Directory or Hub id with `tokenizer.json`; `model`: the tokenizer in the folder of the weights; `train`: trained
    on the traces, at most 512 tokens with single digits, for a model from random weights."""
    data: DataConfig
    """Training data and how they become tokens."""
    batch: BatchConfig
    """Rows per update."""
    method: MethodConfig = FULL
    """Which weights are trained: all of them, or low-rank adapters."""
    algorithm: AlgorithmConfig = IMITATION
    """Learning algorithm: imitation of traces, preferences, rewards, or a teacher."""
    # Not strict, because YAML and JSON give a list where a tuple is declared.
    rewards: tuple[RewardConfig, ...] = Field(default=(), strict=False)
    """Reward functions, whose weighted sum is a completion's reward. The first decides which completions are right."""
    environment: NamedEnvironment | None = None
    """Environment in which the model acts for several turns, each with a reward; without one it answers once."""
    sampler: NamedSampler | None = None
    """Program that writes the completions of a run with rollouts; the engine itself, unless one is named."""
    training: TrainingConfig
    """Number of updates and learning rate."""
    optimizer: OptimizerConfig
    """Optimizer."""
    precision: PrecisionConfig = PrecisionConfig()
    """Number formats."""
    memory: MemoryConfig = MemoryConfig()
    """Memory settings: attention, recomputed activations, chunked loss."""
    mesh: MeshConfig = MeshConfig()
    """Distribution over devices."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """When checkpoints are saved."""
    evaluation: EvaluationConfig = EvaluationConfig()
    """Evaluation loss, samples, and answers to held-out items."""

    @model_serializer(mode="wrap")
    def _without_absent_sections(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out sections that most recipes do not have, so that their digests stay."""
        return {key: value for key, value in written(self).items()
                if key not in ("environment", "sampler") or value is not None}

    @model_validator(mode="after")
    def _sections_fit_together(self, info: ValidationInfo) -> Self:
        # Only the first error is reported.
        self._check_adapters()
        self._check_best_checkpoint()
        self.algorithm.check(self, info)
        self._check_environment()
        if self.sampler is not None:
            self.sampler.check(self)
        return self

    def _check_adapters(self) -> None:
        if isinstance(self.method, FullConfig):
            return
        # The projections of a model outside the families are checked later, against its class.
        is_of_a_family = not isinstance(self.model, FromPretrained) or self.model.verified
        unknown = {*self.method.target_modules} - {*KNOWN_PROJECTIONS}
        if is_of_a_family and unknown:
            raise refused(f"method.target_modules: {', '.join(sorted(unknown))}",
                          f"some of {', '.join(KNOWN_PROJECTIONS)}",
                          "other names belong to models with model.verified: false")
        if self.precision.rounding != "nearest":
            raise refused(f"precision.rounding: {self.precision.rounding} with method.name: {self.method.name}",
                          "nearest: adapters are float32 and keep the whole update", "precision.rounding=nearest")

    def _check_best_checkpoint(self) -> None:
        checkpoint, evaluation = self.checkpoint, self.evaluation
        if checkpoint.keep != "best":
            return
        given = f"checkpoint.keep: best with checkpoint.measure: {checkpoint.measure}"
        if checkpoint.measure == "loss" and evaluation.traces == "none":
            raise refused(f"{given} and evaluation.traces: none", "held-out traces, whose loss is measured",
                          "evaluation.traces=FILE, or checkpoint.measure=accuracy")
        if checkpoint.scores_items and (evaluation.items == "none" or not evaluation.items_during_training):
            raise refused(f"{given} without items that are answered during training",
                          "`evaluation.items`, and `evaluation.items_during_training` above 0", "evaluation.items=eval")
        if checkpoint.every_steps % evaluation.every_steps:
            raise refused(f"checkpoint.every_steps: {checkpoint.every_steps} with evaluation.every_steps: "
                          f"{evaluation.every_steps} and checkpoint.keep: best",
                          "a multiple of evaluation.every_steps, because every checkpoint must be measured",
                          f"evaluation.every_steps={checkpoint.every_steps}")

    def _check_environment(self) -> None:
        rewarded = any(reward.scorer == "environment" for reward in self.rewards)
        if self.environment is None and (rewarded or self.data.traces == MADE_BY_ENVIRONMENT):
            what = "rewards with scorer: environment" if rewarded else f"data.traces: {MADE_BY_ENVIRONMENT}"
            raise refused(f"{what} without an environment", "a recipe with an environment", "environment=calculator")
        if self.environment is not None and not rewarded:
            raise refused(f"environment: {self.environment.name} without its reward",
                          "a reward with scorer: environment, and algorithm grpo or another one with rewards",
                          "rewards='[{scorer: environment}]' algorithm.name=grpo")


def section_at(location: Sequence[str]) -> list[type[BaseModel]]:
    """The section classes that may have a dotted place: for `method` those of full training, LoRA and QLoRA."""
    sections: list[type[BaseModel]] = [Recipe]
    for part in location:
        if not part.isdigit():  # the index of an entry, in `rewards.0.weight`
            sections = [inner for section in sections if part in section.model_fields
                        for inner in models_in(section.model_fields[part].annotation)]
    return sections


def known_keys() -> list[str]:
    """Dotted names of all keys that a recipe can have, in the order of definition."""
    def walk(section: type[BaseModel], prefix: str) -> Iterator[str]:
        for name, field in section.model_fields.items():
            models = [*models_in(field.annotation)]
            for model in models:
                yield from walk(model, f"{prefix}{name}.")
            # A union of sections and a plain value (`model.shape`: numbers or a name) is also a key.
            members = [member for member in typing.get_args(field.annotation) if member is not ...]
            if not models or not all(any(models_in(member)) for member in members):
                yield f"{prefix}{name}"
    return list(dict.fromkeys(walk(Recipe, "")))


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The section classes inside a type: itself, members of a union, annotated types."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated, tuple):
        for inner in typing.get_args(annotation):
            yield from models_in(inner)
