"""`verify`: open, run the checks level by level, say what was found."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workings.errors import RecordError
from workings.evidence.verify import (
    attested,
    content,
    data_order,
    evaluated,
    integrity,
    notes,
    packed,
    planned,
    replayed,
    run_consistency,
    schemas,
    step_log,
    views,
)
from workings.evidence.verify.checks import CHECKS, RegisteredCheck
from workings.evidence.verify.claims import claims
from workings.evidence.verify.record import Record, load
from workings.evidence.verify.result import Check, Finding, Verdict, Verification
from workings.evidence.verify.tree import open_tree

MODULES = (
    integrity, packed, schemas, notes, content, attested, run_consistency, planned,
    step_log, data_order, views, evaluated, replayed)
"""Modules whose import registers checks."""
GROUPS = ("integrity", "form", "content", "attestation", "consistency", "recompute", "replay")
"""First parts of ids, in the order in which a level's checks run."""
HIGHEST_LEVEL = 3
DEFAULT_LEVEL = 2
"""Highest level that needs no engine."""
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a value of a wrong type raises. Checks test the forms that they know of; a record that was made to break
them in another way fails the check instead of ending in a traceback."""
READABLE = "integrity.readable"


def verify(path: Path, level: int = DEFAULT_LEVEL, expect_root: str = "",
           progress: Callable[[int], None] | None = None, trusted: tuple[bytes, ...] = (),
           replay: Callable[[Path], Mapping[str, Any]] | None = None) -> Verification:
    """Verify a run directory, a folder of runs, one unit, or a zip of any of them. Writes nothing, runs nothing of it.

    Args:
        path: a folder or a zip.
        level: highest level whose checks are made: 0 integrity, 1 consistency, 2 scores computed again, 3 steps taken
            again.
        expect_root: root digest that was kept elsewhere; empty: the record is not anchored.
        progress: called with the bytes hashed so far.
        trusted: public keys in PEM; given some, every unit has to be signed by one of them.
        replay: takes steps of a run again and says what came out; level 3 needs it, and only it reaches an engine.

    Raises:
        RequestError: there is nothing to verify at ``path``.
    """
    if not 0 <= level <= HIGHEST_LEVEL:
        raise ValueError(f"level must be 0 to {HIGHEST_LEVEL}, not {level}")
    wanted = sorted((entry for entry in CHECKS.values() if entry.level <= level),
                    key=lambda entry: (entry.level, GROUPS.index(entry.id.partition(".")[0])))
    try:
        record = replace(load(open_tree(path), expect_root, progress, trusted), replay=replay)
    except RecordError as error:
        unread = [Check(id=entry.id, level=entry.level, verdict=Verdict.NOT_CHECKED, text="nothing could be read")
                  for entry in wanted]
        first = Check(id=READABLE, level=0, verdict=Verdict.FAILED, text=str(error))
        return Verification(path=str(path), checks=(first, *unread), asked_level=level, root="", claims=())
    readable = Check(id=READABLE, level=0, verdict=Verdict.PASSED,
                     text=f"{len(record.tree.entries):,} names, {len(record.units)} units")
    checks = [readable]
    for entry in wanted:
        if entry.level > DEFAULT_LEVEL and any(
                done.verdict is Verdict.FAILED and done.level <= DEFAULT_LEVEL for done in checks):
            checks.append(Check(id=entry.id, level=entry.level, verdict=Verdict.NOT_CHECKED,
                                text="not replayed: checks of lower levels failed"))
        elif (done := _run(entry, record)) is not None:
            checks.append(done)
    return Verification(path=str(path), checks=tuple(checks), asked_level=level, root=_root(record),
                        claims=claims(record))


def _run(entry: RegisteredCheck, record: Record) -> Check | None:
    """One check over the whole record; None where it has no subject (no evaluation, no run)."""
    findings: list[Finding] = []
    try:
        findings.extend(entry.find(record))
    except RecordError as error:
        findings.append(Finding(verdict=Verdict.FAILED, text=str(error)))
    except MALFORMED as error:
        findings.append(Finding(verdict=Verdict.FAILED, text=f"the record does not have the form that this check reads "
                                                             f"({type(error).__name__}: {str(error)[:120]})"))
    if not findings:
        return None
    for verdict in (Verdict.FAILED, Verdict.NOT_CHECKED, Verdict.PASSED):
        deciding = [finding for finding in findings if finding.verdict is verdict]
        if deciding:
            return Check(id=entry.id, level=entry.level, verdict=verdict, text=_text(deciding),
                         blocking=any(finding.blocking for finding in deciding))
    raise AssertionError("a finding has one of three verdicts")


def _text(findings: list[Finding]) -> str:
    texts = [f"{finding.unit}: {finding.text}" if finding.unit not in ("", ".") else finding.text
             for finding in findings]
    shown = "; ".join(texts[:8])
    return shown if len(texts) <= 8 else f"{shown}; and {len(texts) - 8} more units"


def _root(record: Record) -> str:
    try:
        return record.root
    except RecordError:
        return ""  # a unit without sums has no digest; integrity.sealed says so
