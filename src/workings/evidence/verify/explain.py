"""Explanation of the checks: level, what is compared with what, and an example of a fake that the check finds."""

from difflib import get_close_matches

from workings.errors import RequestError
from workings.evidence.verify import run_checks  # noqa: F401  registers the checks' functions
from workings.evidence.verify.registry import CHECKS, RegisteredCheck

ALL = "all"
LEVELS = ("integrity", "consistency", "scores computed again", "recomputed steps")
"""Words for the levels."""


def find_checks(name: str) -> tuple[RegisteredCheck, ...]:
    """The check with this id, or all checks for ``all``.

    Raises:
        RequestError: no check has this id; the error names similar ids.
    """
    if name == ALL:
        return tuple(CHECKS.values())
    if name in CHECKS:
        return (CHECKS[name],)
    # Parts of an id before similar ones: "losses" means all ids with that word.
    near = [id_ for id_ in CHECKS if name and name in id_] or get_close_matches(name, CHECKS, n=3)
    raise RequestError(f"--explain {name!r}", " or ".join(near) if near else "the id of a check",
                       f"workings verify --explain {near[0] if len(near) == 1 else ALL}")


def text_of(check: RegisteredCheck) -> str:
    """Explanation of a check in four lines."""
    return "\n".join((f"{check.id}: level {check.level}, {LEVELS[check.level]}", f"holds:    {check.holds}",
                      f"compares: {check.compares}", f"catches:  {check.catches}"))


def text_of_all() -> str:
    """One line for each check."""
    width = max(map(len, CHECKS))
    return "\n".join(f"{check.level}  {check.id:<{width}}  {check.holds}" for check in CHECKS.values())


def to_json(check: RegisteredCheck) -> dict[str, str | int]:
    """Keys of a check in `verify --explain --json`."""
    return {"id": check.id, "level": check.level, "holds": check.holds, "compares": check.compares,
            "catches": check.catches}
