"""The checks: their table `checks.toml`, the functions that make them, and short ways to say what one found.

A check has functions, each a generator of findings about one unit or about the whole record. For example:

    @check("consistency.steps")
    def steps(run: Unit) -> Found:
        if not run.steps:
            yield "no step"                      # a problem: the check fails
        return f"{len(run.steps)} steps"         # why it passed
"""

import math
import tomllib
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from typing import Any, TypeGuard, TypeVar

from workings.errors import RecordError
from workings.evidence.verify.limits import MALFORMED, said
from workings.evidence.verify.record import Record, Unit, field_of
from workings.evidence.verify.result import CheckFinding, CheckVerdict, NotChecked
from workings.plugins import our_names
from workings.record.canonical import line
from workings.record.storage import TooLarge

MAX_SHOWN = 5
Found = Generator[str | CheckFinding, None, str | CheckFinding | None]
"""What a function yields: problems, as texts, and other findings. What it returns counts only if there is no problem:
why the check passed, another finding, or None."""
_Function = TypeVar("_Function", bound=Callable[[Any], Found])


@dataclass(frozen=True, kw_only=True)
class RegisteredCheck:
    """One check: a row of `checks.toml`, and the functions that make it."""

    id: str
    level: int
    holds: str
    """What is true if it passes, as a sentence."""
    catches: str
    """A lie, or a leak, that it finds."""
    whole: bool = False
    """Whether it also compares why a value is absent."""
    functions: list[Callable[[Record], Iterator[CheckFinding]]] = field(default_factory=list)


TABLE: Mapping[str, Any] = tomllib.loads(resources.files(__package__).joinpath("checks.toml").read_text("utf-8"))
SAID = "said"
"""Key of the table with the fields that no check covers."""
CHECKS = {name: RegisteredCheck(id=name, level=row["level"], holds=row["holds"], catches=row["catches"],
                                whole=row.get("whole", False)) for name, row in TABLE.items() if name != SAID}
"""All checks in the order in which they are made."""


def check(name: str, subject: str = "runs", *,
          when: Callable[[Unit], bool] = lambda unit: True) -> Callable[[_Function], _Function]:
    """Register a function of the check ``name``.

    ``subject``: `record`, or the kind of units that it is about, a key of `SUBJECTS`; ``when``: for which of them.
    """
    def register(function: _Function) -> _Function:
        def of_record(record: Record) -> Iterator[CheckFinding]:
            if subject == "record":
                yield from findings(function(record))
            else:
                for unit in record.units_of(subject):
                    yield from (replace(each, unit=unit.title) for each in findings(_of_unit(function, unit, when)))

        CHECKS[name].functions.append(of_record)
        return function
    return register


def _of_unit(function: Callable[[Unit], Found], unit: Unit, when: Callable[[Unit], bool]) -> Found:
    """What a function finds in a unit; nothing if it is not for this unit. A generator, so that ``when`` may fail."""
    return (yield from function(unit)) if when(unit) else None


passed, failed, not_checked = (partial(CheckFinding, verdict) for verdict in (
    CheckVerdict.PASSED, CheckVerdict.FAILED, CheckVerdict.NOT_CHECKED))


def findings(found: Found) -> Iterator[CheckFinding]:
    """What a function found: its findings, then one for all its problems, or why it passed or could not be made."""
    problems: list[str] = []
    try:
        while True:
            finding = next(found)
            if isinstance(finding, str):
                problems.append(finding)
            else:
                yield finding
    except StopIteration as end:
        result = failed(join_first(problems)) if problems else end.value
        if result is not None:
            yield passed(result) if isinstance(result, str) else result
    except NotChecked as error:
        yield failed(join_first(problems)) if problems else not_checked(str(error), blocking=error.blocking)
    except TooLarge as error:
        yield not_checked(str(error))
    except (RecordError, *MALFORMED) as error:
        damaged = isinstance(error, RecordError)
        text = str(error) if damaged else f"the record does not have the form that this check reads ({said(error)})"
        yield replace(failed(join_first([*problems, text])), unreadable=damaged and not problems)


def learns_from(examples: str) -> Callable[[Unit], bool]:
    """A function that says whether a run's way of learning has examples of this kind."""
    return lambda unit: unit.algorithm.examples == examples


def records(name: str) -> Callable[[Unit], bool]:
    """A function that says whether a run's way of learning records this file or folder."""
    return lambda unit: name in unit.algorithm.records


def is_our_engine(name: Any) -> bool:
    """Whether an engine of this name comes with this package."""
    return name in our_names("workings.engines")


def require_train(run: Unit) -> None:
    """For checks that need more than the recorder writes. Raises `NotChecked`."""
    if not run.written_by_train:
        raise NotChecked("not written by `workings train`", blocking=False)


def contradictions(place: str, value: Any, expected: Mapping[str, Any], source: str) -> Iterator[str]:
    """Problems of a value, such as `eval_config.json: model.step is '4', the run's is '8'`, one for each wrong field.

    ``place`` and ``source`` are the words around the field; ``expected``: JSON values by dotted keys.
    """
    for name, wanted in expected.items():
        if not same_json(found := field_of(value, name), wanted):
            yield f"{place}: {name} is {str(found)[:60]!r}, {source} {str(wanted)[:60]!r}"


def differences(recorded: Any, expected: Any, path: str = "$", *, common: bool = False) -> Iterator[str]:
    """Differences of two JSON values; floats may differ in the last bits (another machine's library).

    ``common``: keys that are on one side only are no difference.
    """
    if isinstance(recorded, dict) and isinstance(expected, dict):
        yield from (f"{path}.{key[:60]} is on one side only" for key in sorted(recorded.keys() ^ expected.keys())
                    if not common)
        for key in sorted(recorded.keys() & expected.keys()):
            yield from differences(recorded[key], expected[key], f"{path}.{key[:60]}", common=common)
    elif isinstance(recorded, list) and isinstance(expected, list) and len(recorded) == len(expected):
        for index, (before, after) in enumerate(zip(recorded, expected, strict=True)):
            yield from differences(before, after, f"{path}[{index}]", common=common)
    elif is_number(recorded) and is_number(expected) and math.isclose(recorded, expected, rel_tol=1e-12, abs_tol=1e-15):
        return
    elif not same_json(recorded, expected):
        yield f"{path} is {str(recorded)[:40]!r}, expected {str(expected)[:40]!r}"


def same_json(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: `True == 1` in Python, and in a record they are two values."""
    return line(one) == line(other)


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a JSON value is a number, and finite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def join_first(texts: list[str]) -> str:
    """The first of many texts, and how many more there are."""
    more = f"; and {len(texts) - MAX_SHOWN} more" if len(texts) > MAX_SHOWN else ""
    return "; ".join(texts[:MAX_SHOWN]) + more
