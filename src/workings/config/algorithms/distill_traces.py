"""Off-policy distillation: on traces, from a teacher's most likely tokens at each position."""

from typing import Literal

from pydantic import Field

from workings.config.algorithms.base import TeacherAlgorithm
from workings.objectives.top_tokens import MAX_TOKENS, TopTokens


class TraceDistill(TeacherAlgorithm):
    """At each learned position of a trace the student's distribution becomes the teacher's.

    The teacher computes its most likely tokens once, before the first step, and is not in memory after that. The traces
    are its input: they decide the context of each position, and the teacher alone decides what is learned there.
    """

    name: Literal["distill_traces"]
    """Off-policy distillation on traces."""
    top_k: int = Field(default=16, ge=1, le=MAX_TOKENS)
    """Number of the teacher's most likely tokens at each position; the rest of the vocabulary counts as one further
    token. Each takes 8 bytes per position on the disk and in memory."""

    @property
    def objective(self) -> TopTokens:
        """The loss of an update."""
        return TopTokens(top_k=self.top_k)
