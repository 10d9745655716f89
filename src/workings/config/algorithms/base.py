"""What algorithms have in common: those with a teacher, those that draw completions, and of them those with rewards.

With rewards, a group of completions is drawn of each prompt, rewards are compared within a group, and the model moves
towards the better ones. These algorithms differ in how a reward becomes an advantage, in how far one update may move a
probability, and in what the sum over all tokens is divided by. Everything here is plain arithmetic on a few numbers for
each completion: a verifier repeats it without a model.
"""

from abc import abstractmethod
from collections.abc import Sequence
from math import fsum, sqrt
from typing import Any, Literal

from pydantic import Field

from workings.config.section import Section
from workings.objectives.cross_entropy import CROSS_ENTROPY, CrossEntropy
from workings.objectives.policy_gradient import PolicyGradient

TeacherPrecision = Literal["fp32", "bf16", "int8", "nf4"]
"""From most bits to fewest: a plan that does not fit tries the next one."""



class Imitation(Section):
    """Traces are imitated: supervised fine-tuning by cross entropy."""

    name: Literal["sft"]
    """Supervised fine-tuning on traces."""

    @property
    def objective(self) -> CrossEntropy:
        """What an update minimizes."""
        return CROSS_ENTROPY


class TeacherAlgorithm(Section):
    """A frozen model of the student's vocabulary judges tokens."""

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
    """Completions are drawn from the whole vocabulary, and learned from.

    Top-k or top-p would draw from another distribution than the one that the update improves.
    """

    group: int = Field(default=8, ge=2)
    """Completions of each prompt (TRL: `num_generations`)."""
    max_new_tokens: int = Field(default=256, ge=1)
    """Longest completion, in tokens; it is cut off there (TRL: `max_completion_length`)."""
    updates: int = Field(default=1, ge=1)
    """Updates from one rollout, each with its own part of the completions (TRL: `steps_per_generation`)."""
    clip_low: float = Field(default=0.2, gt=0, le=1, strict=False)
    """The ratio of a token's probability to that when it was drawn counts from `1 - clip_low` on (TRL: `epsilon`)."""
    clip_high: float = Field(default=0.2, gt=0, strict=False)
    """It counts up to `1 + clip_high` (TRL: `epsilon_high`)."""
    most_mismatch: float = Field(default=0.1, gt=0, strict=False)
    """Training stops where the drawn tokens' log probabilities, said again by the model that is trained, differ by more
    than this on average (nats a token): it would then learn from another model's samples."""
    patience: int = Field(default=10, ge=1)
    """Training stops after so many rollouts in a row in which nothing can be learned: no group whose rewards differ, no
    completion that ends by itself, or weights that do not change."""

    @property
    @abstractmethod
    def objective(self) -> PolicyGradient:
        """What an update minimizes."""

    @property
    def sampling_temperature(self) -> float:
        """Temperature at which completions are drawn."""
        return self.objective.temperature

    def divisor(self, *, rows: int, tokens: int) -> float:
        """What the sum over an update is divided by.

        Args:
            rows: completions of the update, left-out ones not counted.
            tokens: tokens of these completions, stop tokens included.
        """
        # The objective has divided each row by its own length already.
        return float(rows if self.objective.normalize == "sequences" else tokens)

    @property
    def max_sampling_rounds(self) -> int:
        """How many times as many prompts may be drawn as an update takes; 1: no group is left out."""
        return 1

    @property
    def has_reference(self) -> bool:
        """Whether a frozen model says how likely it finds what was drawn."""
        return False

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """How much better each completion of one group was than the group: 0 where they are not compared."""
        return [0.0] * len(rewards)

    def token_advantages(self, advantage: float, drawn: Sequence[float], reference: Sequence[float]) -> list[float]:
        """Of each token of a completion: here that of the completion.

        Args:
            advantage: of the completion.
            drawn: log probability of each token when it was drawn.
            reference: the same as the frozen model says; empty where there is none, or as long as it was not asked.
        """
        del reference
        return [advantage] * len(drawn)


class RewardAlgorithm(RolloutAlgorithm):
    """Each completion is rewarded, and compared with the others of its prompt."""

    kl_beta: float = Field(default=0.0, ge=0, strict=False)
    """Weight of the divergence from the model that training began with (TRL: `beta`); 0: there is no such reference.
    With adapters it is the model with them switched off; otherwise a second copy of the weights, frozen, without
    moments."""
    temperature: float = Field(default=1.0, ge=0.1, le=10, strict=False)
    """At which completions are drawn (TRL: `temperature`). Above 1 they differ more, below 1 less. Log probabilities in
    the update are of the same distribution, the logits divided by it: what is learned is how the model writes at this
    temperature. Held-out items are answered as `evaluation` says."""

    @property
    def has_reference(self) -> bool:
        """The model that training began with, where the recipe holds on to it."""
        return self.kl_beta > 0

    def clipped_policy_gradient(self, **form: Any) -> PolicyGradient:
        """Policy gradients with this recipe's bounds and divergence; ``form``: the other fields of `PolicyGradient`."""
        return PolicyGradient(clip_low=self.clip_low, clip_high=self.clip_high, kl_beta=self.kl_beta,
                              temperature=self.temperature, **form)

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """How much better each completion of one group was than the group: here in units of the group's own spread."""
        return normalized(rewards)


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; the sum is exact, so its order does not matter."""
    return fsum(values) / len(values)


def standard_deviation(values: Sequence[float]) -> float:
    """Of a sample (divided by one less than the count), as TRL and Tunix take it."""
    middle = mean(values)
    # A group has two completions at least, so nothing is divided by zero.
    return sqrt(fsum((value - middle) ** 2 for value in values) / (len(values) - 1))


def normalized(rewards: Sequence[float]) -> list[float]:
    """Rewards minus their mean, divided by their standard deviation; zeros where all are equal."""
    spread = standard_deviation(rewards)
    # As in TRL: the addend keeps a group of nearly equal rewards from becoming large advantages.
    return [distance / (spread + 1e-4) for distance in centered(rewards)]


def centered(rewards: Sequence[float]) -> list[float]:
    """Rewards minus their mean; zeros where all are equal, without the rounding of a mean."""
    middle = rewards[0] if len(set(rewards)) == 1 else mean(rewards)
    return [reward - middle for reward in rewards]
