"""Step validity: how much of a completion's arithmetic is correct, and where it first goes wrong."""

from dataclasses import dataclass

from workings.data.equations.check import Equation, find_equations
from workings.scoring.form import reasoning_text

STEPS_VERSION = 2
"""Increased with every change of the checker; step validity of different versions is not comparable."""
MAX_CHARACTERS = 100_000
"""Maximum characters of a completion to check."""
FIRST_CHARACTERS = 30_000
"""Of the reasoning, in which its first wrong equation is looked for: a page does so in every completion it shows."""
# Wrong equations are kept with every completion of an evaluation, so a few must do.
MAX_SHOWN = 5


@dataclass(frozen=True, slots=True)
class StepCheck:
    """How many equations were worked out and how many hold; the first few that do not, as written."""

    checked: int
    valid: int
    wrong: tuple[str, ...]


def checked_equations(text: str) -> list[Equation]:
    """The evaluated equations of a text, correct and wrong, in order."""
    return [equation for equation in find_equations(text[:MAX_CHARACTERS]) if equation.verdict != "not read"]


def check_steps(text: str) -> StepCheck:
    """Work out every equation of a text.

    >>> check_steps("7+5=12, carry 1; 4+2+1=8")
    StepCheck(checked=2, valid=1, wrong=('4+2+1=8',))
    """
    equations = checked_equations(text)
    wrong = [equation.written for equation in equations if equation.verdict == "wrong"]
    return StepCheck(len(equations), len(equations) - len(wrong), tuple(wrong[:MAX_SHOWN]))


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

    def to_json(self) -> dict[str, int | str]:
        """All of it."""
        return {name: getattr(self, name) for name in self.__slots__}


def wrong_place(completion: str) -> WrongPlace | None:
    """The first wrong equation of a completion's reasoning; None where every equation that can be read holds.

    Only the first `FIRST_CHARACTERS` of the reasoning are looked through.
    """
    reasoning = reasoning_text(completion)
    begin = reasoning[:FIRST_CHARACTERS]
    # Up to the end of a line, because half of a correct equation may be wrong.
    checked_text = begin if begin == reasoning else begin[:begin.rfind("\n") + 1] or begin
    equation = first_wrong_step(checked_text)
    if equation is None:
        return None
    # The reasoning is a stretch of the completion, and it begins where that stretch first is.
    offset = completion.find(reasoning)
    before = reasoning[:reasoning.rfind("\n", 0, equation.start) + 1]
    line = 1 + sum(bool(line_text.strip()) for line_text in before.splitlines())
    lines = sum(bool(line_text.strip()) for line_text in reasoning.splitlines())
    return WrongPlace(offset + equation.start, offset + equation.end, line, lines, equation.written, equation.expected)
