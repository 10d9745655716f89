"""GRPO, group relative policy optimization (arXiv 2402.03300), and five algorithms that change a line or two of it.

Dr. GRPO: GRPO without its two biases (arXiv 2503.20783). RLOO: REINFORCE with the other completions of a group as the
baseline (arXiv 2402.14740). DAPO: decoupled clipping and dynamic sampling (arXiv 2503.14476). GSPO: group sequence
policy optimization (arXiv 2507.18071). CISPO: clipped importance sampling weights (MiniMax-M1, arXiv 2506.13585).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from workings.config.rewards import refuse_repeated
from workings.config.section import refused
from workings.objectives.policy_gradient import PolicyGradient
from workings.record.layout import PROMPTS, REWARDS, ROLLOUTS
from workings.ways.parts.rollout_way import RolloutWay

if TYPE_CHECKING:
    from workings.config.recipe import Recipe


class RewardWay(RolloutWay):
    """Each completion is rewarded and compared with the others of its prompt."""

    records = (PROMPTS, REWARDS, ROLLOUTS)
    controls = ("reward", "advantage")
    normalize: ClassVar[Literal["tokens", "sequences"]] = "sequences"
    """This and the next two are fields of `PolicyGradient`. Here: a mean within each completion, then over all."""
    ratio: ClassVar[Literal["token", "sequence"]] = "token"
    bound: ClassVar[Literal["pessimistic", "detached"]] = "pessimistic"

    kl_beta: float = Field(default=0.0, ge=0, strict=False)
    """Weight of the divergence from the model before training, the reference (TRL: `beta`); 0: no reference. With
    adapters the reference is the model with adapters switched off; otherwise it is a second, frozen copy of the weights
    without moments."""
    temperature: float = Field(default=1.0, ge=0.1, le=10, strict=False)
    """Sampling temperature of completions (TRL: `temperature`). Above 1 they differ more, below 1 less. The update uses
    the same distribution (logits divided by the temperature), so the model learns to write at this temperature.
    Held-out items are answered greedily."""
    mask_truncated: bool = False
    """Whether a completion or an episode that a limit ended has an advantage of 0 (TRL: `mask_truncated_completions`),
    so that the update does not punish what was only cut off. It still counts in the mean of its group, in the divisor
    and, with `kl_beta`, in the divergence."""

    @property
    def masks_truncated(self) -> bool:
        """The recipe's key `mask_truncated`."""
        return self.mask_truncated

    @property
    def has_reference(self) -> bool:
        """Whether the model before training is kept."""
        return self.kl_beta > 0

    @property
    def objective(self) -> PolicyGradient:
        """The policy gradient in this algorithm's form, with the recipe's bounds and divergence."""
        return PolicyGradient(clip_low=self.clip_low, clip_high=self.clip_high, kl_beta=self.kl_beta,
                              temperature=self.temperature, normalize=self.normalize, ratio=self.ratio,
                              bound=self.bound)

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """Advantages of one group's completions: distances from its mean in units of its standard deviation."""
        return normalized(rewards)

    def _check_rewards(self, recipe: Recipe) -> None:
        if not recipe.rewards:
            raise refused(f"algorithm.name: {self.name} needs rewards", "at least one reward function",
                          "rewards='[{scorer: answer}]'")
        refuse_repeated(recipe.rewards)


class Grpo(RewardWay):
    """A group's rewards minus their mean over their spread; every completion counts alike, however long."""

    name: Literal["grpo"]
    """Group relative policy optimization."""


class DrGrpo(RewardWay):
    """Rewards minus the group's mean; the sum over tokens is divided by a constant.

    Neither easy and hard prompts (whose rewards spread little) nor short completions weigh more than others.
    """

    name: Literal["dr_grpo"]
    """GRPO done right: no division by spread or length."""
    normalize = "tokens"

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """Rewards minus their mean."""
        # Division by the spread would lift groups in which one answer differs from all others.
        return centered(rewards)

    def divisor(self, *, rows: int, tokens: int) -> float:
        """Maximum number of tokens of the completions."""
        # Independent of lengths: a token weighs the same in a short completion and in a long one.
        return float(rows * self.max_new_tokens)


class Rloo(RewardWay):
    """Each reward minus the mean of the others in its group; every completion counts alike, however long."""

    name: Literal["rloo"]
    """REINFORCE, leave one out."""

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """Reward minus the mean of the others: the distance from the whole group's mean, a little larger."""
        count = len(rewards)
        # With m the mean of all n: r - (n m - r) / (n - 1) = (r - m) n / (n - 1).
        return [distance * count / (count - 1) for distance in centered(rewards)]


class Dapo(RewardWay):
    """GRPO with equal weight for every token, a higher upper clipping bound, and dynamic sampling.

    A group whose rewards are all equal teaches nothing: it is left out, and another prompt is sampled in its place. The
    paper's penalty for long completions is the reward `overlong`.
    """

    name: Literal["dapo"]
    """Decoupled clip and dynamic sampling policy optimization."""
    normalize = "tokens"
    clip_high: float = Field(default=0.28, gt=0, strict=False)
    """Upper clipping bound: the ratio counts up to `1 + clip_high`, so unlikely tokens may become likely fast."""
    max_resamples: int = Field(default=10, ge=1)
    """Upper limit on dynamic sampling: groups with equal rewards are replaced until each rollout's prompts were sampled
    this many times. If there are still too few groups, the remaining rows of the batch stay empty."""

    @property
    def max_sampling_rounds(self) -> int:
        """The recipe's key `max_resamples`."""
        return self.max_resamples


class Gspo(RewardWay):
    """GRPO with one ratio for each completion: the geometric mean of its tokens' ratios."""

    name: Literal["gspo"]
    """Group sequence policy optimization."""
    # A product of hundreds of ratios would explode; its geometric mean stays near 1, so the bounds are narrow.
    ratio = "sequence"
    clip_low: float = Field(default=3e-4, gt=0, le=1, strict=False)
    """Lower clipping bound: a completion's ratio, which moves less than a token's, counts from `1 - clip_low` on."""
    clip_high: float = Field(default=4e-4, gt=0, strict=False)
    """Upper clipping bound: the ratio counts up to `1 + clip_high`."""


class Cispo(RewardWay):
    """The clipped ratio is a constant weight of the log probability: every token teaches, also beyond the bound."""

    name: Literal["cispo"]
    """Clipped importance sampling policy optimization."""
    # Detached: the gradient goes through the log probability alone, so clipping never makes it zero.
    bound = "detached"
    normalize = "tokens"
    clip_low: float = Field(default=1.0, gt=0, le=1, strict=False)
    """Lower clipping bound: the ratio counts from `1 - clip_low` on; 1: no lower bound."""
    clip_high: float = Field(default=4.0, gt=0, strict=False)
    """Upper clipping bound: the ratio counts up to `1 + clip_high` (TRL's `epsilon_high` is this plus one)."""


def normalized(rewards: Sequence[float]) -> list[float]:
    """Rewards minus their mean, divided by their sample standard deviation, as in TRL; zeros where all are equal."""
    center = fmean(rewards)
    # A group has two completions at least, so nothing is divided by zero.
    spread = sqrt(fsum((reward - center) ** 2 for reward in rewards) / (len(rewards) - 1))
    # The addend keeps a group of nearly equal rewards from becoming large advantages.
    return [distance / (spread + 1e-4) for distance in centered(rewards)]


def centered(rewards: Sequence[float]) -> list[float]:
    """Rewards minus their mean; zeros where all are equal, without the rounding of a mean."""
    # The mean of equal numbers may differ from them in its last bit, and that would be divided by a tiny spread.
    center = rewards[0] if len(set(rewards)) == 1 else fmean(rewards)
    return [reward - center for reward in rewards]


WAYS = (Grpo, DrGrpo, Rloo, Dapo, Gspo, Cispo)
