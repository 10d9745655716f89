"""Distillation from a teacher's most likely tokens: at each position of a trace the student's distribution becomes his.

The teacher says of each position which k tokens it finds the most likely, and how likely. The rest of the vocabulary
counts as one further outcome, with the probability that is left; so both distributions are whole, over k + 1 outcomes.
The divergence of the student's from the teacher's among these (forward, in nats a token) is never above that among all
tokens, and is zero only where the student finds each of the k tokens as likely as the teacher does. What the student
does with the rest, beyond its sum, is not learned.

Source of the further outcome (there a "ghost token"): arXiv 2503.16870.

Shape suffixes: B rows, S positions of a row, K tokens of a position.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from workings.errors import RequestError
from workings.objectives.base import Array, ArrayFunctions, Terms

MAX_TOKENS = 128
"""Most tokens of a position."""
MIN_REST = 1e-6
"""The rest counts as at least this probable: what a float32 sum leaves of 1 is no more exact. Below it, its part has no
derivative; where both models are below it, it adds nothing."""


@dataclass(frozen=True, kw_only=True)
class TopTokens:
    """Divergence of the student's distribution from the teacher's, over the teacher's top tokens and the rest as one.

    Its targets are the teacher's tokens, several a position, and not the token of the trace.
    """

    name: ClassVar[str] = "top_tokens"
    metrics: ClassVar[tuple[str, ...]] = ("teacher_mass", "teacher_entropy")
    """Means over supervised tokens: the probability that the teacher gives to its top tokens together, and the entropy
    of its distribution over these and the rest, in nats. The loss plus the entropy is the cross entropy."""

    top_k: int = 16
    """Tokens of a position."""

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= MAX_TOKENS:
            raise RequestError(f"top_k {self.top_k}", f"from 1 to {MAX_TOKENS}")

    @property
    def target_signals(self) -> tuple[str, ...]:
        """Names of the signals that hold the teacher's tokens, the most likely one first."""
        return tuple(f"teacher_token_{number}" for number in range(self.top_k))

    @property
    def log_prob_signals(self) -> tuple[str, ...]:
        """Names of the signals that hold their log probabilities, in the same order."""
        return tuple(f"teacher_log_prob_{number}" for number in range(self.top_k))

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the `Batch.signals` that it needs."""
        return (*self.target_signals, *self.log_prob_signals)

    def terms(self, array: ArrayFunctions, log_probs_BSK: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Its value on some rows, as `SeveralTargets.terms`."""
        teacher_BSK = array.stack([signals[name] for name in self.log_prob_signals])
        mask_BS1 = mask_BS[..., None]
        # 0 at positions that are not supervised, where log probabilities are 0 as well.
        there_BSK, here_BSK = array.exp(teacher_BSK) * mask_BS1, array.exp(log_probs_BSK) * mask_BS1
        rest_BS, own_rest_BS = (array.clip(1 - x_BSK.sum(-1), MIN_REST, 1.0) for x_BSK in (there_BSK, here_BSK))
        entropy_BS = -(there_BSK * teacher_BSK).sum(-1) - rest_BS * array.log(rest_BS)
        cross_BS = -(there_BSK * log_probs_BSK).sum(-1) - rest_BS * array.log(own_rest_BS)
        count = mask_BS.sum()
        return Terms(total=((cross_BS - entropy_BS) * mask_BS).sum(), metrics={
            "teacher_mass": (there_BSK.sum(), count), "teacher_entropy": ((entropy_BS * mask_BS).sum(), count)})


OBJECTIVE = TopTokens
