"""Off-policy distillation: on traces, from the tokens that a teacher finds the most likely at each position."""

from typing import Literal

from pydantic import Field

from workings.config.algorithms.base import TeacherAlgorithm
from workings.objectives.top_tokens import MAX_TOKENS, TopTokens


class TraceDistill(TeacherAlgorithm):
    """At each learned position of a trace the student's distribution becomes the teacher's.

    The teacher is asked once, before the first step, and is not in memory after that. It reads the traces as they are:
    which token comes next there decides what is read, and not what is learned.
    """

    name: Literal["distill_traces"]
    """Off-policy distillation on traces."""
    top_k: int = Field(default=16, ge=1, le=MAX_TOKENS)
    """Tokens of each position that the teacher tells; the rest of the vocabulary counts as one further token. A
    position takes 8 bytes each on the disk and in memory."""

    @property
    def objective(self) -> TopTokens:
        """What an update minimizes."""
        return TopTokens(top_k=self.top_k)
