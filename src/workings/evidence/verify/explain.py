"""What each check holds against what, at which level, and an example of what it catches: from the checks themselves."""

from difflib import get_close_matches

from workings.errors import RequestError
from workings.evidence.verify.registry import CHECKS, RegisteredCheck
from workings.evidence.verify.run_checks import READABLE

ALL = "all"
LEVELS = ("integrity", "consistency", "scores computed again", "steps taken again")
"""A word for each level."""


def listed() -> tuple[RegisteredCheck, ...]:
    """Every check that an answer can name, by level."""
    return tuple(sorted((READABLE, *CHECKS.values()), key=lambda check: check.level))


def explained(wanted: str) -> tuple[RegisteredCheck, ...]:
    """The check of that id, or all of them for ``all``.

    Raises:
        RequestError: no check has this id; names those that are near.
    """
    known = {check.id: check for check in listed()}
    if wanted == ALL:
        return tuple(known.values())
    if wanted in known:
        return (known[wanted],)
    near = [name for name in known if wanted and wanted in name] or get_close_matches(wanted, known, n=3)
    raise RequestError(f"--explain {wanted!r}", " or ".join(near) if near else "the id of a check",
                       f"workings verify --explain {near[0] if len(near) == 1 else ALL}")


def text_of(check: RegisteredCheck) -> str:
    """A few lines for people."""
    return "\n".join((f"{check.id}: level {check.level}, {LEVELS[check.level]}", f"holds:    {check.title}",
                      f"compares: {check.compares}", f"catches:  {check.example}"))


def text_of_all() -> str:
    """A line for each check."""
    checks = listed()
    width = max(len(check.id) for check in checks)
    return "\n".join(f"{check.level}  {check.id:<{width}}  {check.title}" for check in checks)


def to_json(check: RegisteredCheck) -> dict[str, str | int]:
    """The same for tools."""
    return {"id": check.id, "level": check.level, "holds": check.title, "compares": check.compares,
            "catches": check.example}
