"""Dr. GRPO: GRPO without its two biases (arXiv 2503.20783)."""

from collections.abc import Sequence
from typing import Literal

from workings.config.algorithms.base import RewardAlgorithm, centered
from workings.objectives.policy_gradient import PolicyGradient


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
        return centered(rewards)

    def divisor(self, *, rows: int, tokens: int) -> float:
        """Maximum number of tokens of the completions."""
        del tokens
        return float(rows * self.max_new_tokens)
