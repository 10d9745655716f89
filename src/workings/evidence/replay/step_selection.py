"""Selection of the steps of a run that are recomputed, and the probability that this detects tampered steps.

A step can only be recomputed from a stored state: the first weights, or a checkpoint. So whole *ranges* are selected:
the steps from one stored state to the next, or the first few of them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workings.evidence.replay.coverage import choose_numbers, probability_above

LEVELS = (0.5, 0.95, 0.99)
"""Probabilities for which the answer names the shortest tampered part that is detected with them."""


@dataclass(frozen=True, kw_only=True)
class StepRange:
    """Steps that are recomputed one after the other from a stored state."""

    start: int
    """Step of that state; 0: the first weights."""
    end: int
    """Last step that is recomputed."""


@dataclass(frozen=True, kw_only=True)
class StepSelection:
    """Ranges of a run, and the recomputed ones."""

    ranges: tuple[StepRange, ...]
    """All ranges that could be selected, by their start."""
    selected: tuple[StepRange, ...]
    required: StepRange | None
    """A range that every seed selects: the last one, from whose checkpoint the scores come."""
    ends_at_states: bool
    """Whether each range ends at the next stored state, whose weights are compared."""
    step_count: int
    """Steps of the run."""

    @classmethod
    def for_step_count(cls, states: Sequence[int], step_count: int, steps: int, seed: int) -> "StepSelection":
        """A few steps after one state that the seed selects.

        Args:
            states: steps of the stored states that have recorded steps after them, in order.
            step_count: steps of the run.
            steps: how many are recomputed.
            seed: the verifier's.
        """
        # A single step says nothing about the learning rate, so the state before the last step is not selected.
        starts = [state for state in states if step_count - state > 1] or list(states)
        ranges = tuple(StepRange(start=start, end=min(step_count, start + steps)) for start in starts)
        # By the seed only, so that a repeated replay takes the same steps.
        number, = choose_numbers(seed, "steps", len(ranges), 1)
        return cls(ranges=ranges, selected=(ranges[number],), required=None, ends_at_states=False,
                   step_count=step_count)

    @classmethod
    def for_confidence(cls, states: Sequence[int], step_count: int, *, longest: int | None, tampered_steps: int,
                       confidence: float, seed: int) -> "StepSelection":
        """The fewest whole ranges that detect this number of tampered steps with this probability, or all.

        Args:
            states: as for `for_step_count`.
            step_count: steps of the run.
            longest: steps after a state that have a tolerance; None: any number.
            tampered_steps: steps in a row that are wrong.
            confidence: probability over the seeds, wherever the tampered steps are.
            seed: the verifier's.
        """
        # A range ends where the next stored state begins: its weights can be compared there.
        ends = [*states[1:], step_count]
        ranges = tuple(StepRange(start=start, end=end if longest is None else min(end, start + longest))
                       for start, end in zip(states, ends, strict=True))
        ends_at_states = all(step_range.end == end for step_range, end in zip(ranges, ends, strict=True))
        # The last range is always taken: the published scores come from its end.
        others = len(ranges) - 1

        def select(count: int) -> StepSelection:
            # The numbers for a count are a part of those for a larger one, so a search over counts is consistent.
            numbers = [*choose_numbers(seed, "stretches", others, count), others]
            return cls(ranges=ranges, selected=tuple(ranges[number] for number in numbers), required=ranges[-1],
                       ends_at_states=ends_at_states, step_count=step_count)

        # More ranges never detect less, so the first number that is enough can be searched for; else all are selected.
        return select(bisect_left(range(others), True,
                                  key=lambda count: select(count).detection_probability(tampered_steps) >= confidence))

    @property
    def replayed(self) -> int:
        """Steps that are recomputed."""
        return sum(step_range.end - step_range.start for step_range in self.selected)

    def detection_probability(self, length: int) -> float:
        """Probability that one of this number of consecutive tampered steps is recomputed, at their worst position."""
        return min(probability for _, probability in self._probabilities_by_position(length))

    def mean_detection_probability(self, length: int) -> float:
        """Mean of the probability over all positions of the tampered steps."""
        total = sum(count * probability for count, probability in self._probabilities_by_position(length))
        # That many positions can a part of this length begin at.
        return total / (self.step_count - length + 1)

    @property
    def joint(self) -> float:
        """Probability of detecting the position where the steps of another run of the same recipe begin.

        Those steps follow from each other: only the range in which they begin is wrong, from there to its end.
        """
        if not self.ends_at_states:
            return 0.0
        others = len(self._optional)
        return len(self._selected_optional) / others if others else 1.0

    def shortest(self, confidence: float) -> int | None:
        """The fewest tampered steps in a row that are always detected with this probability; None: no number is."""
        # If a run that is wrong from end to end is not found, no shorter part is.
        if self.detection_probability(self.step_count) < confidence:
            return None
        # By halves: a longer part overlaps at least the ranges that a shorter one in it overlaps.
        return 1 + bisect_left(range(1, self.step_count), True,
                               key=lambda length: self.detection_probability(length) >= confidence)

    def not_replayed(self) -> list[list[int]]:
        """First and last step of each part of the run that is not recomputed."""
        parts, next_step = [], 1
        for step_range in self.selected:
            if step_range.start + 1 > next_step:
                parts.append([next_step, step_range.start])
            # Ranges may overlap where each takes a fixed number of steps.
            next_step = max(next_step, step_range.end + 1)
        return parts + ([[next_step, self.step_count]] if next_step <= self.step_count else [])

    @property
    def _optional(self) -> list[StepRange]:
        return [step_range for step_range in self.ranges if step_range != self.required]

    @property
    def _selected_optional(self) -> list[StepRange]:
        return [step_range for step_range in self.selected if step_range != self.required]

    @cached_property
    def _probability_by_wrong_ranges(self) -> list[float]:
        """Probability that one of n wrong optional ranges is selected, by n."""
        population, drawn = len(self._optional), len(self._selected_optional)
        return [probability_above(0, population=population, wrong=wrong, drawn=drawn)
                for wrong in range(population + 1)]

    def _probabilities_by_position(self, length: int) -> Iterator[tuple[int, float]]:
        """Number of first steps of a tampered part, with the probability that it is detected there."""
        starts = [step_range.start for step_range in self._optional]
        ends = [step_range.end for step_range in self._optional]
        positions = self.step_count - length + 1
        # The number of ranges that a part overlaps changes only where its end enters one or its beginning leaves one.
        changes = sorted({1, *(position for step_range in self.ranges
                               for position in (step_range.start - length + 2, step_range.end + 1)
                               if 1 < position <= positions)})
        for first, following in zip(changes, [*changes[1:], positions + 1], strict=True):
            begun, over = bisect_right(starts, first + length - 2), bisect_left(ends, first)
            sure = (self.required is not None and self.required.start <= first + length - 2
                    and self.required.end >= first)
            yield following - first, 1.0 if sure else self._probability_by_wrong_ranges[begun - over]

    def to_json(self, tampered_steps: int) -> dict[str, Any]:
        """For the answer: the recomputed parts, and detection probabilities by number of tampered steps."""
        return {
            "steps": self.step_count, "replayed": self.replayed, "stretches": len(self.ranges),
            "drawn": len(self.selected), "not_replayed": self.not_replayed(), "splice": tampered_steps,
            "found": self.detection_probability(tampered_steps),
            "found_on_average": self.mean_detection_probability(tampered_steps), "joint": self.joint,
            "shortest": [{"probability": level, "steps": _or_absent(self.shortest(level))} for level in LEVELS]}


def _or_absent(value: int | None) -> Any:
    return {"absent": "no length is found with it"} if value is None else value
