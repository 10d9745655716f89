"""The record under verification: its units, and the parsed contents of their files.

Values are read when a check asks for them, and kept for the next one. A file that cannot be read raises `RecordError`.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property, wraps
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, TypeVar

from workings.config.algorithm import Algorithm, find_algorithm
from workings.config.load import check_recipe
from workings.config.recipe import Recipe
from workings.errors import RecordError, RequestError
from workings.evidence.verify.tree import Entry, Tree, shown
from workings.plugins import OURS
from workings.record import jsonl, layout
from workings.record.canonical import loads
from workings.record.checkpoints import BestCheckpoint, best_checkpoint, step_of
from workings.record.digest import bytes_digest
from workings.record.manifest import RunManifest, read_manifest
from workings.record.metrics import StepMetrics, check_line, nothing_left
from workings.record.seal import parse_seal, parse_sums
from workings.record.storage import MAX_BYTES, memory_limit, parsed_bytes
from workings.record.values import is_absent

MAX_SEAL_BYTES, MAX_SUMS_BYTES = 1 << 16, 16 << 20
"""A seal has a few hundred bytes, a list of sums about a hundred for each file."""
STEP_BYTES = 1_500
"""Memory of a checked line of the log, in bytes."""
PACK_KIND = "pack"
STARTS = ("started", "resumed")
"""Kinds of events with which a run starts or resumes."""
_T = TypeVar("_T")
Replay = Callable[[Path, tuple[Path, ...]], Mapping[str, Any]]
"""Recomputes steps of a run, and samples that it drew, from their folders; returns the facts of the replay."""


def computed_once(name: str, file: str = "") -> Callable[[Callable[["Unit"], _T]], Callable[["Unit"], _T]]:
    """Decorator of a function of a unit whose value all checks share. Arguments as for `Unit.cached`."""
    def decorate(function: Callable[["Unit"], _T]) -> Callable[["Unit"], _T]:
        @wraps(function)
        def get(unit: "Unit") -> _T:
            return unit.cached(name, lambda: function(unit), file)
        return get
    return decorate


def section_of(value: dict[str, Any], key: str) -> dict[str, Any]:
    """A section of a JSON object; empty if it is missing, or absent with a reason."""
    section = value.get(key)
    return section if isinstance(section, dict) and not is_absent(section) else {}


def field_of(value: Any, field: str) -> Any:
    """The value of a field such as `model.run` (keys with dots between them) of JSON; None where a key is missing."""
    for key in field.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


# Compared by identity: two units are never equal, and each may hold many thousand entries.
@dataclass(eq=False)
class Unit:
    """One sealed folder, or a folder at the place of one."""

    tree: Tree
    path: str
    """Path below the verified folder; empty: the folder itself."""
    parent: "Unit | None"
    """The run around it; None for a run, a pack, and a unit of its own."""
    record: "Record" = field(init=False)
    """The record that it belongs to; set by `load`."""
    inside: list["Unit"] = field(default_factory=list)
    """The units whose parent it is."""
    entries: list[Entry] = field(default_factory=list)
    """Its files and folders, without those of the units inside it; names are relative to it."""
    external_files: dict[str, int] = field(default_factory=dict)
    """Bytes of the files that the pack around it names by digest instead of holding them: tensors of checkpoints."""

    @property
    def title(self) -> str:
        """Its path, as reports show it."""
        return shown(self.path) or "."

    @cached_property
    def files(self) -> dict[str, Entry]:
        """Its files by name, also links and devices, without sums and seal."""
        return {entry.name: entry for entry in self.entries
                if entry.kind != "folder" and entry.name not in (layout.SUMS, layout.SEAL)}

    @cached_property
    def _plain_files(self) -> frozenset[str]:
        return frozenset(entry.name for entry in self.entries if entry.kind == "file")

    def has(self, name: str) -> bool:
        """Whether it has a plain file of this name."""
        return name in self._plain_files

    def tree_path(self, name: str) -> str:
        """Path in the tree of a name in this unit."""
        return f"{self.path}/{name}" if self.path else name

    def path_in(self, outer: "Unit") -> str:
        """Its path in a unit around it."""
        return self.path[len(outer.path):].lstrip("/")

    @property
    def units_inside(self) -> dict[str, "Unit"]:
        """The units in it by their path in it."""
        return {unit.path_in(self): unit for unit in self.record.units
                if unit is not self and unit.path.startswith(self.tree_path(""))}

    def read(self, name: str, limit: int = MAX_BYTES) -> bytes:
        """Bytes of one of its files. Raises `RecordError`."""
        # Do not follow links or devices out of the sealed folder.
        if not self.has(name):
            raise RecordError(f"{self.tree_path(name)} is missing")
        return self.tree.read(self.tree_path(name), limit)

    def open(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """One of its files as a stream. Raises `RecordError`, also while it is read."""
        return self.tree.open(self.tree_path(name))

    def json(self, name: str) -> Any:
        """Contents of one of its JSON files, cached. Raises `RecordError`."""
        return self.cached(f"json of {name}", lambda: loads(self._to_parse(name)), name)

    def json_object(self, name: str) -> dict[str, Any]:
        """`json` of a file that has to hold an object. Raises `RecordError`."""
        value = self.json(name)
        if not isinstance(value, dict):
            raise RecordError(f"{self.tree_path(name)}: not a JSON object")
        return value

    def lines(self, name: str) -> list[dict[str, Any]]:
        """Rows of one of its JSON-lines files, cached. Raises `RecordError` for a torn or broken line."""
        def parse() -> list[dict[str, Any]]:
            rows, torn = jsonl.parse(self._to_parse(name, lines=True), self.tree_path(name))
            if torn is not None:
                raise RecordError(f"{self.tree_path(name)}: its last line is torn")
            return rows
        return self.cached(f"lines of {name}", parse, name)

    def _to_parse(self, name: str, *, lines: bool = False) -> bytes:
        data = self.read(name, memory_limit() if lines else MAX_BYTES)
        # Before parsing: Python's objects take many times the bytes of the text.
        self.tree.cache.reserve(parsed_bytes(data, lines=lines))
        return data

    @property
    @computed_once("sums", layout.SUMS)
    def sums(self) -> dict[str, str]:
        """Digests that its `SHA256SUMS` lists. Raises `RecordError`, as all that follow."""
        data = self.read(layout.SUMS, MAX_SUMS_BYTES)
        self.tree.cache.reserve(4 * len(data))
        return parse_sums(data)

    @property
    @computed_once("seal", layout.SEAL)
    def seal(self) -> dict[str, Any]:
        """Its `SEAL.json`."""
        return parse_seal(self.read(layout.SEAL, MAX_SEAL_BYTES))

    @property
    def root(self) -> str:
        """Its root digest."""
        return bytes_digest(self.read(layout.SUMS, MAX_SUMS_BYTES))

    @property
    @computed_once("manifest", layout.MANIFEST)
    def manifest(self) -> RunManifest:
        """Its `run_manifest.json`."""
        return read_manifest(self)

    @property
    def in_float32_on_cpu(self) -> bool:
        """Whether two programs agree closely on its numbers: accelerators may compute products in fewer bits."""
        formats = {self.manifest.actual_dtypes.get(name) for name in ("parameters", "compute")}
        return formats == {"float32"} and self.manifest.device.platform == "cpu"

    @property
    @computed_once("recipe", layout.MANIFEST)
    def recipe(self) -> Recipe | None:
        """Its resolved recipe; None where this version does not read it."""
        try:
            return check_recipe(self.manifest.config, layout.CONFIG)
        except RequestError:
            return None

    def section(self, name: str) -> dict[str, Any]:
        """A section of its resolved recipe; empty if it is missing."""
        return section_of(self.manifest.config, name)

    @property
    def algorithm(self) -> type[Algorithm]:
        """The way of its recipe; imitation if the recipe names none that is known, which another check reports."""
        return find_algorithm(self.section("algorithm").get("name"))

    @property
    def engine_is_ours(self) -> bool:
        """Whether its engine came with this package."""
        return self.manifest.engine_distribution.name == OURS

    @property
    def best(self) -> BestCheckpoint | None:
        """The best checkpoint, by recipe and log; None if the recipe keeps the last one."""
        return best_checkpoint(self.section("checkpoint"), self.metrics, self.manifest.planned_steps)

    @property
    def early_end(self) -> str:
        """Why the run is complete before its last step, by recipe and log; empty where it may not be."""
        if self.manifest.completed_steps >= self.manifest.planned_steps:
            return ""
        best = self.best
        if best is not None and best.ends_the_run:
            return best.reason if best.last_step == self.manifest.completed_steps else ""
        return nothing_left(self.section("algorithm"), self.metrics)

    @property
    def kept_step(self) -> int:
        """Step of the checkpoint that is evaluated: the best one or the last."""
        return self.manifest.completed_steps if self.best is None else self.best.step

    @cached_property
    def checkpoints(self) -> dict[int, str]:
        """Folders of its checkpoints by step, in order. A name without a step is an error."""
        names = {name.split("/")[1] for name in self.files if name.startswith(f"{layout.CHECKPOINTS}/step_")}
        return {step: f"{layout.CHECKPOINTS}/{name}" for step, name in sorted((step_of(name), name) for name in names)}

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Lines of `train/metrics.jsonl`, unchanged."""
        return self.lines(layout.METRICS)

    @property
    @computed_once("steps", layout.METRICS)
    def steps(self) -> list[StepMetrics]:
        """The same lines, each checked against its schema; an error names the first that is wrong."""
        self.tree.cache.reserve(STEP_BYTES * len(self.metrics))
        return [check_line(row) for row in self.metrics]

    @property
    def events(self) -> list[dict[str, Any]]:
        """Lines of `train/events.jsonl`."""
        return self.lines(layout.EVENTS)

    @property
    def starts(self) -> list[dict[str, Any]]:
        """The events with which it was started and resumed."""
        return [row for row in self.events if row.get("kind") in STARTS]

    @property
    def recipe_evaluation(self) -> "Unit | None":
        """The run's own evaluation by its recipe; None if it has none."""
        return next((unit for unit in self.inside if unit.path_in(self) == layout.RECIPE_EVALUATION
                     and unit.kind in layout.EVALUATION_UNITS), None)

    @property
    def is_run(self) -> bool:
        """Whether it is a training run: it has a manifest, or its seal calls it a run."""
        return self.has(layout.MANIFEST) or self.kind == "run"

    @cached_property
    def written_by_train(self) -> bool:
        """Whether `workings train` wrote it; the recorder alone writes too little for most comparisons."""
        return self.has(layout.MODEL_SHAPE)

    @property
    def written_by_this_version(self) -> bool:
        """Whether this version's `workings train` wrote it, so that its views can be regenerated."""
        return self.written_by_train and self.manifest.workings_version == version(OURS)

    @property
    def kind(self) -> str:
        """Kind of unit in its seal; empty if that cannot be read."""
        try:
            return str(self.seal["unit"])
        except RecordError:
            return ""

    def cached(self, name: str, make: Callable[[], _T], file: str = "") -> _T:
        """A value that is computed once and shared by all checks. An error is cached too, and raised as `RecordError`.

        ``name``: of the value; ``file``: is named in errors, if given.
        """
        return self.tree.cache.get_or_make((self.path, name), make, self.tree_path(file) if file else "")


SUBJECTS: Mapping[str, Callable[[Unit], bool]] = {
    "units": lambda unit: True, "runs": lambda unit: unit.is_run, "packs": lambda unit: unit.kind == PACK_KIND,
    "evaluations": lambda unit: unit.kind in layout.EVALUATION_UNITS,
    "samples": lambda unit: unit.kind == layout.SAMPLED,
    "measurements": lambda unit: unit.kind in layout.EVALUATION_UNITS and unit.kind != layout.SAMPLED}
"""Kinds of units that checks are about. Samples are evaluations, but no measurements."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The record under verification, with the verifier's inputs."""

    tree: Tree
    units: tuple[Unit, ...]
    """Units by path: outer ones before those inside."""
    unowned_entries: tuple[Entry, ...]
    """Entries that belong to no unit: next to the runs, in `attest`, in unfinished runs."""
    expect_root: str
    """Root digest that the verifier expects; empty: none given."""
    trusted: tuple[bytes, ...]
    """Public keys in PEM that the verifier trusts."""
    replay: Replay | None
    """Recomputes steps for level 3; None: no engine was given."""
    replayed: dict[str, Any] = field(default_factory=dict)
    """Results of the replays so far, by the run's path."""

    def units_of(self, subject: str) -> list[Unit]:
        """Units of a kind, a key of `SUBJECTS`."""
        return [unit for unit in self.units if SUBJECTS[subject](unit)]

    @property
    def runs(self) -> list[Unit]:
        """Training runs."""
        return self.units_of("runs")

    @cached_property
    def by_root(self) -> dict[str, Unit]:
        """Units by their root; those without sums are left out."""
        return {unit.root: unit for unit in self.units if unit.has(layout.SUMS)}

    def attest(self, run: Unit) -> dict[str, Entry]:
        """Entries of a run's `attest` folder by name, folders in it included."""
        # Signatures come after the seal, so their folder belongs to no unit.
        prefix = run.tree_path(layout.ATTEST) + "/"
        return {entry.name.removeprefix(prefix): entry for entry in self.unowned_entries
                if entry.name.startswith(prefix)}

    @cached_property
    def root(self) -> str:
        """One digest over all: the only unit's root, or that of the lines `root  path` of all units."""
        if len(self.units) == 1 or (self.units[0].kind == PACK_KIND and self.units[0].path == ""):
            return self.units[0].root  # a pack's own root is over all: it lists every unit with its root
        lines = "".join(f"{unit.root}  {unit.path or '.'}\n" for unit in sorted(self.units, key=lambda unit: unit.path))
        return bytes_digest(lines.encode("utf-8"))
