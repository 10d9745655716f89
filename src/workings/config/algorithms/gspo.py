"""GSPO: group sequence policy optimization (arXiv 2507.18071)."""

from typing import Literal

from pydantic import Field

from workings.config.algorithms.base import RewardAlgorithm
from workings.objectives.policy_gradient import PolicyGradient


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
        return self.clipped_policy_gradient(ratio="sequence", normalize="sequences")
