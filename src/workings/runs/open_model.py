"""Opens existing models: sealed runs, to generate or to repeat their steps, and weights that were not trained here."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from workings.config.algorithms import TeacherAlgorithm, TraceDistill
from workings.config.keys import section_at
from workings.config.load import LoadedRecipe, check_recipe
from workings.config.model import FromPretrained
from workings.config.recipe import DEFAULT_ENGINE, Recipe
from workings.config.training import AdamWConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.data.batches import Batches, Position
from workings.data.pair_rows import build_pair_rows, pair_ids
from workings.data.reference import LogProbs, from_lines
from workings.data.rows import RowSet, build_rows
from workings.data.top_tokens import TeacherTopTokens, TopTokenFiles, TopTokensOfRow
from workings.engines.base import Engine, EngineRequest, LikelihoodEngine, State
from workings.engines.registry import engine_names, find_engine
from workings.engines.session import ModelSession
from workings.engines.weight_files import read_shape
from workings.errors import RecordError, RequestError
from workings.evidence.replay.distillation_source import DistillationSource
from workings.evidence.replay.pair_source import PairSource
from workings.evidence.replay.rollout_source import Change, RecordedRewards, RolloutSource
from workings.evidence.replay.steps import BatchSource, TraceSource
from workings.hardware.device import without_alias
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.tokenizer import Tokenizer
from workings.record import jsonl
from workings.record.canonical import loads
from workings.record.checkpoints import Checkpoint
from workings.record.layout import (
    MANIFEST,
    MODEL_SHAPE,
    PROMPTS,
    REFERENCE_LOG_PROBS,
    ROWS,
    TOKENIZER,
    rollout_file,
    top_tokens_file,
)
from workings.record.plain import read_plain
from workings.record.reader import RunRecord
from workings.record.values import Absent, absent
from workings.rollouts.prompts import Prompt, PromptSet, read_recorded_prompts
from workings.rollouts.rollout import Rollout
from workings.rollouts.rollout_json import from_json
from workings.runs.data.datasets import RunData, find_data
from workings.runs.data.find_teacher import find_teacher
from workings.runs.data.row_data import PairData, row_data
from workings.runs.data.teacher import LogProbFunction, Teacher, recorded_name
from workings.runs.data.training_data import prompt_data
from workings.runs.recorded_paths import recorded_base, recorded_bases, recorded_weights
from workings.runs.resolve import (
    RANDOM,
    ResolvedRun,
    Weights,
    differing_weights,
    locate_weights,
    weight_digests,
)
from workings.training.distillation_experience import TopTokensFunction
from workings.training.preference_experience import log_probs_by_row

AS_RECORDED = "as recorded"
"""Stands for the device of the run's recipe."""
DEVICES = ("auto", "cpu", "gpu", "cuda", "tpu")
_ONE_DEVICE = MeshConfig(fsdp=1, tp=1)


@dataclass(frozen=True, kw_only=True)
class TrainedModel:
    """A trained model, ready to generate, and the sealed run that it comes from."""

    run: RunRecord
    recipe: Recipe
    checkpoint: Checkpoint
    session: ModelSession
    """That checkpoint on an engine."""
    request: EngineRequest
    """The recipe's request to the engine."""

    @property
    def root(self) -> str:
        """Root digest of the sealed run."""
        return self.run.root


@dataclass(frozen=True, kw_only=True)
class WeightsRequest:
    """Settings to open weights without a recipe."""

    template: str
    """Chat turns: `gemma`, `gemma4`, `tokenizer` (its own) or `plain`. Never guessed: the wrong one costs points."""
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
class OpenedWeights:
    """Weights on an engine, ready to generate."""

    session: ModelSession
    facts: dict[str, Any]
    """Identity of the model: name, revision, digest of every file of weights."""
    request: EngineRequest
    """The request by which the engine was opened."""


@dataclass(frozen=True, kw_only=True)
class ReplayInputs:
    """Paths of a run's inputs that its record does not hold, and the device."""

    data: Path | None = None
    """The file of traces; None: where the recipe names it."""
    weights: Path | None = None
    """Directory of the weights that training started from; None: where the recipe names it."""
    device: str = AS_RECORDED
    fsdp: int = 0
    """Devices over which rows and parameters are split; 0: as the recipe's mesh resolves here."""


@dataclass(frozen=True, kw_only=True)
class ReopenedRun(ResolvedRun):
    """A sealed run whose steps can be repeated."""

    run: RunRecord
    engine: Engine
    rows_or_prompts: RowSet | PromptSet
    """Rows that the run was trained on, or prompts of its rollouts."""
    teacher: Teacher | Absent
    """The teacher, or why it cannot be opened; its recorded log probabilities are then used."""

    @cached_property
    def checkpoints_by_step(self) -> dict[int, Path]:
        """Checkpoint folders by step, unchecked."""
        return {int(path.name.removeprefix("step_")): path for path in self.run.checkpoints.folders()}

    def checkpoint(self, step: int) -> Checkpoint:
        """The checkpoint of a step, every byte checked. Raises `RecordError`."""
        return self.run.checkpoints.load(self.checkpoints_by_step[step])

    def source(self, seed: int, *, exact: bool, change: Change | None = None) -> BatchSource:
        """Batch source that reproduces the run's batches from a seed.

        Batches have the recorded number of rows, whatever the mesh is here.

        Args:
            seed: decides data order and sampling.
            exact: train on completions that are sampled here instead of the recorded ones (see `RolloutSource`).
            change: modifies rollouts, for the negative controls of a run with rollouts.
        """
        fsdp = self.run.manifest.mesh.get("fsdp", 1)
        if isinstance(self.rows_or_prompts, RowSet):
            rows = row_data(self.recipe.model_copy(update={"seed": seed}), self.rows_or_prompts, fsdp)
            if isinstance(self.recipe.algorithm, TraceDistill):
                return self._distillation_source(rows.batches, self.recipe.algorithm)
            return self._pair_source(rows, exact) if isinstance(rows, PairData) else TraceSource(rows.batches)
        teacher = None if isinstance(self.teacher, Absent) else self._teacher_log_probs
        data = prompt_data(self, replace(self.rows_or_prompts, seed=seed), fsdp)
        first = self.rollout(1)
        if first is None:
            raise RecordError(f"{self.run.path}: no rollout of step 1")
        # Its rewards come from the record: nothing is rewarded here.
        sampler = data.rollout_sampler(self.engine, RecordedRewards(recorded=first), teacher)
        source = RolloutSource(sampler=sampler, recorded=self.rollout, exact=exact)
        return source if change is None else replace(source, change=change)

    def _pair_source(self, data: PairData, exact: bool) -> PairSource:
        """Preference pairs with their reference log probabilities: recorded ones or, for an exact replay, new ones."""
        recorded = from_lines(jsonl.read(self.run.path / REFERENCE_LOG_PROBS)[0])
        # Another seed, for a control, may begin with rows that a short run never reached.
        known = {**dict.fromkeys(data.rows.ids, 0.0), **recorded}
        if not exact:
            return PairSource(batches=data.batches, recorded=known)

        def compute(state: State, position: Position) -> LogProbs:
            engine = self.engine
            reference = self._first_weights if self.recipe.method.name == "full" else data.reference(engine, state)
            assert isinstance(engine, LikelihoodEngine)  # the run was trained by one
            return log_probs_by_row(engine, reference, data.batches, position)

        return PairSource(batches=data.batches, recorded=known, compute=compute)

    def _distillation_source(self, batches: Batches, algorithm: TraceDistill) -> DistillationSource:
        """Traces with the teacher's top tokens: computed again if the teacher can be opened, else the recorded ones."""
        teacher = None if isinstance(self.teacher, Absent) else self._teacher_top_tokens
        return DistillationSource(batches=batches, objective=algorithm.objective, recorded=self._recorded_top_tokens,
                            compute=teacher)

    @cached_property
    def _recorded_top_tokens(self) -> TeacherTopTokens:
        """Recorded teacher top tokens.

        Rows that a short run never reached get uniform placeholder values, because a negative control with another
        seed may reach them.
        """
        assert isinstance(self.rows_or_prompts, RowSet)
        assert isinstance(self.recipe.algorithm, TraceDistill)
        count = self.recipe.algorithm.top_k
        counts = self.rows_or_prompts.learned_positions
        recorded: dict[str, TopTokensOfRow] = {}
        own = row_data(self.recipe, self.rows_or_prompts, self.run.manifest.mesh.get("fsdp", 1))
        files = TopTokenFiles(batches=own.batches, steps=own.steps, counts=counts, count=count)
        for number, part in enumerate(files.parts):
            recorded |= files.read(read_plain(self.run.path / top_tokens_file(number)), part)
        return {name: TopTokensOfRow(np.zeros((size, count), np.int32), np.full((size, count), -np.log(2 * count)))
                for name, size in counts.items() if name not in recorded} | recorded

    @cached_property
    def _first_weights(self) -> State:
        """The model before training, loaded once: it stays in memory beside the trained one."""
        return self.initial_state(self.engine, self.recipe.seed, trainable=False)

    @cached_property
    def _teacher_log_probs(self) -> LogProbFunction:
        """The teacher's log probabilities; it is opened once, because all controls need it as well."""
        assert isinstance(self.teacher, Teacher)  # the caller has checked
        return self.teacher.open(self.engine, self)

    @cached_property
    def _teacher_top_tokens(self) -> TopTokensFunction:
        """The teacher's most likely tokens; it is opened once."""
        assert isinstance(self.teacher, Teacher)
        assert isinstance(self.recipe.algorithm, TraceDistill)
        return self.teacher.open_for_tokens(self.engine, self, self.recipe.algorithm.top_k)

    def rollout(self, step: int) -> Rollout | None:
        """The rollout whose first update is ``step``, read from its file; None if there is none."""
        path = self.run.path / rollout_file(step)
        return from_json(loads(read_plain(path)), self._prompts) if path.is_file() else None

    @cached_property
    def _prompts(self) -> dict[str, Prompt]:
        assert isinstance(self.rows_or_prompts, PromptSet)
        return {prompt.item.id: prompt for prompt in self.rows_or_prompts.prompts}


@dataclass(frozen=True, kw_only=True)
class _SealedRun:
    """A sealed run with its recipe, tokenizer, template and shape."""

    run: RunRecord
    loaded: LoadedRecipe
    tokenizer: Tokenizer
    template: ChatTemplate
    shape: ModelShape

    @classmethod
    def open(cls, path: Path) -> "_SealedRun":
        run = RunRecord.open(path)
        recipe = check_recipe(run.manifest.config_snapshot, str(path))
        # The manifest's recipe has every override in it, so none is applied a second time.
        loaded = LoadedRecipe(recipe=recipe, text="", origin=str(path), base=recorded_base(run), overrides=())
        # The record's own copy: a tokenizer that was trained for the run exists nowhere else.
        tokenizer = Tokenizer.load(path / TOKENIZER)
        return cls(run=run, loaded=loaded, tokenizer=tokenizer,
                   shape=ModelShape(**loads((path / MODEL_SHAPE).read_bytes())),
                   template=ChatTemplate.for_config(recipe.data.template, tokenizer, recipe.data.reasoning))

    def open_engine(self, device: str, weights: Path | None, fsdp: int = 0) -> Engine:
        """The run's engine on this machine, on the mesh that the recipe means here.

        A run that was trained by more devices or processes than are here is opened on one device: where its weights
        lie does not change its answers.
        """
        recipe = self.loaded.recipe
        mesh = MeshConfig(fsdp=fsdp, tp=1) if fsdp else recipe.mesh
        request = EngineRequest.of(recipe, self.shape, device=recipe.device if device == AS_RECORDED else device,
                                   mesh=mesh, weights=weights)
        engine_class = find_engine(recipe.engine).engine
        try:
            return engine_class.open(request)
        except RequestError:
            # A mesh that the caller named, or one device already: there is nothing else to try.
            if fsdp or (mesh.fsdp, mesh.tp) == (1, 1):
                raise
            return engine_class.open(replace(request, mesh=_ONE_DEVICE))

    @property
    def bases(self) -> list[Path]:
        """Folders that a relative name of the recipe may start from."""
        return recorded_bases(self.run)

    def find_weights(self, model: FromPretrained, try_next: str, *, tensors: bool = True) -> Path:
        """The weights that training started from: where the recipe named them, near the run, or on the Hub."""
        adapters = self.loaded.recipe.method.name != "full"
        directory = recorded_weights(self.run, model, try_next, adapters=adapters, tensors=tensors).directory
        assert directory is not None  # only a model from scratch has none
        return directory


def open_run(path: Path, device: str = AS_RECORDED) -> TrainedModel:
    """Open a sealed run's last checkpoint on the engine that made it.

    Args:
        path: the run directory.
        device: `auto`, `cpu`, `gpu` or `tpu`; by default what the recipe asked for.

    Raises:
        RequestError: no sealed run there, its engine is not installed, its device is absent, or it holds adapters and
            the weights that they belong on are not where they were.
        RecordError: it has no intact checkpoint, or its files do not belong together.
    """
    sealed = _SealedRun.open(path)
    # Every byte is digested, which takes a while for gigabytes; a damaged checkpoint is passed over for an older one.
    checkpoint, skipped = sealed.run.checkpoints.latest_valid()
    if checkpoint is None:
        raise RecordError("\n".join([f"{path} has no intact checkpoint", *skipped]))
    # The base of adapters is proved first: on other weights they still answer, only worse.
    engine = sealed.open_engine(device, _weights_below_adapters(sealed))
    session = ModelSession(engine=engine, state=engine.restore(checkpoint.path), tokenizer=sealed.tokenizer,
                           template=sealed.template)
    recipe = sealed.loaded.recipe
    return TrainedModel(run=sealed.run, recipe=recipe, checkpoint=checkpoint, session=session,
                        request=EngineRequest.of(recipe, sealed.shape))


def open_untrained(path: Path) -> ModelSession:
    """The model that a sealed run began with, on the run's engine, to be asked.

    Raises:
        RequestError: no sealed run there, its engine or device is absent, or the weights that it began with are not
            where they were, or are others.
    """
    sealed = _SealedRun.open(path)
    weights = _recorded_weights(sealed, None).directory
    engine = sealed.open_engine(AS_RECORDED, weights)
    state = (engine.init(sealed.loaded.recipe.seed, trainable=False) if weights is None
             else engine.load(weights, trainable=False))
    return ModelSession(engine=engine, state=state, tokenizer=sealed.tokenizer, template=sealed.template)


def starting_weights(path: Path, *, tensors: bool = True) -> Path:
    """The folder with the weights that a sealed run began with, found again; its files are not digested.

    Args:
        path: the run directory.
        tensors: also the weights themselves; without them only what describes them is downloaded again.

    Raises:
        RequestError: they are not where the recipe had them, or the run began with random weights.
    """
    sealed = _SealedRun.open(path)
    model = sealed.loaded.recipe.model
    if not isinstance(model, FromPretrained):
        raise RequestError(f"the first weights of {path}", "a run that began with weights, not with random ones")
    return sealed.find_weights(model, f"type it in the folder that {model.id} is relative to", tensors=tensors)


def reopen_run(path: Path, inputs: ReplayInputs) -> ReopenedRun:
    """Open a sealed run as it was trained: its engine, the rows it saw, the weights it began with, its checkpoints.

    Raises:
        RequestError: no sealed run; data or weights that are not there or are not the recorded ones; no such engine
            or device.
        RecordError: the record is damaged.
    """
    sealed = _SealedRun.open(path)
    run, recipe = sealed.run, sealed.loaded.recipe
    # Files are proved by their digests before a device is opened.
    if recipe.uses_rollouts:
        # The record holds prompts with their tokens: no data file is needed.
        data = RunData(traces=[], held_out=[], items=[], digests={})
        rows_or_prompts: RowSet | PromptSet = _recorded_prompts(sealed)
    else:
        data = _recorded_data(sealed, inputs.data)
        rows_or_prompts = _recorded_rows(sealed, data)
    weights = _recorded_weights(sealed, inputs.weights)
    engine = sealed.open_engine(inputs.device, weights.directory, inputs.fsdp)
    rows_of_micro_batch = run.manifest.global_batch // recipe.batch.accumulation
    # Micro batches keep the recorded number of rows. Where it does not divide among the devices here,
    # one device takes them all.
    if not inputs.fsdp and rows_of_micro_batch % engine.describe().mesh.get("fsdp", 1):
        engine = sealed.open_engine(inputs.device, weights.directory, fsdp=1)
    return ReopenedRun(loaded=sealed.loaded, data=data, weights=weights, tokenizer=sealed.tokenizer,
                       template=sealed.template, shape=sealed.shape, run=run, engine=engine,
                       rows_or_prompts=rows_or_prompts, teacher=_recorded_teacher(sealed))


def open_weights(model: str, request: WeightsRequest) -> OpenedWeights:
    """Open weights in safetensors from a folder, or from the Hub by their id.

    Raises:
        RequestError: no such folder, no `config.json`, weights or tokenizer in it, an unknown template, engine or
            precision, or a device that is absent.
    """
    _check(request)
    weights = locate_weights(model, request.revision, [Path.cwd()])
    directory = weights.directory
    assert directory is not None  # only a model from scratch has none
    described = (directory / "config.json").is_file()
    if not described or not any(directory.glob("*.safetensors")):
        raise RequestError(f"{model}, without {'weights in safetensors' if described else 'config.json'}",
                           "a sealed run, or a folder with config.json, *.safetensors and tokenizer.json",
                           "workings eval RUN --items ITEMS.jsonl --out DIR")
    tokenizer = Tokenizer.load(request.tokenizer or directory)
    template = ChatTemplate.for_config(request.template, tokenizer, request.form)
    precision = PrecisionConfig.model_validate({"parameters": request.precision, "compute": request.precision})
    # An engine cannot be opened without an optimizer; nothing is trained here.
    engine_request = EngineRequest(
        shape=read_shape(directory), device=without_alias(request.device), optimizer=AdamWConfig(name="adamw"),
        precision=precision, memory=MemoryConfig(), mesh=MeshConfig(), seed=0, weights=directory)
    engine = find_engine(request.engine).engine.open(engine_request)
    # Loaded before the digests, which read all weights once: a broken file is found by its header.
    state = engine.load(directory, trainable=False)
    facts = {"id": recorded_name(weights), "revision": weights.revision,
             "precision": request.precision, "weights": weight_digests(directory)}
    session = ModelSession(engine=engine, state=state, tokenizer=tokenizer, template=template)
    return OpenedWeights(session=session, facts=facts, request=engine_request)


def _check(request: WeightsRequest) -> None:
    # The recipe's own schema knows the templates, so this list cannot fall behind it.
    templates = section_at(["data"])[0].model_fields["template"].annotation
    known = tuple(getattr(templates, "__args__", ()))
    for name, given, allowed in (("--template", request.template, known),
                                 ("--precision", request.precision, ("fp32", "bf16")),
                                 ("--device", request.device, DEVICES),
                                 ("--engine", request.engine, tuple(engine_names()))):
        if given not in allowed:
            raise RequestError(f"{name} {given}".rstrip() if given else f"no {name}", f"one of {', '.join(allowed)}",
                               f"{name} {allowed[0]}")


def _recorded_data(sealed: _SealedRun, given: Path | None) -> RunData:
    """The data that the run was trained on, checked by their digest; evaluation data are not needed."""
    run, recipe = sealed.run, sealed.loaded.recipe
    # Absolute, because a relative name would be looked for beside the recipe and not here.
    traces = recipe.data.traces if given is None else str(given.absolute())
    # Held-out traces and items may be gone by now, and no step depends on them.
    traces_only = recipe.model_copy(update={
        "data": recipe.data.model_copy(update={"traces": traces}),
        "evaluation": recipe.evaluation.model_copy(update={"traces": "none", "items": "none"})})
    expected = run.manifest.data_digests.get("traces")
    try:
        data = find_data(replace(sealed.loaded, recipe=traces_only))
    except RequestError as error:
        raise RequestError(f"{error.given}, the data that {run.path.name} was trained on",
                           f"a file with SHA-256 {expected}", "--data FILE gives its path") from None
    # A file of the same name may have changed since; only its bytes prove it.
    if data.digests["traces"] != expected:
        raise RequestError(f"traces {traces} with SHA-256 {data.digests['traces']}",
                           f"the data that the run was trained on, SHA-256 {expected}",
                           "--data FILE gives their path")
    return data


def _recorded_rows(sealed: _SealedRun, data: RunData) -> RowSet:
    """The rows that the run was trained on, selected by its row index and checked by its digest."""
    run, digest = sealed.run, sealed.run.manifest.data_digests.get("rows")
    # A smoke run takes the first traces only, and rows that are too long may be dropped: the index has the others.
    index = {row["id"]: row for row in jsonl.read(run.path / ROWS)[0]}
    known = set(index)
    settings = sealed.tokenizer, sealed.template, sealed.loaded.recipe.data
    if sealed.loaded.recipe.learns_from_pairs:
        known = set(pair_ids(list(index)))
        rows = build_pair_rows([pair for pair in data.pairs if pair.id in known], *settings).rows
    else:
        rows = build_rows([trace for trace in data.traces if trace.id in known], *settings)
    # The rules that make rows may have changed with the version; then no step could be the same.
    if rows.digest != digest:
        raise RecordError(f"{run.path}: its row index does not follow from data, tokenizer and template "
                          f"({rows.digest[:16]}…, recorded {str(digest)[:16]}…)")
    # A row's digest covers its mask; the index's count of learned turns has to be compared as well.
    if wrong := [line["id"] for line in rows.index if line["status"] == "kept"
                 and line.get("learned_turns") != index[line["id"]].get("learned_turns")]:
        raise RecordError(f"{run.path}: {ROWS} has other learned turns than the data give, for {wrong[0][:80]!r}")
    return rows


def _recorded_prompts(sealed: _SealedRun) -> PromptSet:
    """The prompts of the run's rollouts, checked by their digest."""
    run = sealed.run
    prompts = read_recorded_prompts(jsonl.read(run.path / PROMPTS)[0], run.manifest.seed)
    if prompts.digest != run.manifest.data_digests.get("prompts"):
        raise RecordError(f"{run.path}: {PROMPTS} is not what its manifest names")
    return prompts


def _recorded_teacher(sealed: _SealedRun) -> Teacher | Absent:
    """The teacher, if it is at the recipe's path or near the run and equals the recorded one byte for byte."""
    recipe = sealed.loaded.recipe
    if not isinstance(recipe.algorithm, TeacherAlgorithm):
        return absent("the run has none")
    try:
        teacher = find_teacher(sealed.loaded, sealed.tokenizer, sealed.shape, sealed.bases)
        same = teacher.digest == sealed.run.manifest.data_digests.get("teacher")
    except RequestError as error:
        return absent(f"{error.given}; needed: {error.expected}")
    except RecordError as error:
        return absent(str(error))
    return teacher if same else absent(f"{recipe.algorithm.teacher} is not the teacher that the run was trained with")


def _recorded_weights(sealed: _SealedRun, given: Path | None) -> Weights:
    """The weights that training started from, checked by their digests."""
    manifest, model = sealed.run.manifest, sealed.loaded.recipe.model
    recorded = manifest.weight_digests
    if isinstance(recorded, Absent) or not isinstance(model, FromPretrained):
        return Weights(directory=None, id=manifest.model_id, revision=RANDOM)
    try_next = "--weights DIRECTORY gives their path"
    directory = given or sealed.find_weights(model, try_next)
    for name in differing_weights(directory, recorded):
        if name in recorded:
            raise RequestError(f"{directory / name}, which is not the file that training started from",
                               f"SHA-256 {recorded[name]}", try_next)
    return Weights(directory=directory, id=manifest.model_id, revision=str(manifest.model_revision))


def _weights_below_adapters(sealed: _SealedRun) -> Path | None:
    """The frozen weights below a run's adapters, checked by their digests.

    Returns:
        None if the checkpoint holds all weights (full fine-tuning) or the base is random weights of the seed.

    Raises:
        RequestError: they are not where the recipe had them.
        RecordError: the weights found there are not those that the run was trained on.
    """
    run, recipe = sealed.run, sealed.loaded.recipe
    if recipe.method.name == "full" or not isinstance(recipe.model, FromPretrained):
        return None
    directory = sealed.find_weights(recipe.model,
                                    f"type it in the folder that {recipe.model.id} is relative to")
    recorded = run.manifest.weight_digests
    differing = differing_weights(directory, {} if isinstance(recorded, Absent) else recorded)
    if differing:
        raise RecordError(f"{run.path}: its adapters belong on other weights than those in {directory}: "
                          f"{', '.join(differing)} differ from the digests in {MANIFEST}")
    return directory


