"""The first wrong equation of a completion, and how many items of an evaluation go wrong in which line."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from workings.data.equations.check import Equation
from workings.evaluation.predictions import read_predictions
from workings.evaluation.unit import EvaluationRecord
from workings.record.layout import PREDICTIONS
from workings.scoring.form import checked_equations, reasoning_text

RIGHT, NOT_FOUND, UNSCORED = "right, no wrong equation", "wrong, no wrong equation", "could not be scored"
_WRONG_FROM = (*(f"wrong from line {line} on" for line in range(1, 6)), "wrong from line 6+")
WRONG_STEP_KINDS = ("right, a wrong equation", *_WRONG_FROM)
"""Kinds of items with a wrong equation: those with a right answer, then the others by its line."""
KINDS = (RIGHT, *WRONG_STEP_KINDS, NOT_FOUND, UNSCORED)
"""All kinds of items, in the order in which they are shown."""


def first_wrong_step(text: str) -> Equation | None:
    """The first equation of a text that is certainly wrong, or None. See docs/evaluation.md.

    >>> first_wrong_step("7+5=12, carry 1; 4+2+1=8").written
    '4+2+1=8'
    """
    return next((equation for equation in checked_equations(text)
                 if equation.verdict == "wrong" and not equation.doubt), None)


@dataclass(frozen=True, slots=True)
class WrongPlace:
    """The place of the first wrong equation of a completion."""

    start: int
    """Index of its first character in the completion."""
    end: int
    """Index after its last character."""
    line: int
    """Its line, from 1; blank lines of the reasoning do not count."""
    lines: int
    """Lines of the reasoning that are not blank."""
    written: str
    expected: str
    """The correct value, such as `18`."""

    def text(self) -> str:
        """For humans."""
        return f"first wrong equation, line {self.line} of {self.lines}: {self.written} (correct: {self.expected})"


def wrong_place(completion: str) -> WrongPlace | None:
    """The place of the first wrong equation of a completion's reasoning, or None."""
    reasoning = reasoning_text(completion)
    equation = first_wrong_step(reasoning)
    if equation is None:
        return None
    offset = completion.find(reasoning)
    line_start = reasoning.rfind("\n", 0, equation.start) + 1  # 0 in the first line, which has no newline before it
    return WrongPlace(start=offset + equation.start, end=offset + equation.end,
                      line=1 + _count_lines(reasoning[:line_start]), lines=_count_lines(reasoning),
                      written=equation.written, expected=equation.expected)


def _count_lines(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def kind_of_item(sample: dict[str, Any]) -> str:
    """The kind of a prediction: by its score and the line of the first wrong equation."""
    if "error" in sample or not isinstance(sample["completion"], str):
        return UNSCORED
    is_right = sample["score"] == 1
    wrong_step = wrong_place(sample["completion"])
    if wrong_step is None:
        return RIGHT if is_right else NOT_FOUND
    if is_right:
        return WRONG_STEP_KINDS[0]
    return _WRONG_FROM[min(wrong_step.line, len(_WRONG_FROM)) - 1]


def count_first_wrong_steps(record: EvaluationRecord) -> dict[str, int]:
    """Kind -> its items in a sealed evaluation, by their first samples; in the order of `KINDS`, without zeros.

    Raises as `read_predictions`.
    """
    counts = Counter(kind_of_item(samples[0]) for samples in read_predictions(record.path / PREDICTIONS))
    return {kind: counts[kind] for kind in KINDS if kind in counts}
