"""Which steps of a run are taken again, and with which probability that finds wrong ones.

A step can only be taken again behind a state that was kept: the first weights, or a checkpoint. So what is drawn is a
*stretch*: the steps from one such state to the next, or the first few of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workings.evidence.replay.coverage import chosen, more_than

LEVELS = (0.5, 0.95, 0.99)
"""Probabilities for which the answer says from which length on a splice is found with them."""


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Steps that are taken again one after the other from a kept state."""

    start: int
    """Step of that state; 0: the first weights."""
    end: int
    """Last step that is taken again."""


@dataclass(frozen=True, kw_only=True)
class StepDraw:
    """Stretches of a run, and those of them that are taken again."""

    stretches: tuple[Stretch, ...]
    """All that could be drawn, by their start."""
    drawn: tuple[Stretch, ...]
    always: Stretch | None
    """One that every seed takes: the last, whose checkpoint the scores come from."""
    ends_at_states: bool
    """Whether each ends at the next kept state, whose weights are compared."""
    last: int
    """Steps of the run."""

    @classmethod
    def some(cls, states: Sequence[int], last: int, steps: int, seed: int) -> "StepDraw":
        """A few steps behind one state that is drawn.

        Args:
            states: steps of the kept states that have recorded steps after them, in order.
            last: steps of the run.
            steps: how many are taken again.
            seed: the verifier's.
        """
        # A single step says nothing about the learning rate, so the place before the last step is not drawn.
        places = [state for state in states if last - state > 1] or list(states)
        stretches = tuple(Stretch(start=state, end=min(last, state + steps)) for state in places)
        number, = chosen(seed, "steps", len(stretches), 1)
        return cls(stretches=stretches, drawn=(stretches[number],), always=None, ends_at_states=False, last=last)

    @classmethod
    def confident(cls, states: Sequence[int], last: int, *, longest: int | None, splice: int, confidence: float,
                  seed: int) -> "StepDraw":
        """As few whole stretches as find a splice of so many steps with this probability; all where that needs all.

        Args:
            states: as for `some`.
            last: steps of the run.
            longest: steps after a state for which a difference can be judged; None: any number.
            splice: steps in a row that are wrong.
            confidence: probability over the seeds, wherever the splice lies.
            seed: the verifier's.
        """
        ends = [*states[1:], last]
        stretches = tuple(Stretch(start=start, end=end if longest is None else min(end, start + longest))
                          for start, end in zip(states, ends, strict=True))
        ends_at_states = all(stretch.end == end for stretch, end in zip(stretches, ends, strict=True))
        others = len(stretches) - 1

        def draw(count: int) -> StepDraw:
            numbers = [*chosen(seed, "stretches", others, count), others]
            return cls(stretches=stretches, drawn=tuple(stretches[number] for number in numbers),
                       always=stretches[-1], ends_at_states=ends_at_states, last=last)

        # More of them never find less, so the first number that is enough can be searched for; else all are taken.
        return draw(bisect_left(range(others), True,
                                key=lambda count: draw(count).detection_probability(splice) >= confidence))

    @property
    def replayed(self) -> int:
        """Steps that are taken again."""
        return sum(stretch.end - stretch.start for stretch in self.drawn)

    def detection_probability(self, length: int) -> float:
        """Probability that one of so many wrong steps in a row is taken again, where they lie at the worst place."""
        return min(chance for _, chance in self._places(length))

    def mean_detection_probability(self, length: int) -> float:
        """The same where each place is as likely as every other one."""
        return sum(count * chance for count, chance in self._places(length)) / (self.last - length + 1)

    @property
    def joint(self) -> float:
        """Probability of finding one place where the steps of another run of the same recipe begin.

        Those steps follow from each other: only the stretch in which they begin is wrong, from there to its end.
        """
        if not self.ends_at_states:
            return 0.0
        others = len(self._drawable)
        return len(self._free) / others if others else 1.0

    def shortest(self, confidence: float) -> int | None:
        """The shortest splice that is found with this probability wherever it lies; None: not even the longest."""
        if self.detection_probability(self.last) < confidence:
            return None
        # By halves: a longer splice meets at least the stretches that a shorter one in it meets.
        return 1 + bisect_left(range(1, self.last), True,
                               key=lambda length: self.detection_probability(length) >= confidence)

    def not_replayed(self) -> list[list[int]]:
        """First and last step of each part of the run that was not taken again."""
        parts, next_step = [], 1
        for stretch in self.drawn:
            if stretch.start + 1 > next_step:
                parts.append([next_step, stretch.start])
            next_step = max(next_step, stretch.end + 1)
        return parts + ([[next_step, self.last]] if next_step <= self.last else [])

    @property
    def _drawable(self) -> list[Stretch]:
        return [stretch for stretch in self.stretches if stretch != self.always]

    @property
    def _free(self) -> list[Stretch]:
        return [stretch for stretch in self.drawn if stretch != self.always]

    @cached_property
    def _chances(self) -> list[float]:
        """Probability of meeting one of so many wrong stretches."""
        population, drawn = len(self._drawable), len(self._free)
        return [more_than(0, population=population, wrong=wrong, drawn=drawn) for wrong in range(population + 1)]

    def _places(self, length: int) -> Iterator[tuple[int, float]]:
        """Numbers of first steps of a splice, with the probability that it is found there."""
        drawable = self._drawable
        starts, ends = [each.start for each in drawable], [each.end for each in drawable]
        places = self.last - length + 1
        # How many stretches a splice meets changes only where its end enters one or its beginning leaves one.
        turns = sorted({1, *(place for each in self.stretches for place in (each.start - length + 2, each.end + 1)
                             if 1 < place <= places)})
        for first, following in zip(turns, [*turns[1:], places + 1], strict=True):
            begun, over = bisect_right(starts, first + length - 2), bisect_left(ends, first)
            sure = self.always is not None and self.always.start <= first + length - 2 and self.always.end >= first
            yield following - first, 1.0 if sure else self._chances[begun - over]

    def facts(self, splice: int) -> dict[str, Any]:
        """For the answer: what was taken again, and with which probability that finds a splice of which length."""
        return {
            "steps": self.last, "replayed": self.replayed, "stretches": len(self.stretches),
            "drawn": len(self.drawn), "not_replayed": self.not_replayed(), "splice": splice,
            "found": self.detection_probability(splice), "found_on_average": self.mean_detection_probability(splice),
            "joint": self.joint,
            "shortest": [{"probability": level, "steps": _or_absent(self.shortest(level))} for level in LEVELS]}


def _or_absent(value: int | None) -> Any:
    return {"absent": "no length is found with it"} if value is None else value
