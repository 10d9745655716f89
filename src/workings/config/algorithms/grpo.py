"""GRPO: group relative policy optimization (arXiv 2402.03300)."""

from typing import Literal

from workings.config.algorithms.base import RewardAlgorithm
from workings.objectives.policy_gradient import PolicyGradient


class Grpo(RewardAlgorithm):
    """A group's rewards minus their mean over their spread; every completion counts alike, however long."""

    name: Literal["grpo"]
    """Group relative policy optimization."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, averaged within each completion."""
        return self.clipped_policy_gradient(normalize="sequences")
