"""On-policy distillation: a teacher judges every token that the student writes (arXiv 2306.13649).

As in https://thinkingmachines.ai/blog/on-policy-distillation: the policy gradient of the reverse divergence, with an
advantage for each token and without a discount.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from workings.config.algorithms.base import RolloutAlgorithm, TeacherAlgorithm
from workings.objectives.policy_gradient import PolicyGradient


class Distill(TeacherAlgorithm, RolloutAlgorithm):
    """Each token's advantage is its log probability under the teacher minus that when it was sampled; no rewards."""

    name: Literal["distill"]
    """On-policy distillation."""
    group: int = Field(default=4, ge=1)
    """Completions sampled for each prompt; they are not compared, so 1 is enough."""

    patience: int = Field(default=10, ge=1)
    """Training stops after this many updates in a row that changed no weight."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, averaged over all tokens of the update."""
        return PolicyGradient(clip_low=self.clip_low, clip_high=self.clip_high, normalize="tokens")

    @property
    def has_reference(self) -> bool:
        """True: the teacher."""
        return True

    def token_advantages(self, advantage: float, sampler: Sequence[float], reference: Sequence[float]) -> list[float]:
        """Each token's log probability under the teacher minus that when it was sampled; 0 without ``reference``."""
        if not reference:
            return [advantage] * len(sampler)
        # The completion's own advantage is 0 here, because nothing is compared within a group.
        return [advantage + teacher - student for teacher, student in zip(reference, sampler, strict=True)]
