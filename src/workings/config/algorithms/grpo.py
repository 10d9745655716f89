"""GRPO, group relative policy optimization (arXiv 2402.03300), and five algorithms that change a line or two of it.

Dr. GRPO: GRPO without its two biases (arXiv 2503.20783). RLOO: REINFORCE with the other completions of a group as the
baseline (arXiv 2402.14740). DAPO: decoupled clipping and dynamic sampling (arXiv 2503.14476). GSPO: group sequence
policy optimization (arXiv 2507.18071). CISPO: clipped importance sampling weights (MiniMax-M1, arXiv 2506.13585).
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from workings.config.algorithms.base import RewardAlgorithm, centered
from workings.objectives.policy_gradient import PolicyGradient


class Grpo(RewardAlgorithm):
    """A group's rewards minus their mean over their spread; every completion counts alike, however long."""

    name: Literal["grpo"]
    """Group relative policy optimization."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, averaged within each completion."""
        # A mean within each completion: in a long one each token weighs less.
        return self.clipped_policy_gradient(normalize="sequences")


class DrGrpo(RewardAlgorithm):
    """Rewards minus the group's mean; the sum over tokens is divided by a constant.

    Neither easy and hard prompts (whose rewards spread little) nor short completions weigh more than others.
    """

    name: Literal["dr_grpo"]
    """GRPO done right: no division by spread or length."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, added up."""
        return self.clipped_policy_gradient(normalize="tokens")

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """Rewards minus their mean."""
        # Division by the spread would lift groups in which one answer differs from all others.
        return centered(rewards)

    def divisor(self, *, rows: int, tokens: int) -> float:
        """Maximum number of tokens of the completions."""
        del tokens
        # Independent of lengths: a token weighs the same in a short completion and in a long one.
        return float(rows * self.max_new_tokens)


class Rloo(RewardAlgorithm):
    """Each reward minus the mean of the others in its group; every completion counts alike, however long."""

    name: Literal["rloo"]
    """REINFORCE, leave one out."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, averaged within each completion, as Tunix has it."""
        return self.clipped_policy_gradient(normalize="sequences")

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """Reward minus the mean of the others: the distance from the whole group's mean, a little larger."""
        count = len(rewards)
        # With m the mean of all n: r - (n m - r) / (n - 1) = (r - m) n / (n - 1).
        return [distance * count / (count - 1) for distance in centered(rewards)]


class Dapo(RewardAlgorithm):
    """GRPO with equal weight for every token, a higher upper clipping bound, and dynamic sampling.

    A group whose rewards are all equal teaches nothing: it is left out, and another prompt is sampled in its place. The
    paper's penalty for long completions is the reward `overlong`.
    """

    name: Literal["dapo"]
    """Decoupled clip and dynamic sampling policy optimization."""
    # The paper's 0.28 above and 0.2 below.
    clip_high: float = Field(default=0.28, gt=0, strict=False)
    """Upper clipping bound: the ratio counts up to `1 + clip_high`, so unlikely tokens may become likely faster than
    likely ones unlikely."""
    max_resamples: int = Field(default=10, ge=1)
    """Upper limit on dynamic sampling: groups with equal rewards are replaced until each rollout's prompts were sampled
    this many times. If there are still too few groups, the remaining rows of the batch stay empty."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, averaged over all tokens of the update."""
        return self.clipped_policy_gradient(normalize="tokens")

    @property
    def max_sampling_rounds(self) -> int:
        """The recipe's key `max_resamples`."""
        return self.max_resamples


class Gspo(RewardAlgorithm):
    """GRPO with one ratio for each completion: the geometric mean of its tokens' ratios."""

    name: Literal["gspo"]
    """Group sequence policy optimization."""
    # Both bounds are those of the paper's experiments.
    clip_low: float = Field(default=3e-4, gt=0, le=1, strict=False)
    """Lower clipping bound: the ratio of a completion counts from `1 - clip_low` on; it moves far less than that of a
    token."""
    clip_high: float = Field(default=4e-4, gt=0, strict=False)
    """Upper clipping bound: the ratio counts up to `1 + clip_high`."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of completions."""
        # A product of hundreds of ratios would explode; its geometric mean stays near 1, so the bounds are narrow.
        return self.clipped_policy_gradient(ratio="sequence", normalize="sequences")


class Cispo(RewardAlgorithm):
    """The clipped ratio is a constant weight of the log probability: every token teaches, also beyond the bound."""

    name: Literal["cispo"]
    """Clipped importance sampling policy optimization."""
    clip_low: float = Field(default=1.0, gt=0, le=1, strict=False)
    """Lower clipping bound: the ratio counts from `1 - clip_low` on; 1: no lower bound."""
    clip_high: float = Field(default=4.0, gt=0, strict=False)
    """Upper clipping bound: the ratio counts up to `1 + clip_high` (TRL's `epsilon_high` is this plus one)."""

    @property
    def objective(self) -> PolicyGradient:
        """Log probabilities weighted by their clipped ratios, averaged over all tokens of the update."""
        # Detached: the gradient goes through the log probability alone, so clipping never makes it zero.
        return self.clipped_policy_gradient(bound="detached", normalize="tokens")
