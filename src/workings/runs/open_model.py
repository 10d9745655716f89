"""Opens existing models: sealed runs, to generate or to repeat their steps, and weights that were not trained here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workings.config.families import TEMPLATES
from workings.config.load import LoadedRecipe, check_recipe
from workings.config.model import FromPretrained
from workings.config.recipe import DEFAULT_ENGINE, Recipe
from workings.config.training import MeshConfig, PrecisionConfig
from workings.distributed.process_group import ProcessGroup, facts_of
from workings.engines.base import Engine, EngineRequest
from workings.engines.registry import engine_names, find_engine
from workings.engines.session import ModelSession, tokens_at_a_time
from workings.engines.weight_files import read_shape
from workings.errors import RecordError, RequestError
from workings.hardware.device import without_alias
from workings.inputs import resolve
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.tokenizer import Tokenizer
from workings.record.canonical import loads
from workings.record.checkpoints import Checkpoint
from workings.record.layout import MANIFEST, MODEL_SHAPE, TOKENIZER
from workings.record.reader import RunRecord
from workings.record.values import Absent
from workings.ways.parts.teacher import recorded_name

AS_RECORDED = "as recorded"
"""In place of the name of a device: that of the run's recipe."""
DEVICES = ("auto", "cpu", "gpu", "cuda", "tpu")
_ONE_DEVICE = MeshConfig(fsdp=1, tp=1)
ALONE = ProcessGroup(None)
"""A group of this process only."""


@dataclass(frozen=True, kw_only=True)
class OpenedModel:
    """A model on an engine, ready to generate."""

    session: ModelSession
    request: EngineRequest
    """The request by which the engine was opened."""
    facts: dict[str, Any]
    """Identity of the model: name and step of a run's checkpoint; or name, revision and file digests of weights."""
    root: str | None = None
    """Root digest of the sealed run; None for weights that come from none."""


@dataclass(frozen=True, kw_only=True)
class TrainedModel(OpenedModel):
    """A checkpoint on an engine, and the sealed run that it comes from."""

    run: RunRecord
    recipe: Recipe
    checkpoint: Checkpoint


@dataclass(frozen=True, kw_only=True)
class WeightsRequest:
    """Settings to open weights without a recipe."""

    template: str
    """Chat turns, as `data.template`. Never guessed: a wrong one lowers the score."""
    form: str = "any"
    """Expected form of its answers; `channel` asks for Gemma 4's thinking, the others change no prompt."""
    engine: str = DEFAULT_ENGINE
    device: str = "auto"
    precision: str = "fp32"
    """Number format of weights and arithmetic: `fp32` or `bf16`."""
    tokenizer: Path | None = None
    """Directory of the tokenizer; None: that of the weights."""
    revision: str = "main"
    """Branch, tag or commit of a repository on the Hub."""


@dataclass(frozen=True, kw_only=True)
class SealedRun(resolve.RecipeModel):
    """A sealed run with its recipe, tokenizer, template and shape."""

    run: RunRecord

    @classmethod
    def open(cls, path: Path) -> "SealedRun":
        """Reads the record. Raises `RequestError` if there is no sealed run."""
        run = RunRecord.open(path)
        recipe = check_recipe(run.manifest.config, str(path))
        loaded = LoadedRecipe(recipe=recipe, text="", origin=str(path), base=resolve.recorded_base(run), overrides=())
        # The record's copy: a tokenizer trained for the run exists nowhere else.
        tokenizer = Tokenizer.load(path / TOKENIZER)
        return cls(run=run, loaded=loaded, tokenizer=tokenizer,
                   shape=ModelShape(**loads((path / MODEL_SHAPE).read_bytes())),
                   template=ChatTemplate.for_config(recipe.data.template, tokenizer, recipe.data.reasoning))

    def open_engine(self, device: str, weights: Path | None, fsdp: int = 0, elsewhere: MeshConfig = _ONE_DEVICE
                    ) -> Engine:
        """The run's engine on this machine, on the mesh of its recipe or with ``fsdp`` devices.

        If this machine lacks the devices of the recipe's mesh, the mesh ``elsewhere`` is used: answers stay the same.
        """
        recipe = self.recipe
        if device != AS_RECORDED:
            _refuse_other("--device", device, DEVICES)
        mesh = MeshConfig(fsdp=fsdp, tp=1) if fsdp else recipe.mesh
        request = EngineRequest.of(recipe, self.shape,
                                   device=recipe.device if device == AS_RECORDED else without_alias(device),
                                   mesh=mesh, weights=weights)
        engine_class = find_engine(recipe.engine).engine
        try:
            return engine_class.open(request)
        except RequestError:
            if fsdp or mesh == elsewhere:
                raise
            # A laptop can answer with the model of a run on eight chips: generation needs no mesh.
            return engine_class.open(replace(request, mesh=elsewhere))

    def find_weights(self, model: FromPretrained, try_next: str, *, tensors: bool = True) -> Path:
        """Folder of the weights that training started from: as the recipe names it, near the run, or of the Hub."""
        # Full fine-tuning can resume without its base weights; adapters cannot.
        adapters = not self.recipe.method.trains_all_weights
        return resolve.recorded_weights(self.run, model, try_next, adapters=adapters, tensors=tensors).folder

    def recorded_weights(self, given: Path | None) -> resolve.Weights:
        """The weights that training started from, checked by their digests: in the folder ``given``, or found."""
        manifest, model = self.run.manifest, self.recipe.model
        recorded = manifest.weight_digests
        if isinstance(recorded, Absent) or not isinstance(model, FromPretrained):
            return resolve.Weights(directory=None, id=manifest.model_id, revision=resolve.RANDOM)
        try_next = "--weights DIRECTORY gives their path"
        directory = given or self.find_weights(model, try_next)
        # Only files that training read; a folder may hold others, such as a second format.
        for name in resolve.differing_weights(directory, recorded):
            if name in recorded:
                raise RequestError(f"{directory / name} is not the file that training started from",
                                   f"SHA-256 {recorded[name]}", try_next)
        return resolve.Weights(directory=directory, id=manifest.model_id, revision=str(manifest.model_revision))


def open_model(model: str | Path, weights: WeightsRequest | None, device: str = AS_RECORDED,
               group: ProcessGroup = ALONE) -> OpenedModel:
    """Opens a sealed run (see `open_run`), or with ``weights`` a folder or Hub id of weights (see `open_weights`)."""
    return open_run(Path(model), device, group) if weights is None else open_weights(str(model), weights)


def processes_of(path: Path) -> ProcessGroup:
    """The processes that a launcher started to open a sealed run together. Raises as `ProcessGroup.of`."""
    return ProcessGroup.of(SealedRun.open(path).recipe.engine)


def follow_run(path: Path, device: str, group: ProcessGroup) -> None:
    """Holds this process's part of a sealed run's model until process 0, which opens the same run, is done."""
    group.work(_open_part(SealedRun.open(path), device, group), None, lambda: False)


def _open_part(sealed: SealedRun, device: str, group: ProcessGroup) -> Engine:
    """The engine of this process, once all have found the same run."""
    # On other weights than their own, adapters answer worse without an error.
    weights = _weights_below_adapters(sealed)
    # Before the devices are opened together: if a process is missing, that fails without a reason.
    group.agree({"root": sealed.run.root, "workings": version("workings")}, {})
    engine = sealed.open_engine(device, weights, elsewhere=_ONE_DEVICE if group.count == 1 else MeshConfig())
    group.agree(facts_of(engine), {})
    return engine


def open_run(path: Path, device: str = AS_RECORDED, group: ProcessGroup = ALONE) -> TrainedModel:
    """Opens a sealed run's best or last checkpoint on its engine. The other processes of ``group`` call `follow_run`.

    Raises:
        RequestError: no sealed run, no such engine or device, or the weights below its adapters are missing.
        RecordError: it has no intact checkpoint, or its files do not belong together.
    """
    sealed = SealedRun.open(path)
    # Every byte is hashed, and instead of a damaged checkpoint an older one is taken.
    checkpoint = sealed.run.kept_checkpoint()
    engine = group.coordinate(_open_part(sealed, device, group))
    session = sealed.session(engine, engine.restore(checkpoint.path))
    recipe = sealed.recipe
    # Only the run's name, because a path would reveal this machine's folders.
    return TrainedModel(run=sealed.run, recipe=recipe, checkpoint=checkpoint, session=session, root=sealed.run.root,
                        request=EngineRequest.of(recipe, sealed.shape),
                        facts={"run": path.resolve().name, "step": checkpoint.step})


def open_untrained(path: Path) -> ModelSession:
    """Opens the untrained model of a sealed run on the run's engine. Raises `RequestError`."""
    sealed = SealedRun.open(path)
    weights = sealed.recorded_weights(None).directory
    engine = sealed.open_engine(AS_RECORDED, weights)
    # The same seed gives the same random weights on every mesh.
    state = (engine.init(sealed.recipe.seed, trainable=False) if weights is None
             else engine.load(weights, trainable=False))
    return sealed.session(engine, state)


def starting_weights(path: Path, *, tensors: bool = True) -> Path:
    """The folder of a sealed run's first weights, or without ``tensors`` of what describes them; unchecked.

    Raises `RequestError` if they are not where the recipe had them, or the run began with random weights.
    """
    sealed = SealedRun.open(path)
    model = sealed.recipe.model
    if not isinstance(model, FromPretrained):
        raise RequestError(f"the first weights of {path} were random and are not kept",
                           "a run that did not start from random weights")
    return sealed.find_weights(model, f"run it in the folder that {model.id} is relative to", tensors=tensors)


def open_weights(model: str, request: WeightsRequest) -> OpenedModel:
    """Opens weights in safetensors from a folder, or from the Hub by their id. Raises `RequestError`."""
    _refuse_other("--template", request.template, list(TEMPLATES))
    _refuse_other("--precision", request.precision, ["fp32", "bf16"])
    _refuse_other("--device", request.device, DEVICES)
    _refuse_other("--engine", request.engine, engine_names())
    weights = resolve.locate_weights(model, request.revision, [Path.cwd()])
    resolve.refuse_unread_revision("--revision", request.revision, weights)
    directory = weights.folder
    has_config = (directory / "config.json").is_file()
    if not has_config or not any(directory.glob("*.safetensors")):
        missing = "weights in safetensors" if has_config else "config.json"
        raise RequestError(f"{model} has no {missing}",
                           "a sealed run, or a folder with config.json, *.safetensors and tokenizer.json",
                           "workings eval RUN --items ITEMS.jsonl --out DIR")
    tokenizer_folder = directory
    if request.tokenizer:
        tokenizer_folder = resolve.local_folder(str(request.tokenizer), [Path.cwd()]) or request.tokenizer
    tokenizer = Tokenizer.load(tokenizer_folder)
    template = ChatTemplate.for_config(request.template, tokenizer, request.form)
    precision = PrecisionConfig.model_validate({"parameters": request.precision, "compute": request.precision})
    engine_request = EngineRequest(shape=read_shape(directory), device=without_alias(request.device),
                                   precision=precision, weights=directory)
    engine = find_engine(request.engine).engine.open(engine_request)
    # Before hashing all weights, because a broken header is found at once.
    state = engine.load(directory, trainable=False)
    facts = {"id": recorded_name(weights), "revision": weights.revision,
             "precision": request.precision, "weights": resolve.weight_digests(directory)}
    session = ModelSession(engine=engine, state=state, tokenizer=tokenizer, template=template,
                           tokens_at_a_time=tokens_at_a_time(engine_request.shape, engine.describe().platform))
    return OpenedModel(session=session, facts=facts, request=engine_request)


def _refuse_other(option: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise RequestError(f"{option} {value or repr(value)} is unknown", f"one of {', '.join(allowed)}",
                           f"{option} {allowed[0]}")


def _weights_below_adapters(sealed: SealedRun) -> Path | None:
    """The frozen weights below a run's adapters, checked by their digests; None if the checkpoint needs none."""
    run, recipe = sealed.run, sealed.recipe
    if recipe.method.trains_all_weights or not isinstance(recipe.model, FromPretrained):
        return None
    directory = sealed.find_weights(recipe.model, f"run it in the folder that {recipe.model.id} is relative to")
    recorded = run.manifest.weight_digests
    if differing := resolve.differing_weights(directory, {} if isinstance(recorded, Absent) else recorded):
        raise RecordError(f"{run.path}: its adapters do not belong to the weights in {directory}: "
                          f"{', '.join(differing)} differ from the digests in {MANIFEST}")
    return directory
