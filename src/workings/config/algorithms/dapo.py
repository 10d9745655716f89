"""DAPO: decoupled clipping and dynamic sampling (arXiv 2503.14476)."""

from typing import Literal

from pydantic import Field

from workings.config.algorithms.base import RewardAlgorithm
from workings.objectives.policy_gradient import PolicyGradient


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
    draws: int = Field(default=10, ge=1)
    """Upper limit on dynamic sampling: groups with equal rewards are replaced until each rollout's prompts were sampled
    this many times. If there are still too few groups, the remaining rows of the batch stay empty."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, averaged over all tokens of the update."""
        return self.clipped_policy_gradient(normalize="tokens")

    @property
    def max_sampling_rounds(self) -> int:
        """The recipe's key `draws`."""
        return self.draws
