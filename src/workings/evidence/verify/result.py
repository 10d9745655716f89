"""Result of a verification: one verdict for each check, and the level that the record reaches."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workings.evidence.verify.unchecked_fields import UncheckedField


COMPARED_WITH_GIVEN = ("integrity.anchor", "attestation.trust")
"""Checks that compare with the verifier's digest or key."""


class CheckVerdict(StrEnum):
    """Outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not_checked"


class NotChecked(Exception):
    """A check cannot be made, for the reason in words; ``blocking`` as in `CheckFinding`."""

    def __init__(self, why: str, *, blocking: bool = True) -> None:
        super().__init__(why)
        self.blocking = blocking


@dataclass(frozen=True)
class CheckFinding:
    """Result of a check for one unit, or for the whole record."""

    verdict: CheckVerdict
    text: str
    _: KW_ONLY
    unit: str = ""
    """The unit's path, e.g. `runs/a/eval/test`; empty: the whole record."""
    blocking: bool = True
    """Whether a verdict of `not_checked` keeps the record from the check's level. It does not if only the verifier can
    give what is missing, such as an expected root digest."""
    unreadable: bool = False
    """Whether it failed because it reads a damaged file, which ``text`` names; nothing was compared."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check's verdict over all units."""

    id: str
    """Stable: `group.subject`, as in `consistency.engine`; never used for something else."""
    level: int
    verdict: CheckVerdict
    text: str
    blocking: bool = True
    unreadable: bool = False

    @property
    def is_stopping(self) -> bool:
        """Whether the record does not reach the check's level because of it."""
        return self.verdict is CheckVerdict.FAILED or (self.verdict is CheckVerdict.NOT_CHECKED and self.blocking)

    def to_json(self) -> dict[str, Any]:
        """Keys of `verify --json`."""
        return {"id": self.id, "level": self.level, "verdict": str(self.verdict), "text": self.text}


@dataclass(frozen=True, kw_only=True, repr=False)
class Verification:
    """The result of verifying one path."""

    path: str
    checks: tuple[Check, ...]
    asked_level: int
    """Highest level whose checks were run."""
    root: str
    """Digest over all units, to be stored elsewhere and given to `--expect-root`; empty if nothing could be read."""
    unchecked_fields: "tuple[UncheckedField, ...]" = ()
    """Fields that no check covers, or whose check was not made; key `said` of `verify --json`."""
    coverage: Mapping[str, Any] = field(default_factory=dict)
    """For level 3, by the run's path: which steps and answers were recomputed, and which were not."""

    def __repr__(self) -> str:
        """One line; ``checks`` has every check with its text."""
        failed = f"; failed: {', '.join(self._ids(CheckVerdict.FAILED))}" if self.failed else ""
        return f"<Verification of {self.path}: {self.outcome}, {self.counts}{failed}>"

    @property
    def outcome(self) -> str:
        """The verdict in a word or two."""
        if self.failed:
            return "FAILED"
        return "verified" if self.level == self.asked_level else "not reached"

    @property
    def counts(self) -> str:
        """The level reached and how many checks passed, failed and could not be made, as a clause."""
        level = f"level {self.level}" if self.level >= 0 else "no level"
        return (f"{level} of {self.asked_level}: {self.passed} checks passed, {self.failed} failed, "
                f"{self.not_checked} not made")

    @property
    def failed(self) -> int:
        """Number of failed checks."""
        return len(self._ids(CheckVerdict.FAILED))

    @property
    def passed(self) -> int:
        """Number of passed checks."""
        return len(self._ids(CheckVerdict.PASSED))

    @property
    def not_checked(self) -> int:
        """Number of checks that could not be made; they never count as passed."""
        return len(self._ids(CheckVerdict.NOT_CHECKED))

    @property
    def is_about_files(self) -> bool:
        """Whether the files decided; False where only a digest or key that was given does not match."""
        stopping = self._ids(CheckVerdict.FAILED) or [check.id for check in self.checks if check.is_stopping]
        return not stopping or not {*stopping} <= {*COMPARED_WITH_GIVEN}

    @property
    def level(self) -> int:
        """Highest level reached: all its checks and those below passed, and there was one; -1: not even level 0."""
        for level in range(self.asked_level + 1):
            checks = [check for check in self.checks if check.level == level]
            # A level at which no check passed proves nothing.
            if any(check.is_stopping for check in checks) or not any(
                    check.verdict is CheckVerdict.PASSED for check in checks):
                return level - 1
        return self.asked_level

    def to_json(self) -> dict[str, Any]:
        """Keys of `verify --json`."""
        value: dict[str, Any] = {
            "level": self.level, "passed": self.passed, "failed": self.failed, "not_checked": self.not_checked,
            "checks": [check.to_json() for check in self.checks], "asked_level": self.asked_level,
            "said": [asdict(field) for field in self.unchecked_fields]}
        if self.root:
            value["root"] = self.root
        if self.coverage:
            value["coverage"] = dict(self.coverage)
        return value

    def _ids(self, verdict: CheckVerdict) -> list[str]:
        return [check.id for check in self.checks if check.verdict is verdict]
