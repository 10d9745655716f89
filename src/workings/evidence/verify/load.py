"""Finds the units of a tree, and gives each file to the unit whose sums have to list it.

A unit is a folder that was sealed: a run, an evaluation, samples, or a pack. For example, in a pack with one run:

    path in the tree                       path of its unit
    pack.json                              the pack's, which is empty
    runs/attempts.jsonl                    the pack's
    runs/a/train/metrics.jsonl             runs/a
    runs/a/eval/items/predictions.jsonl    runs/a/eval/items, a unit inside of runs/a
    runs/a/attest/001.dsse.json            the pack's; a run outside of a pack has no unit for its signatures

*Top units* are found by their seals: the outermost sealed folders, and the runs in a pack. Units inside of a run are
found by their place, `eval/NAME`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from workings.errors import RecordError, RequestError
from workings.evidence.pack.form import PACK, RUNS, ExternalFile, may_be_external, parse_pack
from workings.evidence.verify.record import MAX_SEAL_BYTES, PACK_KIND, Record, Replay, Unit
from workings.evidence.verify.tree import Entry, Tree
from workings.record.layout import EVALUATION_UNITS, MANIFEST, OUTSIDE_EVERY_SUM, PARTIAL_SUFFIX, SEAL, SUMS, unit_of
from workings.record.seal import parse_seal

MAX_UNITS = 5_000
"""Maximum number of units to verify together; each takes milliseconds."""


def load(tree: Tree, *, expect_root: str = "", trusted: tuple[bytes, ...] = (), replay: Replay | None = None) -> Record:
    """The record in a tree, with its units. The other arguments are fields of `Record`, for its checks.

    Raises `RequestError` if there is no unit, `RecordError` if there are more than `MAX_UNITS`.
    """
    top_kinds = _top_kinds(tree)
    units = {path: Unit(tree, path, None) for path in top_kinds}
    unowned = _assign_entries(tree, top_kinds, units)
    if len(units) > MAX_UNITS:
        raise RecordError(f"{len(units):,} sealed folders, more than {MAX_UNITS:,}: verify parts of it")
    if not units:
        raise RequestError(f"{tree.path} is not a record", "a run directory, a folder of runs, or a packed .zip",
                           "workings runs")
    # By path: a run comes before the units inside of it.
    ordered = tuple(units[path] for path in sorted(units))
    record = Record(tree=tree, units=ordered, unowned_entries=tuple(unowned), expect_root=expect_root, trusted=trusted,
                    replay=replay)
    for unit in ordered:
        unit.record = record
        if unit.parent is not None:
            unit.parent.inside.append(unit)
        if unit.kind == PACK_KIND:
            _assign_external_files(unit, units)
    return record


def _top_kinds(tree: Tree) -> dict[str, str]:
    """Kind of each top unit, by its path."""
    sealed = set[str]()
    for entry in tree.entries:
        folder, _, name = entry.name.rpartition("/")
        # A run that is still written is named, and not verified.
        is_unfinished = any(part.endswith(PARTIAL_SUFFIX) for part in folder.split("/"))
        if name in (MANIFEST, SEAL, SUMS) and not is_unfinished:
            sealed.add(folder)
    # A seal inside of a sealed folder makes no top unit: it could hide files from the outer sums.
    outermost = {path: _kind(tree, path) for path in sealed if sealed.isdisjoint(_folders_around(path))}
    # Runs in a pack are the exception: they were sealed before, and each keeps its own root and signatures.
    packed = {path: _kind(tree, path) for path in sealed if _pack_around(path, outermost) is not None}
    return outermost | packed


def _kind(tree: Tree, path: str) -> str:
    """Kind of unit in the seal at a path; empty if that cannot be read."""
    try:
        return str(parse_seal(tree.read(f"{path}/{SEAL}" if path else SEAL, MAX_SEAL_BYTES))["unit"])
    except RecordError:
        return ""


def _pack_around(run: str, top_kinds: Mapping[str, str]) -> str | None:
    """Path of the pack that holds a run: `x` for a run `x/runs/a`; None if there is no pack."""
    folder, _, _ = run.rpartition("/")
    pack, _, name = folder.rpartition("/")
    return pack if name == RUNS and top_kinds.get(pack) == PACK_KIND else None


def _assign_entries(tree: Tree, top_kinds: Mapping[str, str], units: dict[str, Unit]) -> list[Entry]:
    """Add every entry to its unit, and the units inside of runs to ``units``. Gives the entries that are in no run."""
    unowned: list[Entry] = []
    for entry in tree.entries:
        top = next((folder for folder in (entry.name, *_folders_around(entry.name)) if folder in top_kinds), None)
        if top is None:
            unowned.append(entry)
            continue
        path = _unit_path(entry, top, top_kinds[top])
        if path is None:
            unowned.append(entry)
            # A signature is made after its run was sealed. The sums of a pack, which is made later, list it.
            path = _pack_around(top, top_kinds)
            if path is None or entry.kind == "folder":
                continue
        elif path not in units:
            # A folder at the place of a unit is one even without a seal, so that `integrity.sealed` fails.
            units[path] = Unit(tree, path, units[top])
        if entry.name != path:
            units[path].entries.append(replace(entry, name=_below(entry.name, path)))
    return unowned


def _unit_path(entry: Entry, top: str, top_kind: str) -> str | None:
    """Path of the unit whose sums have to list an entry: the top unit or one inside of it; None for signatures."""
    # Only runs have units inside. A top unit whose seal cannot be read may be a run.
    if entry.name == top or top_kind in (*EVALUATION_UNITS, PACK_KIND):
        return top
    relative = _below(entry.name, top)
    inner = unit_of(PurePosixPath(relative))
    if inner in OUTSIDE_EVERY_SUM:
        return None
    is_file_in_place_of_unit = relative == inner and entry.kind != "folder"
    if not inner or is_file_in_place_of_unit:
        return top
    return f"{top}/{inner}" if top else inner


def _assign_external_files(pack: Unit, units: Mapping[str, Unit]) -> None:
    """Note in each run which of its files the pack names by digest instead of holding them."""
    try:
        rows = parse_pack(pack.json(PACK)).by_digest
    except RecordError:
        return  # reported by integrity.pack
    for row in rows:
        run = units.get(pack.tree_path(row.place))
        if run is not None and _is_external(run, row):
            run.external_files[row.file] = row.bytes


def _is_external(run: Unit, row: ExternalFile) -> bool:
    """Whether a file may be missing in a pack. Any other file that the pack names by digest fails as missing."""
    if not may_be_external(row.file) or run.has(row.file):
        return False
    try:
        # The run's own sums decide: a pack that could excuse any file would let a forger drop a log.
        return run.sums.get(row.file) == row.sha256
    except RecordError:
        return False  # reported by integrity.sealed


def _folders_around(path: str) -> Iterator[str]:
    """The folders around a path, innermost first: `a/b`, `a` and the empty path for `a/b/c`."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _below(path: str, folder: str) -> str:
    """The rest of a path after the folder that it is in; the empty path holds every other one."""
    return path.removeprefix(f"{folder}/") if folder else path
