"""The checks: their table `checks.toml`, the functions that make them, and short ways to say what one found.

A check is made of functions, each a generator of findings about one unit or about the whole record. An id is given once
and for ever: published answers name checks by it.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from importlib import resources
from importlib.metadata import version
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.result import CheckFinding, CheckVerdict
from workings.plugins import our_names
from workings.record.canonical import line
from workings.record.untrusted_files import TooLarge
from workings.record.values import is_absent

MAX_SHOWN = 5
"""Names that a text lists before it only counts."""
ENGINES = "workings.engines"
"""Group of the entry points of engines."""
RecordCheck = Callable[[Record], Iterator[CheckFinding]]
UnitCheck = Callable[[Unit], Iterator[CheckFinding]]
UnitSelector = Callable[[Record], Iterable[Unit]]
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

    @property
    def compares(self) -> str:
        """What it compares: the docstrings of its functions."""
        return " ".join(" ".join((function.__doc__ or "").split()) for function in self.functions)


def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("checks.toml").read_text(encoding="utf-8"))


TABLE: Mapping[str, Any] = _table()
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


def every_run(record: Record) -> Iterable[Unit]:
    """Training runs."""
    return record.runs


def check(name: str, units: UnitSelector = every_run, *, when: Callable[[Unit], bool] = lambda unit: True,
          precondition: Precondition = lambda unit: None) -> Callable[[UnitCheck], UnitCheck]:
    """Register a function that is called for one unit after the other.

    Args:
        name: id of the check.
        units: which units it may be made for.
        when: whether the check applies to a unit.
        precondition: the finding that takes its place for a unit, or None.
    """
    def register(function: UnitCheck) -> UnitCheck:
        def find_in_unit(unit: Unit) -> Iterator[CheckFinding]:
            if not when(unit):
                return
            if (finding := precondition(unit)) is not None:
                yield finding
            else:
                yield from function(unit)

        # The reference of checks is generated from the docstring.
        @wraps(function)
        def find(record: Record) -> Iterator[CheckFinding]:
            return for_each_unit(units(record), find_in_unit)

        record_check(name)(find)
        return function
    return register


def for_each_unit(units: Iterable[Unit], find: UnitCheck) -> Iterator[CheckFinding]:
    """Findings unit by unit; an unreadable unit fails, and the next one follows."""
    for unit in units:
        try:
            yield from find(unit)
        # Before its base class `RecordError`: too large is not wrong.
        except TooLarge as error:
            yield not_checked(str(error), unit)
        # The generator is consumed inside this block, so an error in the middle of a unit's findings is caught as well.
        except RecordError as error:
            yield failed(str(error), unit, unreadable=True)


def every_unit(record: Record) -> Iterable[Unit]:
    """All units."""
    return record.units


def every_evaluation(record: Record) -> Iterable[Unit]:
    """Evaluations and units of samples."""
    return record.evaluations


def every_pack(record: Record) -> Iterable[Unit]:
    """Packs."""
    return record.packs


def only_if_written_by_train(unit: Unit) -> CheckFinding | None:
    """Precondition of checks that need more than the recorder writes."""
    return None if unit.written_by_train else not_checked("not written by `workings train`", unit, blocking=False)


def written_by_this_version(unit: Unit) -> bool:
    """Whether this version's `workings train` wrote a run, so that its views can be regenerated."""
    return unit.written_by_train and unit.manifest.workings_version == version("workings")


def is_our_engine(name: str) -> bool:
    """Whether an engine of this name comes with this package."""
    return name in our_names(ENGINES)


def passed(text: str, unit: Unit | None = None) -> CheckFinding:
    """A finding: it holds."""
    return CheckFinding(verdict=CheckVerdict.PASSED, text=text, unit=unit.title if unit else "")


def failed(text: str, unit: Unit | None = None, *, unreadable: bool = False) -> CheckFinding:
    """A finding: it does not hold; ``unreadable``: because its subject is damaged."""
    return CheckFinding(verdict=CheckVerdict.FAILED, text=text, unit=unit.title if unit else "", unreadable=unreadable)


def not_checked(text: str, unit: Unit | None = None, *, blocking: bool = True) -> CheckFinding:
    """A finding: it could not be checked."""
    return CheckFinding(verdict=CheckVerdict.NOT_CHECKED, text=text, unit=unit.title if unit else "", blocking=blocking)


def finding_from(problems: Iterable[str], good: str, unit: Unit | None = None) -> CheckFinding:
    """Passed with the text ``good`` without problems, else failed with the first ones."""
    found = list(problems)
    return failed(join_first(found), unit) if found else passed(good, unit)


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


def section_of(value: dict[str, Any], key: str) -> dict[str, Any]:
    """A section of a JSON object; empty if it is missing or absent."""
    section = value.get(key)
    return section if isinstance(section, dict) and not is_absent(section) else {}


def join_first(texts: list[str]) -> str:
    """The first of many texts, and how many more there are."""
    more = f"; and {len(texts) - MAX_SHOWN} more" if len(texts) > MAX_SHOWN else ""
    return "; ".join(texts[:MAX_SHOWN]) + more
