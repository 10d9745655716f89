"""The record under verification: its files, its units, and the parsed contents of their files."""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from workings.errors import RecordError, RequestError
from workings.evidence.pack.form import PACK, RUNS, may_be_external, parse_pack
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
from workings.record.seal import parse_seal, parse_sums
from workings.record.untrusted_files import MAX_BYTES, parsed_bytes

MAX_JSON_BYTES = MAX_BYTES
"""Largest file of JSON or JSON lines that is parsed."""
MAX_SUMS_BYTES = 16 << 20
"""Largest list of sums: some hundred bytes for each file."""
MAX_UNITS = 5_000
"""Most sealed folders that are looked at together: each takes milliseconds, however small it is."""
STEP_BYTES = 1_500
"""Memory of a checked line of the log, in bytes."""
# A seal is one line of a few hundred bytes, and it is read before anything about the unit is known.
MAX_SEAL_BYTES = 1 << 16
MAX_MANIFEST_BYTES = 1 << 20
PACK_KIND = "pack"
_T = TypeVar("_T")
Replay = Callable[[Path, tuple[Path, ...]], Mapping[str, Any]]
"""Recomputes steps of a run, and samples of the units that it drew; the result is that of `workings verify --level 3`:
arguments are the run's folder and those of the samples."""


# Compared by identity: two units are never equal, and each may hold many thousand entries.
@dataclass(eq=False)
class Unit:
    """One sealed folder, or one that ought to be."""

    tree: Tree
    path: str
    """Path below what is verified; empty: that itself."""
    parent: "Unit | None"
    """The run that it stands in."""
    record: "Record" = field(init=False)
    """The record that it belongs to; set by `load`."""
    entries: list[Entry] = field(default_factory=list)
    """Everything below it that belongs to no unit inside it; names relative to it."""
    external_files: dict[str, int] = field(default_factory=dict)
    """Files that the pack around it names by digest instead of holding them, with their bytes. Only a checkpoint's
    tensors can be among them, and only with the digest that this unit's own sums have."""

    @property
    def title(self) -> str:
        """Its path, in reports."""
        return shown(self.path) or "."

    @cached_property
    def files(self) -> dict[str, Entry]:
        """Its files by name, links and the like included, without sums and seal."""
        return {entry.name: entry for entry in self.entries
                if entry.kind != "folder" and entry.name not in (SUMS, SEAL)}

    @cached_property
    def _plain_files(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.entries if entry.kind == "file")

    def has(self, name: str) -> bool:
        """Whether it has a plain file of this name."""
        return name in self._plain_files

    def tree_path(self, name: str) -> str:
        """Path in the tree of a name in this unit."""
        return f"{self.path}/{name}" if self.path else name

    def read(self, name: str, limit: int = MAX_JSON_BYTES) -> bytes:
        """Bytes of one of its files. Raises `RecordError`."""
        if not self.has(name):
            raise RecordError(f"{self.tree_path(name)} is missing")
        return trees.read(self.tree, self.tree_path(name), limit)

    def json(self, name: str) -> Any:
        """Contents of one of its JSON files, cached. Raises `RecordError`."""
        def parse() -> Any:
            data = self.read(name)
            self.tree.cache.reserve(parsed_bytes(data))
            return loads(data)
        return self._cached("json", name, parse)

    def json_object(self, name: str) -> dict[str, Any]:
        """`json` of a file that has to hold an object. Raises `RecordError`."""
        value = self.json(name)
        if not isinstance(value, dict):
            raise RecordError(f"{self.tree_path(name)}: not a JSON object")
        return value

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Rows of one of its JSON-lines files, cached. Raises `RecordError` for a torn or broken line."""
        def parse() -> list[dict[str, Any]]:
            data = self.read(name)
            self.tree.cache.reserve(parsed_bytes(data, lines=True))
            rows, torn = jsonl.parse(data, self.tree_path(name))
            if torn is not None:
                raise RecordError(f"{self.tree_path(name)}: its last line is torn")
            return rows
        return self._cached("lines", name, parse)

    @property
    def sums(self) -> dict[str, str]:
        """Digests that its `SHA256SUMS` lists. Raises `RecordError`."""
        return self._cached("sums", SUMS, self._parse_sums)

    def _parse_sums(self) -> dict[str, str]:
        data = self.read(SUMS, MAX_SUMS_BYTES)
        self.tree.cache.reserve(4 * len(data))
        return parse_sums(data)

    @property
    def seal(self) -> dict[str, Any]:
        """Its `SEAL.json`. Raises `RecordError`."""
        return self._cached("seal", SEAL, lambda: parse_seal(self.read(SEAL, MAX_SEAL_BYTES)))

    @property
    def root(self) -> str:
        """Its root digest. Raises `RecordError`."""
        return bytes_digest(self.read(SUMS, MAX_SUMS_BYTES))

    @property
    def manifest(self) -> RunManifest:
        """Its `run_manifest.json`. Raises `RecordError`."""
        return self._cached("manifest", MANIFEST, lambda: parse_manifest(self.read(MANIFEST, MAX_MANIFEST_BYTES)))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Lines of `train/metrics.jsonl`, as they stand."""
        return self.lines(METRICS)

    @property
    def steps(self) -> list[StepMetrics]:
        """The same lines, each checked against its schema. Raises `RecordError` naming the first that is wrong."""
        def checked() -> list[StepMetrics]:
            rows = self.metrics
            self.tree.cache.reserve(STEP_BYTES * len(rows))
            return [check_line(row) for row in rows]
        return self._cached("steps", METRICS, checked)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Lines of `train/events.jsonl`."""
        return self.lines(EVENTS)

    @property
    def is_run(self) -> bool:
        """Whether it is, or ought to be, a training run: it has a manifest, or its seal calls it a run."""
        return self.has(MANIFEST) or self.kind == "run"

    @cached_property
    def written_by_train(self) -> bool:
        """Whether `workings train` wrote it: what the recorder alone writes is too little for most comparisons."""
        return self.has(MODEL_SHAPE)

    @property
    def kind(self) -> str:
        """Kind of unit in its seal; empty if that cannot be read."""
        try:
            return str(self.seal["unit"])
        except RecordError:
            return ""

    def cached(self, name: str, make: Callable[[], _T], file: str = "") -> _T:
        """A value that is computed once and shared by all checks; a `RecordError` is cached and raised again.

        Args:
            name: key of the value in the cache.
            make: computes the value.
            file: file that errors name instead of ``name``.
        """
        return self._cached("computed", name, make, file)

    def _cached(self, form: str, name: str, make: Callable[[], _T], file: str = "") -> _T:
        return self.tree.cache.get_or_make((self.path, form, name), make, self.tree_path(file or name))


PageRegenerator = Callable[[bytes, Path, Sequence[str], Sequence[str]], bool]
"""Whether a report page equals the one that is generated from a pack's records. Arguments: the page, the pack's folder,
paths of its records, and paths of the two records that were compared."""


RoundsComparison = Callable[[Path], list[str]]
"""What the result of an improvement says otherwise than the runs and samples in its folder; empty where they agree."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """Everything that checks look at."""

    tree: Tree
    units: tuple[Unit, ...]
    """Sealed folders (or such that ought to be), outer ones before those inside."""
    unowned_entries: tuple[Entry, ...]
    """Entries that belong to no unit: beside the runs, in `attest`, in unfinished runs."""
    expect_root: str = ""
    """Root digest that the person expects; empty: none was given."""
    progress: Callable[[int], None] | None = None
    """Called with the bytes hashed so far."""
    replay: Replay | None = None
    """Recomputes steps for level 3; None: no engine was given."""
    replayed: dict[str, Any] = field(default_factory=dict)
    """Results of the replays so far, by the run's path."""
    report: PageRegenerator | None = None
    """Compares the report page of an unpacked pack with a new one; None: not given."""
    rounds: RoundsComparison | None = None
    """Compares the rounds of an improvement again; None: not given."""
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
        """Units of samples that a model drew as training data."""
        return [unit for unit in self.units if unit.kind == SAMPLED]

    @property
    def measurements(self) -> list[Unit]:
        """Evaluations that measure a model; samples are left out, as they may be of questions that were trained on."""
        return [unit for unit in self.evaluations if unit.kind != SAMPLED]

    def attest(self, run: Unit) -> dict[str, Entry]:
        """Entries of a run's `attest` folder by name, folders in it included."""
        prefix = run.tree_path(ATTEST) + "/"
        return {entry.name.removeprefix(prefix): entry for entry in self.unowned_entries
                if entry.name.startswith(prefix)}

    @cached_property
    def root(self) -> str:
        """One digest over all: the only unit's root, or that of the lines `root  path` of all units.

        Raises `RecordError` if a unit has no sums.
        """
        if len(self.units) == 1 or (self.units[0].kind == PACK_KIND and self.units[0].path == ""):
            return self.units[0].root  # a pack's own root is over all: it lists every unit with its root
        # The form of `SHA256SUMS`, sorted by path: the same units give the same digest on every file system.
        lines = "".join(f"{unit.root}  {unit.path or '.'}\n" for unit in sorted(self.units, key=lambda unit: unit.path))
        return bytes_digest(lines.encode("utf-8"))


def load(tree: Tree, expect_root: str = "", progress: Callable[[int], None] | None = None,
         trusted: tuple[bytes, ...] = (), replay: Replay | None = None, authorities: tuple[bytes, ...] = (),
         report: PageRegenerator | None = None, rounds: RoundsComparison | None = None) -> Record:
    """Find the units of a tree; the other arguments become fields of the record.

    Raises:
        RequestError: there is no unit.
        RecordError: there are more than `MAX_UNITS`.
    """
    plain = frozenset(entry.name for entry in tree.entries if entry.kind == "file")
    # The order matters: first the outermost units, then which of them are packs, and only then whose file is whose.
    tops = {path: _may_nest(tree, path, plain) for path in _top_paths(tree)}
    packs = {path for path in tops if _kind(tree, path) == PACK_KIND}
    units = {path: Unit(tree, path, None) for path in tops}
    unowned: list[Entry] = []
    for entry in tree.entries:
        top = _enclosing(entry.name, tops)
        if top is None:
            unowned.append(entry)
        elif entry.name != top:
            relative = entry.name[len(top) + 1:] if top else entry.name
            inner = unit_of(PurePosixPath(relative)) if tops[top] else ""
            if inner in OUTSIDE_EVERY_SUM:
                unowned.append(entry)
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
    # A run's path is a prefix of the paths inside it, so sorting by path puts outer units first.
    ordered = tuple(unit for _, unit in sorted(units.items()))
    for unit in ordered:
        _assign_external_files(unit, units)
    record = Record(tree=tree, units=ordered, unowned_entries=tuple(unowned), expect_root=expect_root,
                    progress=progress, trusted=trusted, replay=replay, authorities=authorities, report=report,
                    rounds=rounds)
    for unit in ordered:
        unit.record = record
    return record


def _top_paths(tree: Tree) -> set[str]:
    """Folders that hold a manifest, a seal or sums and that stand in no other such folder."""
    paths = {entry.name.rpartition("/")[0] for entry in tree.entries
              if entry.name.rpartition("/")[2] in (MANIFEST, SEAL, SUMS)}
    # An unfinished run beside sealed ones is not verified, and said so; asked for by itself, it fails.
    paths = {path for path in paths if not any(part.endswith(PARTIAL_SUFFIX) for part in path.split("/"))}
    # A seal inside a sealed folder does not start a new top: somebody could hide files from the outer sums with it.
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


def _may_nest(tree: Tree, path: str, plain: frozenset[str]) -> bool:
    """Whether units may stand in this one: in a run, and in what has lost the seal that would tell."""
    # Without a seal the widest reading is taken: units inside are then still looked for and checked.
    if (f"{path}/{SEAL}" if path else SEAL) not in plain:
        return True
    return _kind(tree, path) not in (*EVALUATION_UNITS, "replay", "report", "notes", PACK_KIND)


def _kind(tree: Tree, path: str) -> str:
    """Kind of unit in the seal at a path; empty if that cannot be read."""
    try:
        return str(parse_seal(trees.read(tree, f"{path}/{SEAL}" if path else SEAL, MAX_SEAL_BYTES))["unit"])
    except RecordError:
        return ""


def _assign_external_files(pack: Unit, units: dict[str, Unit]) -> None:
    """Note in each run which of its files the pack names by digest; any other file fails as missing."""
    if pack.kind != PACK_KIND:
        return
    try:
        rows = parse_pack(pack.json(PACK))[1]
    except RecordError:
        return  # reported by integrity.pack
    for row in rows:
        run = units.get(pack.tree_path(row.run_path))
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
    if not inner or (relative == inner and entry.kind != "folder"):  # a file where only folders may stand
        outer.entries.append(replace(entry, name=relative))
        return
    path = f"{top}/{inner}" if top else inner
    # A folder where a unit ought to stand becomes one even without a seal, so that `integrity.sealed` fails for it.
    unit = units.setdefault(path, Unit(outer.tree, path, outer))
    if relative != inner:
        unit.entries.append(replace(entry, name=relative[len(inner) + 1:]))
