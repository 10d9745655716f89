"""Finds the units of a tree, and gives every file to the unit that has to answer for it.

A unit is a folder with a list of the sums of its files and a seal over this list: a run, an evaluation, samples, or a
pack. A unit is a top unit if it is in no other one. Runs in a pack are top units as well, because they were sealed
before it. The units of a packed run, for example:

    path in the tree                       unit that it belongs to
    pack.json                              the pack, whose path is empty
    runs/attempts.jsonl                    the pack
    runs/a/train/metrics.jsonl             runs/a
    runs/a/eval/items/predictions.jsonl    runs/a/eval/items, a unit inside of runs/a
    runs/a/attest/signature.json           the pack; outside of a pack, none
"""

from collections.abc import Container
from dataclasses import replace
from pathlib import PurePosixPath

from workings.errors import RecordError, RequestError
from workings.evidence.pack.form import PACK, RUNS, may_be_external, parse_pack
from workings.evidence.verify.record import MAX_SEAL_BYTES, PACK_KIND, Record, Replay, Unit
from workings.evidence.verify.tree import Entry, Tree
from workings.record.layout import EVALUATION_UNITS, MANIFEST, OUTSIDE_EVERY_SUM, PARTIAL_SUFFIX, SEAL, SUMS, unit_of
from workings.record.seal import parse_seal

MAX_UNITS = 5_000
"""Maximum number of sealed folders to verify together; each takes milliseconds."""


def load(tree: Tree, *, expect_root: str = "", trusted: tuple[bytes, ...] = (), replay: Replay | None = None) -> Record:
    """The record in a tree, with its units. The other arguments are fields of `Record`, for its checks.

    Raises `RequestError` if there is no unit, `RecordError` if there are more than `MAX_UNITS`.
    """
    units, unowned = _assign_entries(tree)
    if len(units) > MAX_UNITS:
        raise RecordError(f"{len(units):,} sealed folders, more than {MAX_UNITS:,}: verify parts of it")
    if not units:
        raise RequestError(f"{tree.path} is not a record", "a run directory, a folder of runs, or a packed .zip",
                           "workings runs")
    # A run's path is a prefix of the paths inside it, so sorting by path puts outer units first.
    ordered = tuple(unit for _, unit in sorted(units.items()))
    for unit in ordered:
        _assign_external_files(unit, units)
    record = Record(tree=tree, units=ordered, unowned_entries=tuple(unowned), expect_root=expect_root, trusted=trusted,
                    replay=replay)
    for unit in ordered:
        unit.record = record
        if unit.parent is not None:
            unit.parent.inside.append(unit)
    return record


def _assign_entries(tree: Tree) -> tuple[dict[str, Unit], list[Entry]]:
    """The units by path, with their entries, and the entries without a unit."""
    top_kinds = {path: _kind(tree, path) for path in _top_paths(tree)}
    units = {path: Unit(tree, path, None) for path in top_kinds}
    unowned: list[Entry] = []
    for entry in tree.entries:
        top = _innermost(entry.name, top_kinds)
        if top is None:
            unowned.append(entry)
            continue
        path = _unit_path(entry, top, top_kinds[top])
        if path is not None:
            # A folder where a unit ought to be becomes one even without a seal, so that `integrity.sealed` fails.
            if path not in units:
                units[path] = Unit(tree, path, units[top])
            if entry.name != path:
                units[path].entries.append(replace(entry, name=_below(entry.name, path)))
            continue
        unowned.append(entry)
        # A signature comes after the seal of its run, so only the sums of a pack, which is made later, cover it.
        pack = _pack_path(top)
        if pack is not None and top_kinds.get(pack) == PACK_KIND and entry.kind != "folder":
            units[pack].entries.append(replace(entry, name=_below(entry.name, pack)))
    return units, unowned


def _unit_path(entry: Entry, top: str, top_kind: str) -> str | None:
    """Path of the unit whose sums have to cover an entry: the top unit or one inside of it; None for signatures."""
    # Only runs have units inside. Without a readable seal the kind is unknown, and it may be a run.
    if entry.name == top or top_kind in (*EVALUATION_UNITS, PACK_KIND):
        return top
    relative = _below(entry.name, top)
    inner = unit_of(PurePosixPath(relative))
    if inner in OUTSIDE_EVERY_SUM:
        return None
    # A file where only folders may be, such as a file `eval/items`, is the run's.
    if not inner or (relative == inner and entry.kind != "folder"):
        return top
    return f"{top}/{inner}" if top else inner


def _top_paths(tree: Tree) -> set[str]:
    """Paths of the top units: folders that hold a manifest, a seal or sums."""
    candidates = {entry.name.rpartition("/")[0] for entry in tree.entries
                  if entry.name.rpartition("/")[2] in (MANIFEST, SEAL, SUMS)}
    # An unfinished run next to sealed ones is reported, not verified; verified alone, it fails.
    finished = {path for path in candidates if not any(part.endswith(PARTIAL_SUFFIX) for part in path.split("/"))}
    # A seal inside a sealed folder starts no new top unit: it could hide files from the outer sums.
    outermost = {path for path in finished if path == "" or _innermost(path.rpartition("/")[0], finished) is None}
    # Runs in a pack are the exception: they were sealed before, and each keeps its own root and signatures.
    packs = {path for path in outermost if _kind(tree, path) == PACK_KIND}
    return outermost | {path for path in finished if _pack_path(path) in packs}


def _pack_path(run: str) -> str | None:
    """Path that a pack around this run would have: `x` for `x/runs/a`, and empty for `runs/a`; None for any other."""
    folder, _, _ = run.rpartition("/")
    outer, _, name = folder.rpartition("/")
    return outer if name == RUNS else None


def _innermost(name: str, paths: Container[str]) -> str | None:
    """The innermost of ``paths`` that a name is or is below; None if there is none."""
    while name:
        if name in paths:
            return name
        name = name.rpartition("/")[0]
    return "" if "" in paths else None


def _below(name: str, folder: str) -> str:
    """The rest of a name after a folder that it is in; the empty path holds every name."""
    return name[len(folder) + 1:] if folder else name


def _kind(tree: Tree, path: str) -> str:
    """Kind of unit in the seal at a path; empty if that cannot be read."""
    try:
        return str(parse_seal(tree.read(f"{path}/{SEAL}" if path else SEAL, MAX_SEAL_BYTES))["unit"])
    except RecordError:
        return ""


def _assign_external_files(pack: Unit, units: dict[str, Unit]) -> None:
    """Note in each run which of its files the pack names by digest; any other file fails as missing."""
    if pack.kind != PACK_KIND:
        return
    try:
        rows = parse_pack(pack.json(PACK)).by_digest
    except RecordError:
        return  # reported by integrity.pack
    for row in rows:
        run = units.get(pack.tree_path(row.place))
        try:
            # The run's own sums decide, not the pack's list: a pack that could excuse any file would let a forger drop
            # a log.
            if run is not None and may_be_external(row.file) and not run.has(row.file) \
                    and run.sums.get(row.file) == row.sha256:
                run.external_files[row.file] = row.bytes
        except RecordError:
            continue  # a run without sums: reported by integrity.sealed
