"""Step validity: how much of a completion's arithmetic is correct."""

from dataclasses import dataclass

from workings.data.equations.check import Equation, find_equations

STEPS_VERSION = 2
"""Increased with every change of the checker; step validity of different versions is not comparable."""
MAX_CHARACTERS = 100_000
"""Maximum characters of a completion to check."""
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
