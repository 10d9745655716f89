"""Distillation: a teacher judges every token that the student writes (`distill`), or of a trace (`distill_traces`).

On-policy distillation (arXiv 2306.13649) is done as in https://thinkingmachines.ai/blog/on-policy-distillation: the
policy gradient of the reverse divergence, with an advantage for each token and without a discount.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from workings.config.algorithm import TeacherKeys
from workings.objectives.policy_gradient import PolicyGradient
from workings.objectives.top_tokens import MAX_TOKENS, TopTokens
from workings.record.layout import PROMPTS, ROLLOUTS, ROWS, TEACHER, TOP_TOKENS
from workings.ways.parts.rollout_way import RolloutWay


class Distill(TeacherKeys, RolloutWay):
    """Each token's advantage is its log probability under the teacher minus that when it was sampled; no rewards."""

    name: Literal["distill"]
    """On-policy distillation."""
    asks_teacher_in_every_step = True
    records = (PROMPTS, TEACHER, ROLLOUTS)
    controls = ("teacher",)
    group: int = Field(default=4, ge=1)
    """Completions sampled for each prompt; they are not compared, so 1 is enough."""
    patience: int = Field(default=10, ge=1)
    """Training stops after this many updates in a row that changed no weight."""

    @property
    def objective(self) -> PolicyGradient:
        """Clipped ratios of tokens, averaged over all tokens of the update."""
        # Without a divergence from a reference: the teacher's log probabilities are in the advantages already.
        return PolicyGradient(clip_low=self.clip_low, clip_high=self.clip_high, normalize="tokens")

    @property
    def has_reference(self) -> bool:
        """True: the teacher."""
        return True

    def token_advantages(self, advantage: float, sampler: Sequence[float], reference: Sequence[float]) -> list[float]:
        """Each token's log probability under the teacher minus that when it was sampled; 0 without ``reference``."""
        # The completion's own advantage is 0, because nothing is compared within a group.
        if not reference:
            return [advantage] * len(sampler)
        return [advantage + teacher - student for teacher, student in zip(reference, sampler, strict=True)]


class TraceDistill(TeacherKeys):
    """At each learned position of a trace the student's distribution becomes the teacher's.

    The teacher computes its most likely tokens once, before the first step, and is not in memory after that. The traces
    are its input: they decide the context of each position, and only the teacher decides what is learned there.
    """

    name: Literal["distill_traces"]
    """Off-policy distillation on traces."""
    learns_earlier_turns = True
    records = (ROWS, TEACHER, TOP_TOKENS)
    controls = ("top_tokens",)
    top_k: int = Field(default=16, ge=1, le=MAX_TOKENS)
    """Number of the teacher's most likely tokens at each position; the rest of the vocabulary counts as one further
    token. Each takes 8 bytes per position on the disk and in memory."""

    @property
    def objective(self) -> TopTokens:
        """The loss of an update."""
        return TopTokens(top_k=self.top_k)


WAYS = (Distill, TraceDistill)
