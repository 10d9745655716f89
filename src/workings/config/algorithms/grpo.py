"""GRPO: group relative policy optimization (arXiv 2402.03300)."""

from collections.abc import Sequence
from typing import Literal

from workings.config.algorithms.base import RewardAlgorithm, normalized
from workings.objectives.policy_gradient import PolicyGradient


class Grpo(RewardAlgorithm):
    """A group's rewards minus their mean over their spread; every completion counts alike, however long."""

    name: Literal["grpo"]
    """Group relative policy optimization."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, averaged within each completion."""
        return PolicyGradient(clip_low=self.clip_low, clip_high=self.clip_high, kl_beta=self.kl_beta,
                              normalize="sequences")

    def advantages(self, rewards: Sequence[float]) -> list[float]:
        """Rewards in units of the group's own spread."""
        return normalized(rewards)
