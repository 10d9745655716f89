"""Where the reasoning of a completion first goes wrong, in the completion's own characters and lines."""

from dataclasses import dataclass

from workings.scoring.form import reasoning_text
from workings.scoring.steps import first_wrong_step


@dataclass(frozen=True, slots=True)
class WrongPlace:
    """The first equation that does not hold."""

    start: int
    """Where it begins in the completion, in characters."""
    end: int
    """Behind its last character."""
    line: int
    """Of the lines of the reasoning that are not blank, the one in which it stands; from 1."""
    lines: int
    """Such lines in all."""
    written: str
    expected: str
    """What would be right there, such as `18`."""

    def text(self) -> str:
        """For people."""
        return f"first wrong step, line {self.line} of {self.lines}: {self.written} (right is {self.expected})"

    def to_json(self) -> dict[str, int | str]:
        """All of it."""
        return {name: getattr(self, name) for name in self.__slots__}


def wrong_place(completion: str) -> WrongPlace | None:
    """The first wrong step of a completion's reasoning; None where every equation that can be read holds."""
    reasoning = reasoning_text(completion)
    equation = first_wrong_step(reasoning)
    if equation is None:
        return None
    # The reasoning is a stretch of the completion, and it begins where that stretch first stands.
    offset = completion.find(reasoning)
    before = reasoning[:reasoning.rfind("\n", 0, equation.start) + 1]
    line = 1 + sum(bool(each.strip()) for each in before.splitlines())
    lines = sum(bool(each.strip()) for each in reasoning.splitlines())
    return WrongPlace(offset + equation.start, offset + equation.end, line, lines, equation.written, equation.expected)
