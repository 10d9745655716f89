"""Explanation of the checks: level, what is compared with what, and an example of a lie that the check finds."""

from difflib import get_close_matches

from workings.errors import RequestError
from workings.evidence.verify.registry import CHECKS, RegisteredCheck
from workings.evidence.verify.run_checks import READABLE

ALL = "all"
LEVELS = ("integrity", "consistency", "scores computed again", "steps taken again")
"""Words for the levels."""


def all_checks() -> tuple[RegisteredCheck, ...]:
    """All checks that an answer can name, by level."""
    return tuple(sorted((READABLE, *CHECKS.values()), key=lambda check: check.level))


def find_checks(name: str) -> tuple[RegisteredCheck, ...]:
    """The check with this id, or all checks for ``all``.

    Raises:
        RequestError: no check has this id; the error names similar ids.
    """
    by_id = {check.id: check for check in all_checks()}
    if name == ALL:
        return tuple(by_id.values())
    if name in by_id:
        return (by_id[name],)
    # Parts of an id before similar ones: "losses" means all ids with that word.
    near = [id_ for id_ in by_id if name and name in id_] or get_close_matches(name, by_id, n=3)
    raise RequestError(f"--explain {name!r}", " or ".join(near) if near else "the id of a check",
                       f"workings verify --explain {near[0] if len(near) == 1 else ALL}")


def text_of(check: RegisteredCheck) -> str:
    """Explanation of a check in four lines."""
    return "\n".join((f"{check.id}: level {check.level}, {LEVELS[check.level]}", f"holds:    {check.title}",
                      f"compares: {check.compares}", f"catches:  {check.example}"))


def text_of_all() -> str:
    """One line for each check."""
    checks = all_checks()
    width = max(len(check.id) for check in checks)
    return "\n".join(f"{check.level}  {check.id:<{width}}  {check.title}" for check in checks)


def to_json(check: RegisteredCheck) -> dict[str, str | int]:
    """Keys of a check in `verify --explain --json`."""
    return {"id": check.id, "level": check.level, "holds": check.title, "compares": check.compares,
            "catches": check.example}
