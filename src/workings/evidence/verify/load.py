"""Finds the units of a tree (runs, packs, and the units in them), and assigns every entry to its unit."""

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
    """Find the units of a tree; what the verifier gives is handed to the checks as it is.

    Raises `RequestError` if there is no unit, `RecordError` if there are more than `MAX_UNITS`.
    """
    # The order matters: first the outermost units, then the owner of each file.
    tops = {path: _kind(tree, path) for path in _top_paths(tree)}
    units = {path: Unit(tree, path, None) for path in tops}
    unowned: list[Entry] = []
    for entry in tree.entries:
        top = _enclosing(entry.name, tops)
        if top is None:
            unowned.append(entry)
        elif entry.name != top:
            relative = entry.name[len(top) + 1:] if top else entry.name
            # Without a readable seal, still look for units inside and check them.
            inner = "" if tops[top] in (*EVALUATION_UNITS, PACK_KIND) else unit_of(PurePosixPath(relative))
            if inner in OUTSIDE_EVERY_SUM:
                unowned.append(entry)
            else:
                _assign(entry, relative, inner, units, top)
            pack = _outer(top)
            # Signatures come after the seal of a run, so no sum of the run can cover them. A pack is made later and
            # covers them.
            if inner in OUTSIDE_EVERY_SUM and tops.get(pack) == PACK_KIND and entry.kind != "folder":
                # Outside of the run's sums, and inside those of the pack.
                units[pack].entries.append(replace(entry, name=entry.name[len(pack):].lstrip("/")))
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


def _top_paths(tree: Tree) -> set[str]:
    """Folders that hold a manifest, a seal or sums and that are in no other such folder."""
    paths = {entry.name.rpartition("/")[0] for entry in tree.entries
              if entry.name.rpartition("/")[2] in (MANIFEST, SEAL, SUMS)}
    # An unfinished run next to sealed ones is reported, not verified; verified alone, it fails.
    paths = {path for path in paths if not any(part.endswith(PARTIAL_SUFFIX) for part in path.split("/"))}
    # A seal inside a sealed folder starts no new top: it could hide files from the outer checksums.
    tops = {path for path in paths if path == "" or _enclosing(path.rpartition("/")[0], paths) is None}
    # Runs in a pack are the exception: they were sealed before, and each keeps its own root and signatures.
    packed = {path for path in paths - tops if (outer := _outer(path)) in tops and _kind(tree, outer) == PACK_KIND}
    return tops | packed


def _outer(path: str) -> str:
    """Path of the pack, if this is the path of a run in one; for any other path `/`, which no unit has."""
    folder, _, _ = path.rpartition("/")
    outer, _, name = folder.rpartition("/")
    return outer if name == RUNS else "/"


def _enclosing(name: str, paths: Container[str]) -> str | None:
    """The innermost of the paths that a name is below: in a pack that of the run, else there is one at most."""
    while name:
        if name in paths:
            return name
        name = name.rpartition("/")[0]
    return "" if "" in paths else None


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


def _assign(entry: Entry, relative: str, inner: str, units: dict[str, Unit], top: str) -> None:
    """Give an entry to the unit that has to answer for it. ``relative``: its name within the top unit."""
    outer = units[top]
    if not inner or (relative == inner and entry.kind != "folder"):  # a file where only folders may be
        outer.entries.append(replace(entry, name=relative))
        return
    path = f"{top}/{inner}" if top else inner
    # A folder where a unit ought to be becomes one even without a seal, so that `integrity.sealed` fails for it.
    unit = units.setdefault(path, Unit(outer.tree, path, outer))
    if relative != inner:
        unit.entries.append(replace(entry, name=relative[len(inner) + 1:]))
