"""Base classes of algorithms: with a teacher, with rollouts, and with rollouts and rewards.

With rewards, a group of completions is sampled for each prompt, rewards are compared within a group, and the model
moves towards the better ones. These algorithms differ in how a reward becomes an advantage, in how far one update may
move a probability, and in the divisor of the sum over all tokens. Everything here is plain arithmetic on a few numbers
per completion: a verifier repeats it without a model.
"""

from abc import abstractmethod
from collections.abc import Sequence
from math import fsum, sqrt
from statistics import fmean
from typing import Any, Literal

from pydantic import Field

from workings.config.section import Section
from workings.objectives.cross_entropy import CROSS_ENTROPY, CrossEntropy
from workings.objectives.policy_gradient import PolicyGradient

TeacherPrecision = Literal["fp32", "bf16", "int8", "nf4"]
"""Formats from most bits to fewest: the search for a plan that fits tries the next one."""


class Imitation(Section):
    """Traces are imitated: supervised fine-tuning by cross entropy."""

    name: Literal["sft"]
    """Supervised fine-tuning on traces."""

    @property
    def objective(self) -> CrossEntropy:
        """The loss of an update."""
        return CROSS_ENTROPY


class TeacherAlgorithm(Section):
    """Keys of a teacher: a frozen model with the student's vocabulary."""

    name: str
    """The algorithm; first here, so that it comes first in every list of keys."""
    teacher: str
    """A sealed run's folder, a folder in Hugging Face's format, or a Hub id; of the same vocabulary."""
    teacher_revision: str = "main"
    """Branch, tag or commit on the Hub; the resolved commit is recorded."""
    teacher_precision: TeacherPrecision = "bf16"
    """Stored weights of the teacher. `int8`: projections in 8 bits with a scale a row, as LLM.int8 stores them; `nf4`:
    in 4 bits, as in QLoRA. It computes in `precision.compute`."""


class RolloutAlgorithm(Section):
    """The model is trained on completions that it samples itself, from the whole vocabulary.

    Top-k or top-p would sample from another distribution than the one that the update improves.
    """

    group: int = Field(default=8, ge=2)
    """Completions sampled for each prompt (TRL: `num_generations`)."""
    max_new_tokens: int = Field(default=256, ge=1)
    """Longest completion, in tokens; it is cut off there (TRL: `max_completion_length`)."""
    updates: int = Field(default=1, ge=1)
    """Updates from one rollout, each with its own part of the completions (TRL: `steps_per_generation`)."""
    clip_low: float = Field(default=0.2, gt=0, le=1, strict=False)
    """Lower clipping bound: the ratio of a token's probability to that when it was sampled counts from `1 - clip_low`
    on (TRL: `epsilon`)."""
    clip_high: float = Field(default=0.2, gt=0, strict=False)
    """Upper clipping bound: the ratio counts up to `1 + clip_high` (TRL: `epsilon_high`)."""
    max_mismatch: float = Field(default=0.1, gt=0, strict=False)
    """Training stops if the log probabilities of the sampled tokens under the sampler and under the trained model
    differ by more than this on average (nats per token): the completions would then come from another model."""
    patience: int = Field(default=10, ge=1)
    """Training stops after this many rollouts in a row in which nothing can be learned: no group whose rewards differ,
    no completion that ends by itself, or weights that do not change."""

    @property
    @abstractmethod
    def objective(self) -> PolicyGradient:
        """The loss of an update."""

    @property
    def sampling_temperature(self) -> float:
        """Sampling temperature of completions."""
        return self.objective.temperature

    def divisor(self, *, rows: int, tokens: int) -> float:
        """Divisor of the sum over an update.

        Args:
            rows: number of completions of the update, without left-out ones.
            tokens: number of tokens of these completions, stop tokens included.
        """
        # The objective has already divided each row by its own length.
        return float(rows if self.objective.normalize == "sequences" else tokens)

    @property
    def max_sampling_rounds(self) -> int:
        """Maximum number of times that a rollout's prompts are sampled; 1: no group is left out."""
        return 1

    @property
    def has_reference(self) -> bool:
        """Whether the log probabilities of a frozen model are needed."""
        return False

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """Advantages of one group's completions; here 0: they are not compared."""
        # Where a teacher judges, tokens have advantages and completions none.
        return [0.0] * len(rewards)

    def token_advantages(self, advantage: float, sampler: Sequence[float], reference: Sequence[float]) -> list[float]:
        """Advantages of a completion's tokens; here that of the completion.

        Args:
            advantage: advantage of the completion.
            sampler: log probability of each token when it was sampled.
            reference: log probability of each token under the frozen model; empty if there is none, or if it was not
                computed yet.
        """
        del reference
        return [advantage] * len(sampler)


class RewardAlgorithm(RolloutAlgorithm):
    """Each completion is rewarded and compared with the others of its prompt."""

    kl_beta: float = Field(default=0.0, ge=0, strict=False)
    """Weight of the divergence from the model before training, the reference (TRL: `beta`); 0: no reference. With
    adapters the reference is the model with adapters switched off; otherwise it is a second, frozen copy of the weights
    without moments."""
    temperature: float = Field(default=1.0, ge=0.1, le=10, strict=False)
    """Sampling temperature of completions (TRL: `temperature`). Above 1 they differ more, below 1 less. The update uses
    the same distribution (logits divided by the temperature), so the model learns to write at this temperature.
    Held-out items are answered greedily."""

    @property
    def has_reference(self) -> bool:
        """Whether the model before training is kept as a reference."""
        return self.kl_beta > 0

    def clipped_policy_gradient(self, **form: Any) -> PolicyGradient:
        """Policy gradient with this recipe's bounds and divergence; ``form``: the other fields of `PolicyGradient`."""
        return PolicyGradient(clip_low=self.clip_low, clip_high=self.clip_high, kl_beta=self.kl_beta,
                              temperature=self.temperature, **form)

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """Advantages of one group's completions: distances from its mean in units of its standard deviation."""
        return normalized(rewards)


def standard_deviation(values: Sequence[float]) -> float:
    """Sample standard deviation (divided by one less than the count), as in TRL and Tunix."""
    center = fmean(values)
    # A group has two completions at least, so nothing is divided by zero.
    return sqrt(fsum((value - center) ** 2 for value in values) / (len(values) - 1))


def normalized(rewards: Sequence[float]) -> list[float]:
    """Rewards minus their mean, divided by their standard deviation; zeros where all are equal."""
    # Above 0 unless all rewards are equal, and then every distance is 0.
    spread = standard_deviation(rewards)
    # As in TRL: the addend keeps a group of nearly equal rewards from becoming large advantages.
    return [distance / (spread + 1e-4) for distance in centered(rewards)]


def centered(rewards: Sequence[float]) -> list[float]:
    """Rewards minus their mean; zeros where all are equal, without the rounding of a mean."""
    # The mean of n equal numbers may differ from them in its last bit, and a distance of 1e-17 would be divided by a
    # tiny spread.
    center = rewards[0] if len(set(rewards)) == 1 else fmean(rewards)
    return [reward - center for reward in rewards]
