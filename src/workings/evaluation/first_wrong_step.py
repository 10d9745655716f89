"""The first wrong equation of a completion, and the items of an evaluation by its line."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from workings.data.equations.check import Equation
from workings.evaluation.predictions import read_predictions
from workings.evaluation.unit import EvaluationRecord
from workings.record.layout import PREDICTIONS
from workings.scoring.form import checked_equations, reasoning_text

RIGHT, NOT_FOUND, UNSCORED = "right, no wrong equation", "wrong, no wrong equation", "could not be scored"
WRONG_STEP_KINDS = ("right, a wrong equation", *(f"wrong from line {line} on" for line in range(1, 6)),
                    "wrong from line 6+")
"""Kinds with a step that is wrong; of wrong answers the index is the number of the line."""
KINDS = (RIGHT, *WRONG_STEP_KINDS, NOT_FOUND, UNSCORED)
"""All kinds of items, in the order in which they are shown."""


def first_wrong_step(text: str) -> Equation | None:
    """The first definitely wrong equation of a text, or None.

    It is arithmetic, and mostly but not always where a solution goes wrong: see docs/evaluation.md.

    >>> first_wrong_step("7+5=12, carry 1; 4+2+1=8").written
    '4+2+1=8'
    """
    return next((equation for equation in checked_equations(text)
                 if equation.verdict == "wrong" and not equation.doubt), None)


@dataclass(frozen=True, slots=True)
class WrongPlace:
    """The first equation that does not hold."""

    start: int
    """Its start in the completion, in characters."""
    end: int
    """After its last character."""
    line: int
    """Of the lines of the reasoning that are not blank, the one in which it is; from 1."""
    lines: int
    """Such lines in all."""
    written: str
    expected: str
    """The correct value, such as `18`."""

    def text(self) -> str:
        """For humans."""
        return f"first wrong equation, line {self.line} of {self.lines}: {self.written} (correct: {self.expected})"


def wrong_place(completion: str) -> WrongPlace | None:
    """The first wrong equation of a completion's reasoning; None where every equation that can be read holds."""
    reasoning = reasoning_text(completion)
    equation = first_wrong_step(reasoning)
    if equation is None:
        return None
    def lines(text: str) -> int:
        return sum(bool(line.strip()) for line in text.splitlines())

    offset = completion.find(reasoning)
    line = 1 + lines(reasoning[:reasoning.rfind("\n", 0, equation.start) + 1])
    return WrongPlace(offset + equation.start, offset + equation.end, line, lines(reasoning), equation.written,
                      equation.expected)


@dataclass(frozen=True, kw_only=True)
class FirstWrongSteps:
    """An evaluation's items by kind, by the first sample of each."""

    kinds: dict[str, int]
    """Counts, in table order."""


def kind_of_item(sample: dict[str, Any]) -> str:
    """The kind of a prediction: by its score and the line of the first wrong equation."""
    if "error" in sample or not isinstance(sample["completion"], str):
        return UNSCORED
    return kind_of_text(sample["completion"], right=sample["score"] == 1)


def kind_of_text(completion: str, *, right: bool) -> str:
    """The kind of a completion that was scored."""
    wrong_step = wrong_place(completion)
    if wrong_step is None:
        return RIGHT if right else NOT_FOUND
    return WRONG_STEP_KINDS[0 if right else min(wrong_step.line, len(WRONG_STEP_KINDS) - 1)]


def count_first_wrong_steps(record: EvaluationRecord) -> FirstWrongSteps:
    """Count the items of a sealed evaluation. Raises `RecordError` for unreadable predictions."""
    return first_wrong_steps_of(samples[0] for samples in read_predictions(record.path / PREDICTIONS))


def first_wrong_steps_of(samples: Iterable[dict[str, Any]]) -> FirstWrongSteps:
    """Count items, one sample each."""
    counts = Counter(map(kind_of_item, samples))
    return FirstWrongSteps(kinds={kind: counts[kind] for kind in KINDS if kind in counts})
