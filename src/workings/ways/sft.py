"""Supervised fine-tuning: traces are imitated."""

from typing import Literal

from workings.config.algorithm import Algorithm
from workings.objectives.base import CROSS_ENTROPY, CrossEntropy
from workings.record.layout import ROWS


class Sft(Algorithm):
    """Traces are imitated: supervised fine-tuning by cross entropy."""

    name: Literal["sft"]
    """Supervised fine-tuning on traces."""
    learns_earlier_turns = True
    records = (ROWS,)

    @property
    def objective(self) -> CrossEntropy:
        """The loss of an update."""
        return CROSS_ENTROPY


WAYS = (Sft,)
