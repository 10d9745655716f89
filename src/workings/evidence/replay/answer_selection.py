"""Selection of the answers that are generated again, and the probability that this detects invented ones."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.evidence.replay.coverage import probability_above, share_of


@dataclass(frozen=True, kw_only=True)
class AnswerPopulation:
    """Size of an evaluation with answers that can be regenerated."""

    unit: str
    items: int
    samples: int
    """Completions of each item."""
    batch: int
    """Items that are generated together; 1 if each can be generated alone."""

    @property
    def batches(self) -> int:
        """Batches, or items, that are selected from."""
        return -(-self.items // self.batch)

    def items_in(self, batches: int) -> int:
        """Maximum number of items in this number of batches."""
        return min(self.items, batches * self.batch)

    def batches_for(self, items: int) -> int:
        """Number of batches that hold at least this number of items in any selection; at most all."""
        # The last batch may be short, and be among those that are selected.
        smallest = self.items - (self.batches - 1) * self.batch
        return min(self.batches, 1 + max(0, -(-(items - smallest) // self.batch)))


@dataclass(frozen=True, kw_only=True)
class AnswerSelection:
    """Number of batches of each evaluation that are generated again, and the share that has to be as recorded."""

    evaluations: tuple[AnswerPopulation, ...]
    batch_counts: tuple[int, ...]
    """Selected batches of each evaluation."""
    required_share: float
    """Share of all completions that has to be the recorded text."""

    @classmethod
    def for_item_count(cls, evaluations: Sequence[AnswerPopulation], required_share: float,
                       items: int) -> "AnswerSelection":
        """A selection of at least this number of items of each evaluation."""
        return cls(evaluations=tuple(evaluations), required_share=required_share,
                   batch_counts=tuple(evaluation.batches_for(items) for evaluation in evaluations))

    @classmethod
    def for_confidence(cls, evaluations: Sequence[AnswerPopulation], required_share: float, tampered_share: float,
                       confidence: float) -> "AnswerSelection":
        """The fewest answers that detect such an invented share of any evaluation with this probability, or all."""
        largest = max((evaluation.batches for evaluation in evaluations), default=0)
        selection = cls(evaluations=tuple(evaluations), batch_counts=(0,) * len(evaluations),
                        required_share=required_share)
        # Tried one after the other: the probability has steps, and no formula gives the first sufficient count.
        for count in range(1, largest + 1):
            selection = cls(evaluations=tuple(evaluations), required_share=required_share,
                            batch_counts=tuple(min(count, evaluation.batches) for evaluation in evaluations))
            if all(selection.detection_probability(index, selection.invented_items(evaluation, tampered_share))
                   >= confidence for index, evaluation in enumerate(evaluations)):
                break
        return selection

    def invented_items(self, evaluation: AnswerPopulation, tampered_share: float) -> int:
        """Items in such a share; under other conditions added to the items that may differ in an honest record."""
        honest = self._allowed(evaluation, [population.batches for population in self.evaluations])
        return min(evaluation.items, share_of(evaluation.items, tampered_share) + honest)

    def detection_probability(self, index: int, invented: int) -> float:
        """Probability that this number of invented completions of one evaluation fails the replay."""
        evaluation, count = self.evaluations[index], self.batch_counts[index]
        # A forger fills as few batches as possible; where batches are selected, one wrong answer in them is enough.
        wrong = -(-invented // evaluation.batch)
        return probability_above(self._allowed(evaluation, self.batch_counts), population=evaluation.batches,
                                        wrong=wrong, drawn=count)

    def _allowed(self, evaluation: AnswerPopulation, batch_counts: Sequence[int]) -> int:
        """Wrong items of one evaluation that still leave the required share, with this number of batches."""
        total = sum(population.items_in(count) * population.samples
                    for population, count in zip(self.evaluations, batch_counts, strict=True))
        # Compared as `compare_replay` does it: a share that is rounded would be another one.
        # More wrong items never pass where fewer fail, so the border is found by halving; the range itself is not
        # built.
        return bisect_left(range(evaluation.items), True,
                           key=lambda wrong: total - (wrong + 1) * evaluation.samples < self.required_share * total)

    def to_json(self, tampered_share: float) -> list[dict[str, Any]]:
        """For the answer: how many items of each evaluation were generated again, and what that detects."""
        return [{"unit": evaluation.unit, "items": evaluation.items,
                 "asked": evaluation.items_in(self.batch_counts[index]),
                 "invented": self.invented_items(evaluation, tampered_share),
                 "found": self.detection_probability(index, self.invented_items(evaluation, tampered_share))}
                for index, evaluation in enumerate(self.evaluations)]
