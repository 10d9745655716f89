"""The checks: their table `checks.toml`, the functions that make them, and short ways to say what one found.

A check is made of functions, each a generator of findings about one unit or about the whole record. An id is given once
and for ever: published answers name checks by it.
"""

import tomllib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, Literal

from workings.errors import RecordError
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding, CheckVerdict
from workings.plugins import our_names
from workings.record.canonical import line
from workings.record.storage import TooLarge

MAX_SHOWN = 5
"""Names that a text lists before it only counts."""
ENGINES = "workings.engines"
"""Group of the entry points of engines."""
RecordCheck = Callable[[Record], Iterator[CheckFinding]]
Found = Generator[str | CheckFinding, None, str | CheckFinding | None]
"""What a function finds in a unit. It yields problems, as texts, and further findings. What it returns counts if there
is no problem: why the check passed, another finding, or None."""
UnitCheck = Callable[[Unit], Found]
Units = Literal["units", "runs", "packs", "evaluations", "measurements", "samples"]
"""Units of a record, by the name of its attribute."""
Precondition = Callable[[Unit], CheckFinding | None]
"""None, or the finding that takes the place of the check's own: why it is not checked."""


@dataclass(frozen=True, kw_only=True)
class RegisteredCheck:
    """One check: a row of `checks.toml`, and the functions that make it."""

    id: str
    level: int
    holds: str
    """What is true if it passes, as a sentence."""
    catches: str
    """A fake, or a leak, that it finds."""
    unless_failed: str = ""
    """Why it is not made, and last of its level, where another check has failed; empty: it is made all the same."""
    whole: bool = False
    """Whether it also compares why a value is absent."""
    functions: list[RecordCheck] = field(default_factory=list)


TABLE: Mapping[str, Any] = tomllib.loads(resources.files(__package__).joinpath("checks.toml").read_text("utf-8"))
"""Contents of `checks.toml`."""
SAID = "said"
"""Key of the table with the fields that no check covers."""
CHECKS = {name: RegisteredCheck(id=name, level=row["level"], holds=row["holds"], catches=row["catches"],
                                unless_failed=row.get("unless_failed", ""), whole=row.get("whole", False))
          for name, row in TABLE.items() if name != SAID}
"""All checks in the order in which they are made."""


def record_check(name: str) -> Callable[[RecordCheck], RecordCheck]:
    """Register a function of the whole record for a check."""
    def register(function: RecordCheck) -> RecordCheck:
        CHECKS[name].functions.append(function)
        return function
    return register


def check(name: str, units: Units = "runs", *, when: Callable[[Unit], bool] = lambda unit: True,
          precondition: Precondition = lambda unit: None) -> Callable[[UnitCheck], UnitCheck]:
    """Register a function that is called for one unit after the other.

    Args:
        name: id of the check.
        units: which units it may be made for.
        when: whether the check applies to a unit.
        precondition: the finding that takes its place for a unit, or None.
    """
    def register(function: UnitCheck) -> UnitCheck:
        def find(unit: Unit) -> Found:
            if not when(unit):
                return None
            finding = precondition(unit)
            return (yield from function(unit)) if finding is None else finding

        record_check(name)(lambda record: for_each_unit(getattr(record, units), find))
        return function
    return register


def for_each_unit(units: Iterable[Unit], find: UnitCheck) -> Iterator[CheckFinding]:
    """Findings unit by unit; an unreadable unit fails, and the next one follows."""
    for unit in units:
        try:
            for finding in _findings(find(unit)):
                yield replace(finding, unit=unit.title)
        # Before its base class `RecordError`: too large is not wrong.
        except TooLarge as error:
            yield not_checked(str(error), unit)
        # The generator is consumed inside this block, so an error in the middle of a unit's findings is caught as well.
        except RecordError as error:
            yield CheckFinding(verdict=CheckVerdict.FAILED, text=str(error), unit=unit.title, unreadable=True)


def _findings(found: Found) -> Iterator[CheckFinding]:
    problems: list[str] = []
    while True:
        try:
            each = next(found)
        except StopIteration as end:
            result = failed(join_first(problems)) if problems else end.value
            if result is not None:
                yield passed(result) if isinstance(result, str) else result
            return
        if isinstance(each, str):
            problems.append(each)
        else:
            yield each


def only_if_written_by_train(unit: Unit) -> CheckFinding | None:
    """Precondition of checks that need more than the recorder writes."""
    return None if unit.written_by_train else not_checked("not written by `workings train`", blocking=False)


def learns_from(examples: str) -> Callable[[Unit], bool]:
    """A function that says whether a run's way of learning has examples of this kind."""
    return lambda unit: unit.algorithm.examples == examples


def records(name: str) -> Callable[[Unit], bool]:
    """A function that says whether a run's way of learning records this file or folder."""
    return lambda unit: name in unit.algorithm.records


def is_our_engine(name: str) -> bool:
    """Whether an engine of this name comes with this package."""
    return name in our_names(ENGINES)


def passed(text: str, unit: Unit | None = None) -> CheckFinding:
    """A finding: it holds."""
    return CheckFinding(verdict=CheckVerdict.PASSED, text=text, unit=unit.title if unit else "")


def failed(text: str) -> CheckFinding:
    """A finding: it does not hold."""
    return CheckFinding(verdict=CheckVerdict.FAILED, text=text)


def not_checked(text: str, unit: Unit | None = None, *, blocking: bool = True) -> CheckFinding:
    """A finding: it could not be checked."""
    return CheckFinding(verdict=CheckVerdict.NOT_CHECKED, text=text, unit=unit.title if unit else "", blocking=blocking)


def differing(pairs: Iterable[tuple[str, Any, Any]], source: str) -> Iterator[str]:
    """A problem for each name whose recorded value is another JSON value than the expected one.

    Args:
        pairs: name, recorded and expected value.
        source: what the expected values come from.
    """
    for name, recorded, expected in pairs:
        if not same_json(recorded, expected):
            yield f"{name} is {str(recorded)[:60]!r}, {source} {str(expected)[:60]!r}"


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: `True == 1` in Python, and in a record they are two values."""
    # Canonical text distinguishes 1, 1.0 and true, and orders keys.
    return line(one) == line(other)


def join_first(texts: list[str]) -> str:
    """The first of many texts, and how many more there are."""
    more = f"; and {len(texts) - MAX_SHOWN} more" if len(texts) > MAX_SHOWN else ""
    return "; ".join(texts[:MAX_SHOWN]) + more
