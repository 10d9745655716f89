"""The checks, by id. A check is a generator of findings about a record; an id is given once and for ever."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workings.evidence.verify.record import Record
from workings.evidence.verify.result import Finding

CheckFunction = Callable[[Record], Iterator[Finding]]


@dataclass(frozen=True, kw_only=True)
class RegisteredCheck:
    """One check and where it stands."""

    id: str
    level: int
    title: str
    """What holds if it passes, as a sentence."""
    find: CheckFunction


CHECKS: dict[str, RegisteredCheck] = {}
"""All checks in the order in which they run."""


def check(name: str, *, level: int, title: str) -> Callable[[CheckFunction], CheckFunction]:
    """Register a check. Raises ``ValueError`` for an id that is taken."""
    def register(function: CheckFunction) -> CheckFunction:
        if name in CHECKS:
            raise ValueError(f"check {name!r} is registered twice: by {CHECKS[name].find.__module__} and "
                             f"{function.__module__}")
        CHECKS[name] = RegisteredCheck(id=name, level=level, title=title, find=function)
        return function
    return register
