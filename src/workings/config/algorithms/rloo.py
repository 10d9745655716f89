"""RLOO: REINFORCE with the other completions of a group as the baseline (arXiv 2402.14740)."""

from collections.abc import Sequence
from typing import Literal

from workings.config.algorithms.base import RewardAlgorithm, centered
from workings.objectives.policy_gradient import PolicyGradient


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
