"""A sealed run, opened as it was trained: its engine, the rows it saw, the weights it began with, its checkpoints."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from workings.config.load import LoadedRecipe, check_recipe
from workings.config.recipe import Recipe
from workings.config.training import MeshConfig
from workings.data.batches import Batches
from workings.data.rows import RowSet, build_rows
from workings.engines.base import Engine, EngineRequest, State
from workings.engines.registry import find_engine
from workings.errors import RecordError, RequestError
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.tokenizer import Tokenizer
from workings.record import jsonl
from workings.record.canonical import loads
from workings.record.checkpoints import Checkpoint
from workings.record.digest import file_digest
from workings.record.layout import MODEL_SHAPE, OVERRIDES, ROWS, TOKENIZER
from workings.record.reader import Run
from workings.record.values import Absent
from workings.runs.datasets import find_sources
from workings.runs.inputs import find_weights
from workings.runs.load import AS_RECORDED


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Where the parts of a run lie that its record does not hold, and on what it is opened."""

    data: Path | None = None
    """The file of traces; None: where the recipe names it."""
    weights: Path | None = None
    """Directory of the weights that training started from; None: where the recipe names it."""
    device: str = AS_RECORDED
    fsdp: int = 0
    """Devices over which rows and parameters are split; 0: as the recipe means it here."""


@dataclass(frozen=True, kw_only=True)
class Reopened:
    """A run whose steps can be taken again."""

    run: Run
    recipe: Recipe
    engine: Engine
    rows: RowSet
    tokenizer: Tokenizer
    template: ChatTemplate
    weights: Path | None
    """Directory of the weights that training started from; None: random ones."""

    @cached_property
    def kept(self) -> dict[int, Path]:
        """Checkpoint folders by step, unchecked."""
        return {int(path.name.removeprefix("step_")): path for path in self.run.checkpoints.folders()}

    def checkpoint(self, step: int) -> Checkpoint:
        """The checkpoint of a step, every byte checked. Raises `RecordError`."""
        return self.run.checkpoints.load(self.kept[step])

    def first_state(self, seed: int) -> State:
        """The state before the first step: the weights of the recipe, or random ones of a seed."""
        return self.engine.init(seed) if self.weights is None else self.engine.load(self.weights)

    def batches(self, seed: int) -> Batches:
        """The rows in the order of a seed, as many a step as the run had, whatever this machine's mesh is."""
        batch, mesh = self.recipe.batch, self.run.manifest.mesh
        return Batches(self.rows, seed=seed, rows_per_micro_batch=batch.micro_batch * mesh.get("fsdp", 1),
                       accumulation=batch.accumulation, data_config=self.recipe.data)


def reopen(path: Path, parts: Parts) -> Reopened:
    """Open a sealed run as it was trained.

    Raises:
        RequestError: no sealed run; data or weights that are not there or are not the recorded ones; no such engine
            or device.
        RecordError: the record is damaged.
    """
    run = Run.open(path)
    loaded = _as_it_was_asked(run, parts)
    recipe = loaded.recipe
    tokenizer = Tokenizer.load(path / TOKENIZER)
    template = ChatTemplate.for_config(recipe.data.template, tokenizer)
    rows = _rows(run, loaded, tokenizer, template)
    weights = _weights(run, loaded, parts)
    return Reopened(run=run, recipe=recipe, engine=_engine(run, recipe, weights, parts), rows=rows,
                    tokenizer=tokenizer, template=template, weights=weights)


def _as_it_was_asked(run: Run, parts: Parts) -> LoadedRecipe:
    """The run's recipe, with paths that lead where they led; evaluation data are not needed."""
    recipe = check_recipe(run.manifest.config_snapshot, str(run.path))
    asked = loads((run.path / OVERRIDES).read_bytes())
    base = asked.get("base") if isinstance(asked, dict) else None
    recipe = recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(
        update={"traces": "none", "items": "none"})})
    if parts.data is not None:
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(
            update={"traces": str(parts.data.absolute())})})
    place = run.path.resolve() / base if isinstance(base, str) else Path.cwd()
    return LoadedRecipe(recipe=recipe, text="", origin=str(run.path), base=place.resolve(), overrides=())


def _rows(run: Run, loaded: LoadedRecipe, tokenizer: Tokenizer, template: ChatTemplate) -> RowSet:
    """The rows that the run was trained on, found again by its row index and proved by its digests."""
    digests = run.manifest.data_digests
    try:
        sources = find_sources(loaded)
    except RequestError as error:
        raise RequestError(f"{error.given}, the data that {run.path.name} was trained on",
                           f"a file with SHA-256 {digests.get('traces')}", "--data FILE says where it lies") from None
    if sources.digests["traces"] != digests.get("traces"):
        raise RequestError(f"traces {loaded.recipe.data.traces} with SHA-256 {sources.digests['traces']}",
                           f"the data that the run was trained on, SHA-256 {digests.get('traces')}",
                           "--data FILE says where they lie")
    known = {row["id"] for row in jsonl.read(run.path / ROWS)[0]}
    rows = build_rows([trace for trace in sources.traces if trace.id in known], tokenizer, template,
                      loaded.recipe.data)
    if rows.digest != digests.get("rows"):
        raise RecordError(f"{run.path}: its row index does not follow from data, tokenizer and template "
                          f"({rows.digest[:16]}…, recorded {str(digests.get('rows'))[:16]}…)")
    return rows


def _weights(run: Run, loaded: LoadedRecipe, parts: Parts) -> Path | None:
    """Where the weights lie that training started from, proved by their digests; None for random ones."""
    recorded = run.manifest.weight_digests
    if isinstance(recorded, Absent):
        return None
    directory = parts.weights or find_weights(loaded).directory
    assert directory is not None  # random weights have no digests
    for name, digest in recorded.items():
        if not (directory / name).is_file() or file_digest(directory / name) != digest:
            raise RequestError(f"{directory / name}, which is not the file that training started from",
                               f"SHA-256 {digest}", "--weights DIRECTORY says where the weights lie")
    return directory


def _engine(run: Run, recipe: Recipe, weights: Path | None, parts: Parts) -> Engine:
    """The run's engine on this machine: on the mesh that the recipe means here, or on one device where that is none."""
    wanted = recipe.device if parts.device == AS_RECORDED else parts.device
    shape = ModelShape(**loads((run.path / MODEL_SHAPE).read_bytes()))

    def opened(mesh: MeshConfig) -> Engine:
        return find_engine(recipe.engine).engine.open(
            EngineRequest.of(recipe, shape, device=wanted, mesh=mesh, weights=weights))

    if parts.fsdp:
        return opened(MeshConfig(fsdp=parts.fsdp, tp=1))
    rows = run.manifest.global_batch // recipe.batch.accumulation
    try:
        engine = opened(recipe.mesh)
    except RequestError:  # the recipe asks for more devices than there are here
        return opened(MeshConfig(fsdp=1, tp=1))
    return engine if rows % engine.describe().mesh.get("fsdp", 1) == 0 else opened(MeshConfig(fsdp=1, tp=1))
