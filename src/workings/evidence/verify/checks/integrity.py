"""Level 0: every unit's files are exactly those that were sealed, and a pack holds the units that it lists."""

from collections.abc import Callable, Iterator
from functools import partial

from workings.errors import RecordError
from workings.evidence.pack.form import BY_DIGEST, PACK, may_be_external, parse_pack
from workings.evidence.verify.record import Record, Unit
from workings.evidence.verify.registry import Found, check, failed, join_first, not_checked, passed
from workings.evidence.verify.tree import shown
from workings.record.checkpoints import parse_commit, step_of
from workings.record.digest import stream_digest
from workings.record.layout import ATTEMPTS, CHECKPOINTS, COMMIT, MANIFEST, PARTIAL_SUFFIX, SEAL, SUMS, check_relative
from workings.record.seal import refuse_same_but_for_case


@check("integrity.names", "units")
def names(unit: Unit) -> Found:
    """Names that could hide a file, lead elsewhere, or mean another file on another system."""
    for entry in unit.entries:
        if entry.kind == "other":
            yield f"{shown(entry.name)}: a link or a special file"
        # No checksum lists an empty folder, so adding or removing one would leave no trace.
        elif entry.kind == "folder" and unit.tree_path(entry.name) not in unit.tree.filled_folders:
            yield f"{shown(entry.name)}: an empty folder"
        yield from _record_errors(partial(check_relative, entry.name))
    yield from _record_errors(lambda: refuse_same_but_for_case([entry.name for entry in unit.entries]))
    return f"{len(unit.entries)} plain names"


@check("integrity.sealed", "units")
def sealed(unit: Unit) -> Found:
    """Sums and seal in their one form; the seal names these sums; the unit is what its place says."""
    if missing := [name for name in (SUMS, SEAL) if not unit.has(name)]:
        yield f"{' and '.join(missing)} missing"
        return None
    seal, _ = unit.seal, unit.sums  # reading either raises for another form
    if seal["root"] != unit.root:
        yield f"{SEAL} names root {str(seal['root'])[:16]}…, {SUMS} has {unit.root[:16]}…"
    # A run that called itself an evaluation would escape every check that is made for runs.
    if unit.parent is not None:
        expected = unit.path_in(unit.parent).split("/")[0]
    else:
        expected = "run" if unit.is_run else str(seal["unit"])
    if seal["unit"] != expected:
        yield f"{SEAL} says {str(seal['unit'])[:20]!r}, its place and files say {expected!r}"
    return f"root {unit.root}"


@check("integrity.files", "units")
def listed(unit: Unit) -> Found:
    """Names in the checksums against files: deleted, added, renamed, or changed in case."""
    external = unit.external_files
    yield from (f"{name} is missing" for name in sorted(unit.sums) if not unit.has(name) and name not in external)
    yield from (f"{shown(name)} is in no sums" for name in sorted(unit.files) if name not in unit.sums)
    by_digest = f", {len(external)} named by digest" if external else ""
    return f"{len(unit.sums) - len(external)} files listed and there{by_digest}"


@check("integrity.files", "record")
def loose(record: Record) -> Found:
    """Outside of every seal there may be the list of attempts, signatures, and runs that have not ended."""
    unfinished = {entry.name.split("/")[0] for entry in record.unowned_entries if PARTIAL_SUFFIX in entry.name}
    if unfinished:
        yield not_checked(f"not sealed, so not verified: {join_first(sorted(unfinished))}", blocking=False)
    known = {ATTEMPTS, *(f"{run.path.rpartition('/')[0]}/{ATTEMPTS}" for run in record.runs)}
    known |= {entry.name for run in record.runs for entry in record.attest(run).values()}
    outside = [shown(entry.name) for entry in record.unowned_entries
               if entry.kind != "folder" and PARTIAL_SUFFIX not in entry.name and entry.name not in known]
    return not_checked(f"outside every seal: {join_first(outside)}", blocking=False) if outside else None


@check("integrity.sums", "units")
def sums(unit: Unit) -> Found:
    """SHA-256 of each file against the sums: flipped bytes, truncation, swapped files."""
    hashed = 0
    for name, expected in unit.sums.items():
        if not unit.has(name):
            continue  # reported by integrity.files
        try:
            with unit.open(name) as stream:
                digest, size = stream_digest(stream)
        except RecordError as error:
            yield str(error)
            continue
        hashed += size
        if digest != expected:
            yield f"{name}: its bytes are not those that were sealed"
    return f"{hashed:,} bytes hashed"


@check("integrity.checkpoints")
def checkpoints(unit: Unit) -> Found:
    """Each checkpoint's commit against the sums: same files, same digests, same sizes."""
    names = sorted({name.split("/")[1] for name in unit.files if name.startswith(CHECKPOINTS + "/")})
    if not names:
        return not_checked("the run holds no checkpoint", blocking=False)
    for name in names:
        yield from _checkpoint_problems(unit, name)
    return f"{len(names)} checkpoints: {', '.join(names)}"


@check("integrity.anchor", "record")
def anchor(record: Record) -> Found:
    """The root against `--expect-root`: changed files can be sealed again; a digest kept elsewhere stays."""
    expected = record.expect_root.strip().lower()
    if not expected:
        return not_checked(f"not anchored: no digest was given to compare with; the root digest is {record.root}",
                           blocking=False)
    if expected == record.root:
        return f"anchored: everything is under the expected root {expected}"
    covered = [unit for unit in record.units if unit.root == expected]
    if not covered:
        return failed(f"root digest {record.root} was found, {expected[:80]} was expected")
    yield passed(f"anchored: {covered[0].title} has the expected root {expected}")
    others = [unit for unit in record.units if unit not in covered]
    return not_checked(f"not anchored by that digest: {join_first([unit.title for unit in others])}; the digest over "
                       f"all is {record.root}", blocking=any(unit.parent not in covered for unit in others))


def _record_errors(function: Callable[[], object]) -> Iterator[str]:
    try:
        function()
    except RecordError as error:
        yield str(error)


def _checkpoint_problems(unit: Unit, name: str) -> Iterator[str]:
    folder = f"{CHECKPOINTS}/{name}"
    try:
        commit = parse_commit(unit.read(f"{folder}/{COMMIT}"), step_of(name))
    except RecordError as error:
        yield f"{shown(folder)}: {error}"
        return
    # Tensors that a pack leaves out count as present: commit and sums still have to agree about their digests.
    present = {path.removeprefix(f"{folder}/") for path in (*unit.files, *unit.external_files)
               if path.startswith(f"{folder}/")} - {COMMIT}
    for file in sorted(present ^ set(commit)):
        yield f"{folder}/{shown(file)}: in the commit or in the folder, not in both"
    for file in present & set(commit):
        path = f"{folder}/{file}"
        size = unit.external_files[path] if path in unit.external_files else unit.files[path].size
        if unit.sums.get(path) != commit[file]["sha256"] or size != commit[file]["bytes"]:
            yield f"{path}: differs from its commit"


@check("integrity.pack", "packs")
def units(pack: Unit) -> Found:
    """The pack's list against the units that are there: no run and no evaluation was added or taken away."""
    listed, present = parse_pack(pack.json(PACK)).roots, pack.units_inside
    yield from (f"{shown(path)} is listed and not here" for path in sorted(listed.keys() - present.keys()))
    yield from (f"{shown(path)} is here and not listed" for path in sorted(present.keys() - listed.keys()))
    yield from (f"{shown(path)} has another root than the one listed" for path in sorted(present.keys() & listed)
                if not present[path].has(SUMS) or present[path].root != listed[path])
    # A seal in the pack's own files would look like a checked run to a reader, and no check would have opened it.
    yield from (f"{shown(name)}: a unit that is not allowed here, so nothing in it was checked"
                for name in sorted(pack.files) if name.rpartition("/")[2] in (SEAL, SUMS, MANIFEST))
    return f"{len(listed)} units"


@check("integrity.pack", "packs")
def by_digest(pack: Unit) -> Found:
    """Files that the pack names by digest: they are not here and were not hashed, so neither missing nor checked."""
    pack_list = parse_pack(pack.json(PACK))
    runs = {path: unit for path, unit in pack.units_inside.items() if unit.is_run}
    if pack_list.weights == BY_DIGEST:
        yield from (f"{shown(run.tree_path(name))}: here, and the pack names such files by digest"
                    for run in runs.values() for name in run.files if may_be_external(name))
    absent, total = [], 0
    for row in pack_list.by_digest:
        name = shown(f"{row.place}/{row.file}")
        if not may_be_external(row.file):
            yield f"{name}: a file of this kind has to be in the pack"
        elif row.place not in runs:
            yield f"{name}: of no run in the pack"
        elif row.file not in runs[row.place].external_files:
            yield f"{name}: here as well, or not with the digest that the run's sums have"
        absent.append(name)
        total += row.bytes
    if not absent:
        return None
    return not_checked(f"{len(absent)} files ({total:,} bytes) are named by their digests and are not here: "
                       f"{join_first(absent)}", blocking=False)
