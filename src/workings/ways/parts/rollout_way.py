"""What ways with rollouts share: the model is trained on completions that it samples itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationInfo

from workings.config.algorithm import Algorithm
from workings.config.rewards import OverlongReward
from workings.config.section import refused
from workings.errors import RequestError
from workings.objectives.policy_gradient import PolicyGradient

if TYPE_CHECKING:
    from workings.config.recipe import Recipe
    from workings.config.training import BatchConfig

SHORTEST_COMPLETION = 32
"""Minimum tokens of a shortened completion."""


class RolloutWay(Algorithm):
    """The model is trained on completions that it samples itself, from the whole vocabulary.

    Top-k or top-p would sample from another distribution than the one that the update improves.
    """

    examples = "prompts"

    group: int = Field(default=8, ge=2)
    """Completions sampled for each prompt (TRL: `num_generations`)."""
    max_new_tokens: int = Field(default=256, ge=1)
    """Longest completion, in tokens; it is cut off there (TRL: `max_completion_length`)."""
    updates: int = Field(default=1, ge=1)
    """Updates from one rollout, each with its own part of the completions (TRL: `steps_per_generation`)."""
    clip_low: float = Field(default=0.2, gt=0, le=1, strict=False)
    """Lower clipping bound: a token's probability ratio counts from `1 - clip_low` on (TRL: `epsilon`)."""
    clip_high: float = Field(default=0.2, gt=0, strict=False)
    """Upper clipping bound: the ratio counts up to `1 + clip_high` (TRL: `epsilon_high`)."""
    max_mismatch: float = Field(default=0.1, gt=0, strict=False)
    """Training stops if the log probabilities of the sampled tokens under the sampler and under the trained model
    differ by more than this on average (nats per token): the completions would then come from another model."""
    patience: int = Field(default=10, ge=1)
    """Training stops after this many rollouts in a row in which nothing can be learned: no group whose rewards differ,
    no completion that ends by itself, weights that do not change, or only correct completions."""

    @property
    @abstractmethod
    def objective(self) -> PolicyGradient:
        """The loss of an update."""

    def divisor(self, *, rows: int, tokens: int) -> float:
        """Divisor of the sum over an update of this many completions and tokens, stop tokens included."""
        # The objective has already divided each row by its own length.
        return float(rows if self.objective.normalize == "sequences" else tokens)

    @property
    def max_sampling_rounds(self) -> int:
        """Maximum number of times that a rollout's prompts are sampled; 1: no group is left out."""
        return 1

    @property
    def masks_truncated(self) -> bool:
        """Whether completions that a limit ended have no advantage."""
        return False

    @property
    def has_reference(self) -> bool:
        """Whether the log probabilities of a frozen model are needed."""
        return False

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """Advantages of one group's completions; here 0: they are not compared."""
        return [0.0] * len(rewards)

    def token_advantages(self, advantage: float, sampler: Sequence[float], reference: Sequence[float]) -> list[float]:
        """Advantages of a completion's tokens, from log probabilities of the sampler and of the frozen model."""
        return [advantage] * len(sampler)

    @property
    def completions_of_a_prompt(self) -> int:
        """Its group."""
        return self.group

    def most_written(self, recipe: Recipe) -> int:
        """Most tokens that the model writes for one prompt, in all its turns."""
        return self.max_new_tokens * (1 if recipe.environment is None else recipe.environment.turns)

    def completions_of_a_rollout(self, batch: BatchConfig, devices: int) -> int:
        """Completions of a rollout over all devices, before any are left out."""
        return batch.micro_batch * batch.accumulation * devices * self.updates

    def check(self, recipe: Recipe, info: ValidationInfo) -> None:
        """Checks that prompt and completion fit a row, and that rows make whole groups."""
        self._check_rewards(recipe)
        data = recipe.data
        if data.packing != "none":
            raise refused(f"algorithm.name: {self.name} does not take data.packing: {data.packing}",
                          "one completion per row: its length is not known before it is sampled", "data.packing=none")
        if self.max_new_tokens >= data.max_length:
            raise refused(f"algorithm.max_new_tokens: {self.max_new_tokens} does not fit in rows of data.max_length: "
                          f"{data.max_length}", "room for the prompt and the longest completion",
                          f"data.max_length={2 * self.max_new_tokens}")
        if recipe.method.dropout:
            raise refused(f"algorithm.name: {self.name} does not take method.dropout: {recipe.method.dropout:g}",
                          "0: an update compares the model with the one that wrote the completions, and dropped inputs "
                          "would count as learning", "method.dropout=0")
        for reward in recipe.rewards:
            if isinstance(reward, OverlongReward) and reward.buffer > self.max_new_tokens:
                raise refused(f"the buffer of overlong in rewards, {reward.buffer}, is longer than a completion",
                              f"at most algorithm.max_new_tokens ({self.max_new_tokens})", "a smaller buffer")
        # With `auto` it is checked once the devices are open and can be counted.
        if recipe.mesh.fsdp != "auto":
            try:
                self.check_devices(recipe, recipe.mesh.replicate * recipe.mesh.fsdp)
            # Inside of a validator pydantic expects an error of its kind.
            except RequestError as error:
                raise refused(error.given, error.expected, error.try_next) from None
        if recipe.training.epochs:
            raise refused(f"algorithm.name: {self.name} does not take training.epochs: {recipe.training.epochs:g}",
                          "`training.steps`: completions are sampled, so there is no fixed number of rows",
                          "training.steps=100")
        self._check_learned_turns(recipe)

    def check_devices(self, recipe: Recipe, devices: int, where: str = "") -> None:
        """Raises `RequestError` if the completions of a rollout do not make whole groups."""
        completions = self.completions_of_a_rollout(recipe.batch, devices)
        if completions % self.group:
            raise RequestError(
                f"{completions} completions per rollout {where}".rstrip() + f" do not fill groups of {self.group}",
                "whole groups: micro_batch x accumulation x devices x updates that algorithm.group divides",
                f"batch.micro_batch={self.group}")

    def smaller_rollouts(self, recipe: Recipe, devices: int) -> Iterator[dict[str, Any]]:
        """Changes to fewer updates from one rollout, each with the same number of completions."""
        updates, rows = self.updates // 2, recipe.batch.micro_batch * recipe.batch.accumulation * devices
        while updates >= 1:
            if rows * updates % self.group == 0:
                yield {"algorithm.updates": updates}
            updates //= 2

    def shorter_completions(self, recipe: Recipe) -> Iterator[dict[str, Any]]:
        """Changes to half the new tokens, then a quarter, and so on, with rows in which prompts keep their length."""
        buffers = [reward.buffer for reward in recipe.rewards if isinstance(reward, OverlongReward)]
        shortest = max([SHORTEST_COMPLETION, *buffers])
        prompt_tokens, new_tokens = recipe.data.max_length - self.max_new_tokens, self.max_new_tokens // 2
        while new_tokens >= shortest:
            words: dict[str, Any] = {"algorithm.max_new_tokens": new_tokens,
                                     "data.max_length": prompt_tokens + new_tokens}
            if buckets := recipe.data.named_buckets:
                words["data.buckets"] = [length for length in buckets if length <= prompt_tokens + new_tokens]
            yield words
            new_tokens //= 2
