"""CISPO: clipped importance sampling weights (MiniMax-M1, arXiv 2506.13585)."""

from typing import Literal

from pydantic import Field

from workings.config.algorithms.base import RewardAlgorithm
from workings.objectives.policy_gradient import PolicyGradient


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
        return self.clipped_policy_gradient(bound="detached", normalize="tokens")
