"""The record under verification: its files, its units, and what their files say, each read once."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from workings.errors import RecordError, RequestError
from workings.evidence.pack.form import PACK, RUNS, may_be_elsewhere, parse_pack
from workings.evidence.verify import tree as trees
from workings.evidence.verify.tree import Entry, Tree, shown
from workings.record import jsonl
from workings.record.canonical import loads
from workings.record.digest import bytes_digest
from workings.record.layout import (
    ATTEST,
    EVALUATION_UNITS,
    EVENTS,
    MANIFEST,
    METRICS,
    MODEL_SHAPE,
    OUTSIDE_EVERY_SUM,
    PARTIAL_SUFFIX,
    SAMPLED,
    SEAL,
    SUMS,
    unit_of,
)
from workings.record.manifest import RunManifest, parse_manifest
from workings.record.metrics import StepMetrics, check_line
from workings.record.plain import MAX_BYTES, parsed_bytes
from workings.record.seal import parse_seal, parse_sums

MAX_JSON_BYTES = MAX_BYTES
"""Largest file of JSON or JSON lines that is parsed."""
MAX_SUMS_BYTES = 16 << 20
"""Largest list of sums: some hundred bytes for each file."""
MAX_UNITS = 5_000
"""Most sealed folders that are looked at together: each takes milliseconds, however small it is."""
STEP_BYTES = 1_500
"""A step of the log in memory, when it was checked."""
# A seal is one line of a few hundred bytes, and it is read before anything about the unit is known.
MAX_SEAL_BYTES = 1 << 16
MAX_MANIFEST_BYTES = 1 << 20
PACK_KIND = "pack"
_T = TypeVar("_T")
Replay = Callable[[Path, tuple[Path, ...]], Mapping[str, Any]]
"""Takes steps of a run again, and draws again from units of samples that it drew; gives what came out."""


# Compared by identity: no two of them are one, and each may hold many thousand entries.
@dataclass(eq=False)
class Unit:
    """One sealed folder, or one that ought to be."""

    tree: Tree
    place: str
    """Path below what is verified; empty: that itself."""
    parent: "Unit | None"
    """The run that it stands in."""
    entries: list[Entry] = field(default_factory=list)
    """Everything below it that belongs to no unit inside it; names relative to it."""
    elsewhere: dict[str, int] = field(default_factory=dict)
    """Files that the pack around it names by digest instead of holding them, with their bytes. Only a checkpoint's
    tensors can be among them, and only with the digest that this unit's own sums have."""

    @property
    def title(self) -> str:
        """Its place, in reports."""
        return shown(self.place) or "."

    @cached_property
    def files(self) -> dict[str, Entry]:
        """Its files by name, links and the like included, without sums and seal."""
        return {entry.name: entry for entry in self.entries
                if entry.kind != "folder" and entry.name not in (SUMS, SEAL)}

    @cached_property
    def _plain(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.entries if entry.kind == "file")

    def has(self, name: str) -> bool:
        """Whether it has a plain file of this name."""
        return name in self._plain

    def full(self, name: str) -> str:
        """A name's path in the tree."""
        return f"{self.place}/{name}" if self.place else name

    def read(self, name: str, limit: int = MAX_JSON_BYTES) -> bytes:
        """Bytes of one of its files. Raises `RecordError`."""
        if not self.has(name):
            raise RecordError(f"{self.full(name)} is missing")
        return trees.read(self.tree, self.full(name), limit)

    def json(self, name: str) -> Any:
        """One of its JSON files, read once. Raises `RecordError`."""
        def parse() -> Any:
            data = self.read(name)
            self.tree.kept.spend(parsed_bytes(data))
            return loads(data)
        return self._once("json", name, parse)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """One of its JSON-lines files, read once. Raises `RecordError` for a torn or broken line."""
        def parse() -> list[dict[str, Any]]:
            data = self.read(name)
            self.tree.kept.spend(parsed_bytes(data, lines=True))
            rows, torn = jsonl.parse(data, self.full(name))
            if torn is not None:
                raise RecordError(f"{self.full(name)}: its last line is torn")
            return rows
        return self._once("lines", name, parse)

    @property
    def sums(self) -> dict[str, str]:
        """Digests that its `SHA256SUMS` lists. Raises `RecordError`."""
        return self._once("sums", SUMS, self._parse_sums)

    def _parse_sums(self) -> dict[str, str]:
        data = self.read(SUMS, MAX_SUMS_BYTES)
        self.tree.kept.spend(4 * len(data))
        return parse_sums(data)

    @property
    def seal(self) -> dict[str, Any]:
        """Its `SEAL.json`. Raises `RecordError`."""
        return self._once("seal", SEAL, lambda: parse_seal(self.read(SEAL, MAX_SEAL_BYTES)))

    @property
    def root(self) -> str:
        """Its root digest. Raises `RecordError`."""
        return bytes_digest(self.read(SUMS, MAX_SUMS_BYTES))

    @property
    def manifest(self) -> RunManifest:
        """Its `run_manifest.json`. Raises `RecordError`."""
        return self._once("manifest", MANIFEST, lambda: parse_manifest(self.read(MANIFEST, MAX_MANIFEST_BYTES)))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Lines of `train/metrics.jsonl`, as they stand."""
        return self.lines(METRICS)

    @property
    def steps(self) -> list[StepMetrics]:
        """The same lines, each checked against its schema. Raises `RecordError` naming the first that is wrong."""
        def checked() -> list[StepMetrics]:
            rows = self.metrics
            self.tree.kept.spend(STEP_BYTES * len(rows))
            return [check_line(row) for row in rows]
        return self._once("steps", METRICS, checked)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Lines of `train/events.jsonl`."""
        return self.lines(EVENTS)

    @property
    def is_run(self) -> bool:
        """Whether it is, or ought to be, a training run: it has a manifest, or its seal says so."""
        if self.has(MANIFEST):
            return True
        return self.kind == "run"

    @cached_property
    def described(self) -> bool:
        """Whether `workings train` wrote it: a record by the recorder alone says too little to be compared."""
        return self.has(MODEL_SHAPE)

    @property
    def kind(self) -> str:
        """What its seal says that it is; empty if that cannot be read."""
        try:
            return str(self.seal["unit"])
        except RecordError:
            return ""

    def once(self, name: str, make: Callable[[], _T], of: str = "") -> _T:
        """What several checks need of it, made by the first of them. Raises what it raised then, `RecordError`.

        Args:
            name: of what is made.
            make: makes it.
            of: the file that it is made of, where errors should name that instead.
        """
        return self._once("made", name, make, of)

    def _once(self, form: str, name: str, make: Callable[[], _T], of: str = "") -> _T:
        return self.tree.kept.once((self.place, form, name), make, self.full(of or name))


DrawnAgain = Callable[[bytes, Path, Sequence[str], Sequence[str]], bool]
"""Whether a page is what is drawn of a pack's records, of which two were compared: page, pack, records, those two."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Everything that checks look at."""

    tree: Tree
    units: tuple[Unit, ...]
    """Sealed folders (or such that ought to be), outer ones before those inside."""
    loose: tuple[Entry, ...]
    """What belongs to no unit: beside the runs, in `attest`, in unfinished runs."""
    expect_root: str = ""
    """Digest that the person kept elsewhere; empty: none was given."""
    progress: Callable[[int], None] | None = None
    """Called with the bytes hashed so far."""
    replay: Replay | None = None
    """For level 3; None: nobody brought an engine."""
    replayed: dict[str, Any] = field(default_factory=dict)
    """What came out so far, by the run's place."""
    report: DrawnAgain | None = None
    """Draws the report page of an unpacked pack again; None: nobody brought what does."""
    trusted: tuple[bytes, ...] = ()
    """Public keys in PEM that the person trusts."""
    authorities: tuple[bytes, ...] = ()
    """Certificates in PEM of time-stamp authorities that the person trusts."""

    @property
    def runs(self) -> list[Unit]:
        """Training runs."""
        return [unit for unit in self.units if unit.is_run]

    @property
    def packs(self) -> list[Unit]:
        """Packs; the runs in them are runs of this record."""
        return [unit for unit in self.units if unit.kind == PACK_KIND]

    @property
    def evaluations(self) -> list[Unit]:
        """Evaluations, inside a run or alone, and units of samples, which are that and more."""
        return [unit for unit in self.units if unit.kind in EVALUATION_UNITS]

    @property
    def samples(self) -> list[Unit]:
        """Units of samples: drawn to learn from."""
        return [unit for unit in self.units if unit.kind == SAMPLED]

    @property
    def measurements(self) -> list[Unit]:
        """Evaluations that say how good a model is; samples may be of questions that were trained on."""
        return [unit for unit in self.evaluations if unit.kind != SAMPLED]

    def attest(self, run: Unit) -> dict[str, Entry]:
        """What lies in a run's `attest`, folders in it included, by name."""
        prefix = run.full(ATTEST) + "/"
        return {entry.name.removeprefix(prefix): entry for entry in self.loose if entry.name.startswith(prefix)}

    @cached_property
    def root(self) -> str:
        """One digest over all: the only unit's root, or that of the lines `root  place` of all units.

        Raises `RecordError` if a unit has no sums.
        """
        if len(self.units) == 1 or (self.units[0].kind == PACK_KIND and self.units[0].place == ""):
            return self.units[0].root  # a pack's own root is over all: it lists every unit with its root
        # The form of `SHA256SUMS`, sorted by place: the same units give the same digest on every file system.
        lines = "".join(f"{unit.root}  {unit.place or '.'}\n" for unit in sorted(self.units, key=lambda u: u.place))
        return bytes_digest(lines.encode("utf-8"))


def load(tree: Tree, expect_root: str = "", progress: Callable[[int], None] | None = None,
         trusted: tuple[bytes, ...] = ()) -> Record:
    """Find the units of a tree.

    Raises:
        RequestError: there is none.
        RecordError: there are more than are looked at.
    """
    plain = frozenset(entry.name for entry in tree.entries if entry.kind == "file")
    # The order matters: first the outermost units, then which of them are packs, and only then whose file is whose.
    tops = {place: _may_nest(tree, place, plain) for place in _top_places(tree)}
    packs = {place for place in tops if _kind(tree, place) == PACK_KIND}
    units = {place: Unit(tree, place, None) for place in tops}
    loose: list[Entry] = []
    for entry in tree.entries:
        top = _enclosing(entry.name, tops)
        if top is None:
            loose.append(entry)
        elif entry.name != top:
            relative = entry.name[len(top) + 1:] if top else entry.name
            inner = unit_of(PurePosixPath(relative)) if tops[top] else ""
            if inner in OUTSIDE_EVERY_SUM:
                loose.append(entry)
            else:
                _assign(entry, relative, inner, units, top)
            pack = _outer(top)
            # Signatures come after the seal of a run, so no sum of the run can cover them. A pack is made later and
            # covers them.
            if inner in OUTSIDE_EVERY_SUM and pack in packs and entry.kind != "folder":
                # Outside of the run's sums, and inside those of the pack.
                units[pack].entries.append(replace(entry, name=entry.name[len(pack):].lstrip("/")))
    if len(units) > MAX_UNITS:
        raise RecordError(f"{len(units):,} sealed folders, more than {MAX_UNITS:,}: verify parts of it")
    if not units:
        raise RequestError(str(tree.path), "a run directory, a folder of runs, or a packed .zip",
                           "the folder that `workings train` named when it ended")
    # A run's place is a prefix of the places inside it, so sorting by place puts outer units first.
    ordered = tuple(unit for _, unit in sorted(units.items()))
    for unit in ordered:
        _name_elsewhere(unit, units)
    return Record(tree=tree, units=ordered, loose=tuple(loose), expect_root=expect_root, progress=progress,
                  trusted=trusted)


def _top_places(tree: Tree) -> set[str]:
    """Folders that hold a manifest, a seal or sums and that stand in no other such folder."""
    places = {entry.name.rpartition("/")[0] for entry in tree.entries
              if entry.name.rpartition("/")[2] in (MANIFEST, SEAL, SUMS)}
    # An unfinished run beside sealed ones is not verified, and said so; asked for by itself, it fails.
    places = {place for place in places if not any(part.endswith(PARTIAL_SUFFIX) for part in place.split("/"))}
    # A seal inside a sealed folder does not start a new top: somebody could hide files from the outer sums with it.
    tops = {place for place in places if place == "" or _enclosing(place.rpartition("/")[0], places) is None}
    # Runs in a pack are the exception: they were sealed before, and each keeps its own root and signatures.
    packed = {place for place in places - tops if (outer := _outer(place)) in tops and _kind(tree, outer) == PACK_KIND}
    return tops | packed


def _outer(place: str) -> str:
    """Where the pack would be if this were a run in one; for other places one that cannot be a unit's."""
    folder, _, _ = place.rpartition("/")
    outer, _, name = folder.rpartition("/")
    return outer if name == RUNS else "/"


def _enclosing(name: str, places: Container[str]) -> str | None:
    """The innermost place that a name stands in: in a pack that of the run, else there is one at most."""
    while name:
        if name in places:
            return name
        name = name.rpartition("/")[0]
    return "" if "" in places else None


def _may_nest(tree: Tree, place: str, plain: frozenset[str]) -> bool:
    """Whether units may stand in this one: in a run, and in what has lost the seal that would tell."""
    # Without a seal the widest reading is taken: units inside are then still looked for and checked.
    if (f"{place}/{SEAL}" if place else SEAL) not in plain:
        return True
    return _kind(tree, place) not in (*EVALUATION_UNITS, "replay", "report", "notes", PACK_KIND)


def _kind(tree: Tree, place: str) -> str:
    """What the seal at a place says that it seals; empty if that cannot be read."""
    try:
        return str(parse_seal(trees.read(tree, f"{place}/{SEAL}" if place else SEAL, MAX_SEAL_BYTES))["unit"])
    except RecordError:
        return ""


def _name_elsewhere(pack: Unit, units: dict[str, Unit]) -> None:
    """Tell runs which of their files the pack names by digest; what may not be named so is left to fail as missing."""
    if pack.kind != PACK_KIND:
        return
    try:
        rows = parse_pack(pack.json(PACK))[1]
    except RecordError:
        return  # integrity.pack says so
    for row in rows:
        run = units.get(pack.full(row.place))
        try:
            # The run's own sums decide, not the pack's list: a pack that could excuse any file would let a forger drop
            # a log.
            if run is not None and may_be_elsewhere(row.file) and not run.has(row.file) \
                    and run.sums.get(row.file) == row.sha256:
                run.elsewhere[row.file] = row.bytes
        except RecordError:
            continue  # a run without sums: integrity.sealed says so


def _assign(entry: Entry, relative: str, inner: str, units: dict[str, Unit], top: str) -> None:
    """Give an entry to the unit that has to answer for it. ``relative``: its name within the top unit."""
    outer = units[top]
    if not inner or (relative == inner and entry.kind != "folder"):  # a file where only folders may stand
        outer.entries.append(replace(entry, name=relative))
        return
    place = f"{top}/{inner}" if top else inner
    # A folder where a unit ought to stand becomes one even without a seal, so that `integrity.sealed` fails for it.
    unit = units.setdefault(place, Unit(outer.tree, place, outer))
    if relative != inner:
        unit.entries.append(replace(entry, name=relative[len(inner) + 1:]))
