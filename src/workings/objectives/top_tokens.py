"""Distillation from a teacher's most likely tokens: the student learns the teacher's distribution at each position.

The teacher gives the k most likely tokens of each position with their probabilities. All other tokens together are one
further outcome (a "ghost token"). The loss is the forward divergence of the student from the teacher over these k + 1
outcomes, in nats per token. It is 0 if the student gives each of the k tokens the teacher's probability.

Source of the further outcome: https://arxiv.org/abs/2503.16870

Shape suffixes: B rows, S positions of a row, K tokens of a position.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from workings.errors import RequestError
from workings.objectives.base import Array, ArrayFunctions, Terms

MAX_TOKENS = 128
"""The most tokens of a position."""
MIN_REST = 1e-6
"""Lower limit of the probability of all other tokens: it is computed as a float32 difference from 1, which is not more
exact. Below the limit it has no derivative."""


@dataclass(frozen=True, kw_only=True)
class TopTokens:
    """Divergence of the student's distribution from the teacher's; targets are the teacher's tokens."""

    name: ClassVar[str] = "top_tokens"
    metrics: ClassVar[tuple[str, ...]] = ("teacher_mass", "teacher_entropy")
    """Means over supervised tokens. ``teacher_mass``: the teacher's probability of its top tokens together;
    ``teacher_entropy``: entropy of its distribution over the k + 1 outcomes, in nats."""

    top_k: int = 16
    """Tokens of a position."""

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= MAX_TOKENS:
            raise RequestError(f"top_k {self.top_k} is out of range", f"from 1 to {MAX_TOKENS}")

    @property
    def target_signals(self) -> tuple[str, ...]:
        """Names of the signals with the teacher's tokens, in descending order of probability."""
        return tuple(f"teacher_token_{number}" for number in range(self.top_k))

    @property
    def log_prob_signals(self) -> tuple[str, ...]:
        """Names of the signals with their log probabilities, in the same order."""
        return tuple(f"teacher_log_prob_{number}" for number in range(self.top_k))

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the `Batch.signals` that the objective reads."""
        return (*self.target_signals, *self.log_prob_signals)

    def terms(self, array: ArrayFunctions, log_probs_BSK: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `SeveralTargets.terms`."""
        teacher_BSK = array.stack([signals[name] for name in self.log_prob_signals])
        mask_BS1 = mask_BS[..., None]
        teacher_probs_BSK, student_probs_BSK = array.exp(teacher_BSK) * mask_BS1, array.exp(log_probs_BSK) * mask_BS1
        teacher_rest_BS, student_rest_BS = (array.clip(1 - probs_BSK.sum(-1), MIN_REST, 1.0)
                                            for probs_BSK in (teacher_probs_BSK, student_probs_BSK))
        entropy_BS = -(teacher_probs_BSK * teacher_BSK).sum(-1) - teacher_rest_BS * array.log(teacher_rest_BS)
        cross_BS = -(teacher_probs_BSK * log_probs_BSK).sum(-1) - teacher_rest_BS * array.log(student_rest_BS)
        count = mask_BS.sum()
        return Terms(total=((cross_BS - entropy_BS) * mask_BS).sum(), metrics={
            "teacher_mass": (teacher_probs_BSK.sum(), count), "teacher_entropy": ((entropy_BS * mask_BS).sum(), count)})
