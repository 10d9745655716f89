"""On-policy distillation: a teacher judges every token that the student writes (arXiv 2306.13649).

The form is that of https://thinkingmachines.ai/blog/on-policy-distillation: the reverse divergence by its policy
gradient, whose advantages are those of single tokens, without a discount.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from workings.config.algorithms.base import RolloutAlgorithm, TeacherAlgorithm
from workings.objectives.policy_gradient import PolicyGradient


class Distill(TeacherAlgorithm, RolloutAlgorithm):
    """Each token's advantage is its log probability under the teacher minus that when it was drawn; no rewards."""

    name: Literal["distill"]
    """On-policy distillation."""
    group: int = Field(default=4, ge=1)
    """Completions of each prompt; they are not compared, so 1 is enough."""

    patience: int = Field(default=10, ge=1)
    """Training stops after so many updates in a row that changed no weight."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, averaged over all tokens of the update."""
        return PolicyGradient(clip_low=self.clip_low, clip_high=self.clip_high, normalize="tokens")

    @property
    def has_reference(self) -> bool:
        """The teacher."""
        return True

    def token_advantages(self, advantage: float, drawn: Sequence[float], reference: Sequence[float]) -> list[float]:
        """How much likelier the teacher finds each token; zeros as long as it was not asked (``reference`` empty)."""
        if not reference:
            return [advantage] * len(drawn)
        # The completion's own advantage is 0 here, because nothing is compared within a group.
        return [advantage + said - own for said, own in zip(reference, drawn, strict=True)]
