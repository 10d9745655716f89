"""Level 0: every unit's files are exactly those that were sealed."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from workings.errors import RecordError
from workings.evidence.verify import tree as trees
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.registry import (
    check,
    every_unit,
    failed,
    finding_from,
    for_each_unit,
    join_first,
    not_checked,
    passed,
    record_check,
)
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import shown
from workings.record.checkpoints import parse_commit
from workings.record.layout import ATTEMPTS, CHECKPOINTS, COMMIT, MANIFEST, PARTIAL_SUFFIX, SEAL, SUMS, check_relative
from workings.record.seal import refuse_same_but_for_case


@record_check("integrity.names")
def names(record: Record) -> Iterator[CheckFinding]:
    """Names that could hide a file, lead elsewhere, or mean another file on another system."""
    # No checksum lists an empty folder, so adding or removing one would leave no trace.
    filled = {parent.as_posix() for entry in record.tree.entries if entry.kind != "folder"
              for parent in PurePosixPath(entry.name).parents}

    def find(unit: Unit) -> Iterator[CheckFinding]:
        problems = []
        for entry in unit.entries:
            if entry.kind == "other":
                problems.append(f"{shown(entry.name)}: a link or a special file")
            elif entry.kind == "folder" and unit.tree_path(entry.name) not in filled:
                problems.append(f"{shown(entry.name)}: an empty folder")
            problems += _record_errors(lambda name=entry.name: check_relative(name))
        # On macOS and Windows two names that differ only in case are one file.
        problems += _record_errors(lambda: refuse_same_but_for_case([entry.name for entry in unit.entries]))
        yield finding_from(problems, f"{len(unit.entries)} plain names", unit)
    return for_each_unit(record.units, find)


@check("integrity.sealed", every_unit)
def sealed(unit: Unit) -> Iterator[CheckFinding]:
    """Sums and seal in their one form; the seal names these sums; the unit is what its place says."""
    problems = [f"{name} is missing" for name in (SUMS, SEAL) if not unit.has(name)]
    if not problems:
        seal = unit.seal
        # Checks the form: invalid checksums raise here.
        _ = unit.sums
        if seal["root"] != unit.root:
            problems.append(f"{SEAL} names root {str(seal['root'])[:16]}…, {SUMS} has {unit.root[:16]}…")
        # A run that called itself an evaluation would escape every check that is made for runs.
        if seal["unit"] != (expected := _kind_by_location(unit, str(seal["unit"]))):
            problems.append(f"{SEAL} says {str(seal['unit'])[:20]!r}, its place and files say {expected!r}")
    yield finding_from(problems, f"root {unit.root}" if not problems else "", unit)


@check("integrity.files", every_unit)
def listed(unit: Unit) -> Iterator[CheckFinding]:
    """Names in the checksums against files: deleted, added, renamed, or changed in case."""
    # Files that the pack names by digest are absent on purpose; `integrity.pack` accounts for them.
    external = unit.external_files
    problems = [f"{name} is missing" for name in sorted(unit.sums) if not unit.has(name) and name not in external]
    problems += [f"{shown(name)} is in no sums" for name in sorted(unit.files) if name not in unit.sums]
    by_digest = f", {len(external)} named by digest" if external else ""
    yield finding_from(problems, f"{len(unit.sums) - len(external)} files listed and there{by_digest}", unit)


@record_check("integrity.files")
def loose(record: Record) -> Iterator[CheckFinding]:
    """Outside of every seal there may be the list of attempts, signatures, and runs that have not ended."""
    # An unfinished run next to sealed ones is normal while something trains, so it is named and blocks no level.
    if unfinished := sorted({entry.name.split("/")[0] for entry in record.unowned_entries
                             if PARTIAL_SUFFIX in entry.name}):
        yield not_checked(f"not sealed, so not verified: {join_first(unfinished)}", blocking=False)
    attested = {entry.name for run in record.runs for entry in record.attest(run).values()}
    attempt_lists = {f"{run.path.rpartition('/')[0]}/{ATTEMPTS}" for run in record.runs}
    outside = [shown(entry.name) for entry in record.unowned_entries
             if entry.kind != "folder" and entry.name != ATTEMPTS and PARTIAL_SUFFIX not in entry.name
             and entry.name not in attested and entry.name not in attempt_lists]
    if outside:
        yield not_checked(f"outside every seal: {join_first(outside)}", blocking=False)


@check("integrity.sums", every_unit)
def sums(unit: Unit) -> Iterator[CheckFinding]:
    """SHA-256 of each file against the sums: flipped bytes, truncation, swapped files."""
    problems, hashed = [], 0
    for name, expected in unit.sums.items():
        if not unit.has(name):
            continue  # reported by integrity.files
        try:
            # The one place where all bytes are read: in pieces, so that a checkpoint needs no more memory than a
            # text.
            digest, size = trees.digest(unit.tree, unit.tree_path(name), unit.record.given.progress)
        except RecordError as error:
            problems.append(str(error))
            continue
        hashed += size
        if digest != expected:
            problems.append(f"{name}: its bytes are not those that were sealed")
    yield finding_from(problems, f"{hashed:,} bytes hashed", unit)


@check("integrity.checkpoints")
def checkpoints(unit: Unit) -> Iterator[CheckFinding]:
    """Each checkpoint's commit against the sums: same files, same digests, same sizes."""
    inside = [entry for entry in unit.files.values() if entry.name.startswith(CHECKPOINTS + "/")]
    folders = sorted({"/".join(entry.name.split("/")[:2]) for entry in inside})
    if not folders:
        yield not_checked("the run holds no checkpoint", unit, blocking=False)
        return
    problems = [problem for folder in folders for problem in _checkpoint_problems(unit, folder)]
    names = ", ".join(folder.split("/")[1] for folder in folders)
    yield finding_from(problems, f"{len(folders)} checkpoints: {names}", unit)


@record_check("integrity.anchor")
def anchor(record: Record) -> Iterator[CheckFinding]:
    """The root against `--expect-root`: changed files can be sealed again; a digest kept elsewhere stays."""
    expected = record.given.expect_root.strip().lower()
    if not expected:
        yield not_checked(f"not anchored: no digest was given to compare with; the root digest is {record.root}",
                          blocking=False)
        return
    # The expected digest may be that of one run, published before others were added to the folder or pack.
    covered = [unit for unit in record.units if unit.root == expected]
    if expected == record.root:
        yield passed(f"anchored: everything is under the expected root {expected}")
    elif not covered:
        yield failed(f"root digest {record.root} was found, {expected[:80]} was expected")
    else:
        yield passed(f"anchored: {covered[0].title} has the expected root {expected}", covered[0])
        # The other units are reported as not anchored: a digest of one run says nothing about its neighbours.
        others = [unit.title for unit in record.units if unit not in covered]
        # Units inside the anchored run name its root; another run next to it is not covered at all.
        beside = [unit for unit in record.units if unit not in covered and unit.parent not in covered]
        yield not_checked(f"not anchored by that digest: {join_first(others)}; the digest over all is {record.root}",
                          blocking=bool(beside))


def _record_errors(function: object) -> list[str]:
    try:
        function()  # type: ignore[operator]
    except RecordError as error:
        return [str(error)]
    return []


def _kind_by_location(unit: Unit, sealed_kind: str) -> str:
    if unit.parent is not None:
        return unit.path[len(unit.parent.path):].lstrip("/").split("/")[0]
    return "run" if unit.has(MANIFEST) or sealed_kind == "run" else sealed_kind


def _checkpoint_problems(unit: Unit, folder: str) -> list[str]:
    name = folder.split("/")[1]
    # Python refuses to convert thousands of digits, so the length is limited before `int` sees the name.
    if not name.startswith("step_") or not name[5:].isdigit() or len(name) > 20:
        return [f"{shown(folder)}: not a checkpoint's name"]
    try:
        commit = parse_commit(unit.read(f"{folder}/{COMMIT}"), int(name[5:]))
    except RecordError as error:
        return [f"{folder}: {error}"]
    # Tensors that a pack leaves out count as present: commit and sums still have to agree about their digests.
    present = {entry[len(folder) + 1:] for entry in (*unit.files, *unit.external_files)
               if entry.startswith(folder + "/")}
    present -= {COMMIT}
    problems = [f"{folder}/{shown(file)}: in the commit or in the folder, not in both"
                for file in sorted(present ^ set(commit))]
    for file in present & set(commit):
        path = f"{folder}/{file}"
        size = unit.external_files[path] if path in unit.external_files else unit.files[path].size
        if unit.sums.get(path) != commit[file]["sha256"] or size != commit[file]["bytes"]:
            problems.append(f"{path}: differs from its commit")
    return problems
