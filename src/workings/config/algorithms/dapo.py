"""DAPO: decoupled clipping and dynamic sampling (arXiv 2503.14476)."""

from typing import Literal

from pydantic import Field

from workings.config.algorithms.base import RewardAlgorithm
from workings.objectives.policy_gradient import PolicyGradient


class Dapo(RewardAlgorithm):
    """GRPO whose tokens count alike, whose bound leaves more room upwards, and which draws again for equal rewards.

    A group whose rewards are all equal teaches nothing: it is left out, and another prompt is drawn in its place. Its
    penalty for long completions is the reward `overlong`.
    """

    name: Literal["dapo"]
    """Decoupled clip and dynamic sampling policy optimization."""
    # The paper's 0.28 above and 0.2 below.
    clip_high: float = Field(default=0.28, gt=0, strict=False)
    """The ratio counts up to `1 + clip_high`: unlikely tokens may become likely faster than likely ones unlikely."""
    draws: int = Field(default=10, ge=1)
    """At most so many times as many prompts are drawn as the update takes; what is missing then is left empty."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, averaged over all tokens of the update."""
        return self.clipped_policy_gradient(normalize="tokens")

    @property
    def max_sampling_rounds(self) -> int:
        """As the recipe says."""
        return self.draws
