"""Which answers of a run's evaluations are asked for again, and with which probability that finds invented ones."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.evidence.replay.coverage import more_than, share_of


@dataclass(frozen=True, kw_only=True)
class DrawnUnit:
    """An evaluation whose answers can be asked for again."""

    unit: str
    items: int
    samples: int
    """Completions of each item."""
    batch: int
    """Items that are asked together; 1 where any can be asked alone."""

    @property
    def population(self) -> int:
        """Batches, or items, that are drawn from."""
        return -(-self.items // self.batch)

    def asked(self, drawn: int) -> int:
        """Items in so many batches, at most."""
        return min(self.items, drawn * self.batch)

    def drawn_for(self, items: int) -> int:
        """So many batches that, whichever are drawn, as many items are asked; all, where there are fewer."""
        # The last batch may be short, and be among those that are drawn.
        smallest = self.items - (self.population - 1) * self.batch
        return min(self.population, 1 + max(0, -(-(items - smallest) // self.batch)))


@dataclass(frozen=True, kw_only=True)
class AnswerDraw:
    """How many batches of each evaluation are asked again, and how many completions have to be the recorded ones."""

    evaluations: tuple[DrawnUnit, ...]
    drawn: tuple[int, ...]
    same: float
    """Share of all completions that has to be the recorded text."""

    @classmethod
    def some(cls, evaluations: Sequence[DrawnUnit], same: float, items: int) -> "AnswerDraw":
        """At least so many items of each."""
        return cls(evaluations=tuple(evaluations), drawn=tuple(each.drawn_for(items) for each in evaluations),
                   same=same)

    @classmethod
    def confident(cls, evaluations: Sequence[DrawnUnit], same: float, splice: float, confidence: float) -> "AnswerDraw":
        """As few as find with this probability that so large a share of any evaluation is invented; all if need be."""
        largest = max((each.population for each in evaluations), default=0)
        draw = cls(evaluations=tuple(evaluations), drawn=(0,) * len(evaluations), same=same)
        for count in range(1, largest + 1):
            draw = cls(evaluations=tuple(evaluations), same=same,
                       drawn=tuple(min(count, each.population) for each in evaluations))
            if all(draw.detection_probability(number, draw.invented(each, splice)) >= confidence
                   for number, each in enumerate(evaluations)):
                break
        return draw

    def invented(self, evaluation: DrawnUnit, splice: float) -> int:
        """Items that a share is; under other conditions they count above as many as may differ by themselves."""
        honest = self._allowed(evaluation, [each.population for each in self.evaluations])
        return min(evaluation.items, share_of(evaluation.items, splice) + honest)

    def detection_probability(self, number: int, invented: int) -> float:
        """Probability that so many items of one evaluation, with every completion invented, fail the replay."""
        evaluation, drawn = self.evaluations[number], self.drawn[number]
        # A forger fills as few batches as possible; where batches are drawn, one wrong answer in them is enough.
        wrong = -(-invented // evaluation.batch)
        return more_than(self._allowed(evaluation, self.drawn), population=evaluation.population, wrong=wrong,
                         drawn=drawn)

    def _allowed(self, evaluation: DrawnUnit, drawn: Sequence[int]) -> int:
        """Wrong items of one evaluation that still leave the share that is needed, of so many drawn of each."""
        asked = sum(each.asked(count) * each.samples for each, count in zip(self.evaluations, drawn, strict=True))
        # Compared as `judge` does it: a share that is rounded would be another one.
        # More wrong items never pass where fewer fail, so the border is found by halving; the range itself is not
        # built.
        return bisect_left(range(evaluation.items), True,
                           key=lambda wrong: asked - (wrong + 1) * evaluation.samples < self.same * asked)

    def facts(self, splice: float) -> list[dict[str, Any]]:
        """For the answer: of each evaluation how many were asked again, and what that finds."""
        return [{"unit": each.unit, "items": each.items, "asked": each.asked(self.drawn[number]),
                 "invented": self.invented(each, splice),
                 "found": self.detection_probability(number, self.invented(each, splice))}
                for number, each in enumerate(self.evaluations)]
