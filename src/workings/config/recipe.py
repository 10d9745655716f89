"""A recipe: one YAML file that defines a run."""

from typing import Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from workings.config.algorithms import IMITATION, AlgorithmConfig, Dpo, RewardAlgorithm, RolloutAlgorithm
from workings.config.data import DataConfig
from workings.config.method import FULL, KNOWN_PROJECTIONS, MethodConfig
from workings.config.model import FromPretrained, ModelConfig
from workings.config.rewards import OverlongReward, RewardConfig, refuse_repeated
from workings.config.section import Section, refused, written_keys
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
from workings.errors import RequestError

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
    """Device to run on. `auto` takes the accelerator of this machine, or the CPU; a named device that is absent is an
    error."""
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
    """Reward functions: a completion's reward is the sum of these times their weights; the first decides which
    completions count as right."""
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

    # Validators run in this order; the first that refuses is the only one that is reported.
    @model_validator(mode="after")
    def adapters_have_known_names(self) -> Self:
        """Refuses unknown projections; a model outside of the families is checked later, against its class."""
        # Its layers may have any names; they are known when its class is loaded.
        if isinstance(self.model, FromPretrained) and not self.model.verified:
            return self
        if self.method.name != "full" and (unknown := {*self.method.target_modules} - {*KNOWN_PROJECTIONS}):
            raise refused(f"method.target_modules: {', '.join(sorted(unknown))}",
                          f"some of {', '.join(KNOWN_PROJECTIONS)}",
                          "other names belong to models with model.verified: false")
        return self

    @model_validator(mode="after")
    def adapters_round_to_nearest(self) -> Self:
        """Refuses another rounding with adapters, which are float32."""
        if self.method.name != "full" and self.precision.rounding != "nearest":
            raise refused(f"precision.rounding: {self.precision.rounding} with method.name: {self.method.name}",
                          "nearest: adapters are float32 and keep the whole update", "precision.rounding=nearest")
        return self

    @model_validator(mode="after")
    def rewards_belong_to_an_algorithm(self) -> Self:
        """Refuses rewards that are not used, and a missing list of rewards."""
        name = self.algorithm.name
        if not isinstance(self.algorithm, RewardAlgorithm):
            if self.rewards:
                raise refused(f"rewards with algorithm.name: {name}", "an algorithm that learns from rewards",
                              "algorithm.name=grpo, or rewards=[]")
            return self
        if not self.rewards:
            raise refused(f"algorithm.name: {name} without rewards", "at least one reward function",
                          "rewards='[{scorer: answer}]'")
        # Values are recorded by the name of their reward, so no name may come twice.
        refuse_repeated(self.rewards)
        return self

    @model_validator(mode="after")
    def items_are_watched_beside_rewards(self, info: ValidationInfo) -> Self:
        """Refuses held-out items during training for algorithms without rollouts, which have their evaluation loss."""
        given = written_keys(self.evaluation, info, {"items_during_training"}, name="evaluation")
        if given and not self.uses_rollouts:
            raise refused(f"{given} with algorithm.name: {self.algorithm.name}",
                          "no `evaluation.items_during_training`: it is for runs with rollouts",
                          "leave it out, or algorithm.name=grpo")
        return self

    @model_validator(mode="after")
    def completions_fit_their_rows(self) -> Self:
        """Checks that prompt and completion fit a row, and that rows make whole groups."""
        algorithm, data = self.algorithm, self.data
        if not isinstance(algorithm, RolloutAlgorithm):
            return self
        if data.packing != "none":
            raise refused(f"data.packing: {data.packing} with algorithm.name: {algorithm.name}",
                          "one completion per row: its length is not known before it is sampled", "data.packing=none")
        if algorithm.max_new_tokens >= data.max_length:
            raise refused(f"algorithm.max_new_tokens: {algorithm.max_new_tokens} in rows of data.max_length: "
                          f"{data.max_length}", "room for the prompt beside the longest completion",
                          f"data.max_length={2 * algorithm.max_new_tokens}")
        # The punished part must lie within what a completion may have.
        for reward in self.rewards:
            if isinstance(reward, OverlongReward) and reward.buffer > algorithm.max_new_tokens:
                raise refused(f"rewards, overlong: buffer {reward.buffer}",
                              f"at most algorithm.max_new_tokens ({algorithm.max_new_tokens})", "a smaller buffer")
        # With `auto` it is checked once the devices are open and can be counted.
        if self.mesh.fsdp != "auto":
            try:
                self.require_complete_groups(self.mesh.fsdp)
            except RequestError as error:
                # Inside of a validator pydantic expects an error of its own kind.
                raise refused(error.given, error.expected, error.try_next) from None
        return self

    @model_validator(mode="after")
    def epochs_belong_to_rows(self) -> Self:
        """Refuses epochs with rollouts: the number of updates would depend on the samples."""
        if self.uses_rollouts and self.training.epochs:
            raise refused(f"training.epochs: {self.training.epochs:g} with algorithm.name: {self.algorithm.name}",
                          "`training.steps`: completions are sampled, so there is no fixed number of rows",
                          "training.steps=100")
        return self

    @model_validator(mode="after")
    def earlier_turns_are_learned_by_imitation(self) -> Self:
        """Refuses training on earlier turns except by imitation."""
        if self.data.learn == "all" and (self.uses_pairs or self.uses_rollouts):
            raise refused(f"data.learn: all with algorithm.name: {self.algorithm.name}",
                          "last: only completions are trained on, not the turns before them", "data.learn=last")
        return self

    @model_validator(mode="after")
    def pairs_stand_side_by_side(self) -> Self:
        """Checks that both rows of a pair are in one micro batch, each in a sequence of its own."""
        if not self.uses_pairs:
            return self
        name, rows, packing = self.algorithm.name, self.batch.micro_batch, self.data.packing
        # Chosen and rejected are neighbors in a micro batch, so that one pass gives both losses.
        if rows % 2:
            raise refused(f"batch.micro_batch: {rows} with algorithm.name: {name}",
                          "an even number: it counts rows, and a pair has two", f"batch.micro_batch={rows + 1}")
        if packing != "none":
            raise refused(f"data.packing: {packing} with algorithm.name: {name}",
                          "one row per sequence: the two rows of a pair are compared", "data.packing=none")
        return self

    @property
    def uses_pairs(self) -> bool:
        """Whether the data are preference pairs."""
        return isinstance(self.algorithm, Dpo)

    @property
    def uses_rollouts(self) -> bool:
        """Whether the model is trained on completions that it samples itself; the data are then prompts."""
        return isinstance(self.algorithm, RolloutAlgorithm)

    @property
    def uses_rewards(self) -> bool:
        """Whether completions are sampled and rewarded."""
        return isinstance(self.algorithm, RewardAlgorithm)

    @property
    def completions_of_a_prompt(self) -> int:
        """Number of completions of a prompt; 1 without rollouts."""
        # Plans read it, because a prompt is computed once for its whole group.
        return self.algorithm.group if isinstance(self.algorithm, RolloutAlgorithm) else 1

    def completions_of_a_rollout(self, fsdp: int) -> int:
        """Completions of a rollout over all devices, before any are left out; 0 without rollouts.

        Args:
            fsdp: number of devices over which rows are split.
        """
        if not isinstance(self.algorithm, RolloutAlgorithm):
            return 0
        return self.batch.micro_batch * self.batch.accumulation * fsdp * self.algorithm.updates

    def require_complete_groups(self, fsdp: int, where: str = "") -> None:
        """Raises `RequestError` if the completions of a rollout do not make whole groups.

        Args:
            fsdp: number of devices over which rows are split.
            where: the machine, for the message, such as ``on v5e-8``.
        """
        # An advantage compares the completions of one prompt, so no group may be cut by the end of a rollout.
        completions = self.completions_of_a_rollout(fsdp)
        if isinstance(self.algorithm, RolloutAlgorithm) and completions % self.algorithm.group:
            raise RequestError(
                f"{completions} completions per rollout {where}".rstrip() + f" in groups of {self.algorithm.group}",
                "whole groups: micro_batch x accumulation x devices x updates divides by algorithm.group",
                f"batch.micro_batch={self.algorithm.group}")
