"""The checks by id, and short ways to say what one found.

A check is a generator of findings about a record; an id is given once and for ever.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding, CheckVerdict
from workings.record.canonical import line
from workings.record.plain import TooLarge

SHOWN = 5
"""Names that a text lists before it only counts."""
CheckFunction = Callable[[Record], Iterator[CheckFinding]]


@dataclass(frozen=True, kw_only=True)
class RegisteredCheck:
    """One check and where it stands."""

    id: str
    level: int
    title: str
    """What holds if it passes, as a sentence."""
    find: CheckFunction
    example: str = ""
    """A lie, or a leak, that it catches."""
    unless_failed: str = ""
    """Why it is not made, and last of its level, where another check has failed; empty: it is made all the same."""

    @property
    def compares(self) -> str:
        """What is held against what: the docstring of the function that does it."""
        return " ".join((self.find.__doc__ or "").split())


CHECKS: dict[str, RegisteredCheck] = {}
"""All checks in the order in which they run."""


def check(name: str, *, level: int, title: str, example: str = "",
          unless_failed: str = "") -> Callable[[CheckFunction], CheckFunction]:
    """Register a check. Raises ``ValueError`` for an id that is taken."""
    def register(function: CheckFunction) -> CheckFunction:
        # Published answers name checks by id: a second check under one id would change what old answers mean.
        if name in CHECKS:
            raise ValueError(f"check {name!r} is registered twice: by {CHECKS[name].find.__module__} and "
                             f"{function.__module__}")
        CHECKS[name] = RegisteredCheck(id=name, level=level, title=title, find=function, example=example,
                                       unless_failed=unless_failed)
        return function
    return register


def passed(text: str, unit: Unit | None = None) -> CheckFinding:
    """It holds."""
    return CheckFinding(verdict=CheckVerdict.PASSED, text=text, unit=unit.title if unit else "")


def failed(text: str, unit: Unit | None = None, *, unreadable: bool = False) -> CheckFinding:
    """It does not hold; ``unreadable``: because what it is about is damaged."""
    return CheckFinding(verdict=CheckVerdict.FAILED, text=text, unit=unit.title if unit else "", unreadable=unreadable)


def not_checked(text: str, unit: Unit | None = None, *, blocking: bool = True) -> CheckFinding:
    """It could not be looked at."""
    return CheckFinding(verdict=CheckVerdict.NOT_CHECKED, text=text, unit=unit.title if unit else "", blocking=blocking)


def judged(problems: list[str], good: str, unit: Unit | None = None) -> CheckFinding:
    """Passed with ``good``, or failed with the problems."""
    return failed(several(problems), unit) if problems else passed(good, unit)


def alike(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: `True == 1` in Python, and in a record they are two values."""
    return line(one) == line(other)


def several(texts: list[str]) -> str:
    """A few of many texts, and how many more there are."""
    more = f"; and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return "; ".join(texts[:SHOWN]) + more


def each(units: list[Unit], find: Callable[[Unit], Iterator[CheckFinding]]) -> Iterator[CheckFinding]:
    """A check made for one unit after the other; a unit that cannot be read fails and the next one is looked at."""
    for unit in units:
        try:
            yield from find(unit)
        except TooLarge as error:
            yield not_checked(str(error), unit)
        # The generator is consumed inside this block, so an error in the middle of a unit's findings is caught here as
        # well.
        except RecordError as error:
            yield failed(str(error), unit, unreadable=True)


def each_run(record: Record, find: Callable[[Unit], Iterator[CheckFinding]]) -> Iterator[CheckFinding]:
    """`each` over the training runs."""
    return each(record.runs, find)
