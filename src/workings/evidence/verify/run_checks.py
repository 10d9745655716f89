"""`verify`: open a record and run the checks level by level."""

import zipfile
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from workings.errors import RecordError, RequestError
from workings.evidence.verify import checks
from workings.evidence.verify.load import load
from workings.evidence.verify.record import Record, Replay
from workings.evidence.verify.registry import CHECKS, Found, RegisteredCheck, check, passed
from workings.evidence.verify.result import Check, CheckFinding, CheckVerdict, Verification
from workings.evidence.verify.tree import open_tree
from workings.evidence.verify.unchecked_fields import unchecked_fields

for module in iter_modules(checks.__path__):
    import_module(f"{checks.__name__}.{module.name}")  # each `@check` in it adds its function to `CHECKS`
HIGHEST_LEVEL = 3
DEFAULT_LEVEL = 2
"""Highest level that needs no engine."""
MAX_UNITS_SHOWN = 8
WORST = (CheckVerdict.FAILED, CheckVerdict.NOT_CHECKED, CheckVerdict.PASSED)
"""Verdicts, the worst first."""


@check("integrity.readable", "record")
def _readable(record: Record) -> Found:
    """Whether the path is a folder or a safe zip: plain names, and true uncompressed sizes."""
    yield passed(f"{len(record.tree.entries):,} names, {len(record.units)} units")
    return None


def verify(path: str | Path, level: int = DEFAULT_LEVEL, expect_root: str = "",
           trusted: tuple[bytes, ...] = (), replay: Replay | None = None) -> Verification:
    """Verify a run directory, a folder of runs, one unit, or a zip of any of them, without running its code.

    Args:
        path: a folder or a zip.
        level: highest level whose checks are made: 0 integrity, 1 consistency, 2 scores recomputed, 3 steps recomputed.
        expect_root: expected root digest; empty: the record is not anchored.
        trusted: public keys in PEM; if any is given, every unit has to be signed by one of them.
        replay: recomputes steps and samples of a run; needed for level 3, and the only part that reaches an engine.

    Raises:
        RequestError: there is nothing to verify at ``path``.
    """
    if not 0 <= level <= HIGHEST_LEVEL:
        raise ValueError(f"level must be 0 to {HIGHEST_LEVEL}, not {level}")
    path = Path(path)
    if path.is_file() and path.suffix.lower() != ".zip" and not zipfile.is_zipfile(path):
        raise RequestError(f"{path} is not a record", "a run directory, a folder of runs, or a packed .zip",
                           "workings runs")
    try:
        record = load(open_tree(path), expect_root=expect_root, trusted=trusted, replay=replay)
    except RecordError as error:
        readable, *others = _checks_up_to(level)
        not_made = [_not_made(entry, "nothing could be read") for entry in others]
        first = Check(id=readable.id, level=0, verdict=CheckVerdict.FAILED, text=str(error))
        return Verification(path=str(path), checks=(first, *not_made), asked_level=level, root="")
    return verify_record(record, level)


def verify_record(record: Record, level: int = DEFAULT_LEVEL) -> Verification:
    """Run the checks on a record that is open."""
    checks: list[Check] = []
    verdicts: dict[str, dict[str, CheckVerdict]] = {}  # by check and unit
    for entry in _checks_up_to(level):
        # A replay would start from files that a lower check has just called wrong.
        if entry.level > DEFAULT_LEVEL and any(check.verdict is CheckVerdict.FAILED and check.level <= DEFAULT_LEVEL
                                               for check in checks):
            checks.append(_not_made(entry, "not replayed: checks of lower levels failed"))
            continue
        # Once each: several functions may fail for the same file.
        findings = list(dict.fromkeys(finding for function in entry.functions for finding in function(record)))
        if findings:  # none, if the record has no unit that the check is about
            checks.append(_check_result(entry, findings))
            # The worst last: of several findings about one unit, the last one stays in the dictionary.
            worst_last = sorted(findings, key=lambda finding: WORST.index(finding.verdict), reverse=True)
            verdicts[entry.id] = {finding.unit: finding.verdict for finding in worst_last}
    coverage = {path or ".": facts["coverage"] for path, facts in record.replayed.items()
                if isinstance(facts, Mapping) and "coverage" in facts}
    root = ""
    with suppress(RecordError):  # a unit without sums has no digest; reported by integrity.sealed
        root = record.root
    return Verification(path=str(record.tree.path), checks=tuple(checks), asked_level=level, root=root,
                        unchecked_fields=unchecked_fields(record, verdicts), coverage=coverage)


def _checks_up_to(level: int) -> list[RegisteredCheck]:
    return sorted((entry for entry in CHECKS.values() if entry.level <= level), key=lambda entry: entry.level)


def _not_made(entry: RegisteredCheck, why: str) -> Check:
    return Check(id=entry.id, level=entry.level, verdict=CheckVerdict.NOT_CHECKED, text=why)


def _check_result(entry: RegisteredCheck, findings: list[CheckFinding]) -> Check:
    verdict = min((finding.verdict for finding in findings), key=WORST.index)
    deciding = [finding for finding in findings if finding.verdict is verdict]
    texts = [f"{finding.unit}: {finding.text}" if finding.unit not in ("", ".") else finding.text
             for finding in deciding[:MAX_UNITS_SHOWN]]
    if len(deciding) > MAX_UNITS_SHOWN:
        texts.append(f"and {len(deciding) - MAX_UNITS_SHOWN} more units")
    return Check(id=entry.id, level=entry.level, verdict=verdict, text="; ".join(texts),
                 blocking=any(each.blocking for each in deciding), unreadable=all(each.unreadable for each in deciding))
