"""`verify`: open, run the checks level by level, say what was found."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError

# In the order in which the checks of a group run: importing a module registers its checks.
# isort: off
from workings.evidence.verify.checks import (
    announced_evaluation,
    run_consistency,
    attempts,
    signatures,
    schemas,
    tensors,
    content,
    data_order,
    teacher_top_tokens,
    teacher_identity,
    sample_origin,
    evaluations,
    integrity,
    environment,
    notes,
    packs,
    plan_file,
    preference_pairs,
    recipe_text,
    report_page,
    replays,
    rewards,
    rollouts,
    samples,
    step_log,
    readme_and_log,
)
# isort: on

from workings.evidence.verify.record import PageRegenerator, Record, Replay, load
from workings.evidence.verify.record_sentences import claims
from workings.evidence.verify.registry import CHECKS, RegisteredCheck, passed
from workings.evidence.verify.result import Check, CheckFinding, CheckVerdict, Verification
from workings.evidence.verify.tree import open_tree
from workings.evidence.verify.unchecked_fields import said

MODULES = (
    announced_evaluation, run_consistency, attempts, signatures, schemas, tensors, content, data_order,
    teacher_top_tokens, teacher_identity, sample_origin, evaluations, integrity, environment, notes, packs,
    plan_file, preference_pairs, recipe_text, report_page, replays, rewards, rollouts, samples, step_log,
    readme_and_log)
"""Modules with checks."""
# The bytes come first, then their form, then what they mean: a later group reads values that an earlier one vouches
# for.
GROUPS = ("integrity", "form", "content", "attestation", "consistency", "recompute", "replay")
"""First parts of ids, in the order in which a level's checks run."""
HIGHEST_LEVEL = 3
DEFAULT_LEVEL = 2
"""Highest level that needs no engine."""
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a value of a wrong type raises. Checks test the forms that they know of; a record that was made to break
them in another way fails the check instead of ending in a traceback."""


def _readable(record: Record) -> Iterator[CheckFinding]:
    """The path against what can be opened: a folder, or a zip with plain names and sizes that are not lies."""
    yield passed(f"{len(record.tree.entries):,} names, {len(record.units)} units")


# This check is not registered: it speaks of opening the path, before there is a record that a check could look at.
READABLE = RegisteredCheck(
    id="integrity.readable", level=0, title="there is a record that can be opened", find=_readable,
    example="an archive with names that lead out of its folder, or one that unpacks to far more than it holds")


def verify(path: str | Path, level: int = DEFAULT_LEVEL, expect_root: str = "",
           progress: Callable[[int], None] | None = None, trusted: tuple[bytes, ...] = (),
           replay: Replay | None = None,
           authorities: tuple[bytes, ...] = (), report: PageRegenerator | None = None) -> Verification:
    """Verify a run directory, a folder of runs, one unit, or a zip of any of them. Writes nothing, runs nothing of it.

    Args:
        path: a folder or a zip.
        level: highest level whose checks are made: 0 integrity, 1 consistency, 2 scores computed again, 3 steps taken
            again.
        expect_root: root digest that was kept elsewhere; empty: the record is not anchored.
        progress: called with the bytes hashed so far.
        trusted: public keys in PEM; given some, every unit has to be signed by one of them.
        replay: takes steps of a run again, draws again from its samples that are here, and says what came out; level 3
            needs it, and only it reaches an engine.
        authorities: certificates in PEM; given some, every run has to be time-stamped by who has one of them.
        report: draws the report page of an unpacked pack again; without it that page is not checked.

    Raises:
        RequestError: there is nothing to verify at ``path``.
    """
    if not 0 <= level <= HIGHEST_LEVEL:
        raise ValueError(f"level must be 0 to {HIGHEST_LEVEL}, not {level}")
    if Path(path).is_file() and not _may_be_zip(Path(path)):
        raise RequestError(str(path), "a run directory, a folder of runs, or a packed .zip",
                           "the folder that `workings train` named when it ended")
    try:
        record = load(open_tree(Path(path)), expect_root, progress, trusted, replay, authorities, report)
    # Nothing could be opened, and still every asked check is listed: an answer that left them out would look complete.
    except RecordError as error:
        unread = [Check(id=entry.id, level=entry.level, verdict=CheckVerdict.NOT_CHECKED, text="nothing could be read")
                  for entry in _wanted(level)]
        first = Check(id=READABLE.id, level=0, verdict=CheckVerdict.FAILED, text=str(error))
        return Verification(path=str(path), checks=(first, *unread), asked_level=level, root="", claims=())
    return verified(record, level)


def _may_be_zip(path: Path) -> bool:
    """By its name, or by its first bytes: a pack that was damaged is a record that fails."""
    if path.suffix.lower() == ".zip":
        return True
    with path.open("rb") as stream:
        return stream.read(2) == b"PK"


def verified(record: Record, level: int = DEFAULT_LEVEL) -> Verification:
    """`verify` of a record that was opened."""
    checks = [_judged(READABLE, _findings(READABLE, record))]
    made: dict[str, dict[str, CheckVerdict]] = {}
    for entry in _wanted(level):
        # A replay costs engine time, and would start from files that a lower check has just called wrong.
        why_not = entry.unless_failed or (
            "not replayed: checks of lower levels failed" if entry.level > DEFAULT_LEVEL else "")
        if why_not and any(done.verdict is CheckVerdict.FAILED and done.level <= DEFAULT_LEVEL for done in checks):
            checks.append(Check(id=entry.id, level=entry.level, verdict=CheckVerdict.NOT_CHECKED, text=why_not))
        elif findings := _findings(entry, record):
            checks.append(_judged(entry, findings))
            made[entry.id] = _by_unit(findings)
    return Verification(path=str(record.tree.path), checks=tuple(checks), asked_level=level, root=_root(record),
                        claims=claims(record), said=said(record, made), coverage=_coverage(record))


def _wanted(level: int) -> list[RegisteredCheck]:
    # The sort is stable, so within a group checks keep the order in which their modules registered them; those that
    # wait for what the others find come last of their level.
    return sorted((entry for entry in CHECKS.values() if entry.level <= level),
                  key=lambda entry: (entry.level, bool(entry.unless_failed), GROUPS.index(entry.id.partition(".")[0])))


def _by_unit(findings: list[CheckFinding]) -> dict[str, CheckVerdict]:
    """The worst verdict of each unit."""
    order = (CheckVerdict.FAILED, CheckVerdict.NOT_CHECKED, CheckVerdict.PASSED)
    verdicts: dict[str, CheckVerdict] = {}
    for finding in findings:
        verdicts[finding.unit] = min(verdicts.get(finding.unit, finding.verdict), finding.verdict, key=order.index)
    return verdicts


def _findings(entry: RegisteredCheck, record: Record) -> list[CheckFinding]:
    """What one check says over the whole record; nothing where it has no subject (no evaluation, no run)."""
    findings: list[CheckFinding] = []
    try:
        findings.extend(entry.find(record))
    except RecordError as error:
        findings.append(CheckFinding(verdict=CheckVerdict.FAILED, text=str(error), unreadable=True))
    except MALFORMED as error:
        findings.append(CheckFinding(
            verdict=CheckVerdict.FAILED, text="the record does not have the form that this check reads "
                                              f"({type(error).__name__}: {str(error)[:120]})"))
    return findings


def _judged(entry: RegisteredCheck, findings: list[CheckFinding]) -> Check:
    # The worst finding decides, so one bad unit among many fails the check for all of them.
    for verdict in (CheckVerdict.FAILED, CheckVerdict.NOT_CHECKED, CheckVerdict.PASSED):
        deciding = [finding for finding in findings if finding.verdict is verdict]
        if deciding:
            return Check(id=entry.id, level=entry.level, verdict=verdict, text=_text(deciding),
                         blocking=any(finding.blocking for finding in deciding),
                         unreadable=all(finding.unreadable for finding in deciding))
    raise AssertionError("a finding has one of three verdicts")


def _text(findings: list[CheckFinding]) -> str:
    texts = [f"{finding.unit}: {finding.text}" if finding.unit not in ("", ".") else finding.text
             for finding in findings]
    # A hostile record can hold thousands of bad units; the answer stays a size that a person reads.
    shown = "; ".join(texts[:8])
    return shown if len(texts) <= 8 else f"{shown}; and {len(texts) - 8} more units"


def _coverage(record: Record) -> dict[str, Any]:
    """What was drawn of each run that was replayed."""
    return {place or ".": facts["coverage"] for place, facts in record.replayed.items()
            if isinstance(facts, Mapping) and "coverage" in facts}


def _root(record: Record) -> str:
    try:
        return record.root
    except RecordError:
        return ""  # a unit without sums has no digest; integrity.sealed says so
