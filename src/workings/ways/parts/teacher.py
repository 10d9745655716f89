"""The teacher of a distillation run: finds a frozen model, identifies it by digests, opens it next to the student."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from workings.config.algorithm import TeacherKeys, TeacherPrecision
from workings.config.load import LoadedRecipe, check_recipe
from workings.config.method import FULL, FullConfig, LoraConfig, QloraConfig
from workings.config.model import FromPretrained
from workings.config.recipe import Recipe
from workings.config.training import AdamWConfig, MeshConfig, PrecisionConfig
from workings.engines.base import AdapterEngine, Engine, EngineRequest, LikelihoodEngine, State, TeachingEngine
from workings.engines.registry import find_engine
from workings.engines.weight_files import read_shape
from workings.errors import RecordError, RequestError
from workings.inputs import resolve
from workings.inputs.object_store import is_stored
from workings.models.batch import Batch
from workings.models.hub import LOCAL, is_local
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config, to_hf_config
from workings.models.shards import stored_files
from workings.models.tokenizer import Tokenizer
from workings.objectives.base import CROSS_ENTROPY, SeveralTargets
from workings.record.canonical import loads
from workings.record.digest import file_digest, json_digest
from workings.record.layout import CHECKPOINTS, MODEL_SHAPE, SEAL, SUMS, TOKENIZER
from workings.record.reader import RunRecord
from workings.record.seal import parse_seal, parse_sums
from workings.record.values import Absent

MODEL_FILE, ADAPTER_FILE = "model.safetensors", "adapter_model.safetensors"
"""Files of a checkpoint: all weights, under the name by which an engine loads them, or the adapters alone."""
LogProbFunction = Callable[[Batch], np.ndarray]
"""A model's log probabilities of a batch's targets: ``[A, B, S]`` float32."""
TopTokensFunction = Callable[[Batch], tuple[np.ndarray, np.ndarray]]
"""A teacher's most likely tokens at a batch's positions, and their log probabilities: ``[A, B, S, K]`` each."""
Method = FullConfig | LoraConfig | QloraConfig


@dataclass(frozen=True, kw_only=True)
class TeacherModel:
    """What a plan must know of a teacher."""

    shape: ModelShape
    method: Method = FULL
    """The method that it was trained by. Adapters are not merged into its weights."""


@dataclass(frozen=True, kw_only=True)
class Base:
    """The frozen model below a teacher's adapters."""

    weights: resolve.Weights
    recorded: Mapping[str, str]
    """SHA-256 of its files by name, as recorded in the teacher's run; empty for random weights."""
    seed: int
    """Seed of random weights."""

    def facts(self) -> dict[str, Any]:
        """Its identity for the record; tensors are downloaded first. Raises `RecordError` if its files have changed."""
        if self.weights.directory is None:
            return {"id": self.weights.id, "seed": self.seed}
        resolve.fetch_tensors(self.weights)
        if differing := resolve.differing_weights(self.weights.directory, self.recorded):
            raise RecordError(f"{self.weights.directory}: {', '.join(differing)}: not what the adapters of the teacher "
                              "were trained next to")
        return {"id": recorded_name(self.weights), "weights": dict(self.recorded)}

    def load(self, engine: Engine) -> State:
        """Loads the model without adapters, frozen."""
        if self.weights.directory is None:
            return engine.init(self.seed, trainable=False)
        return engine.load(self.weights.directory, trainable=False)


@dataclass(frozen=True, kw_only=True)
class Teacher(TeacherModel):
    """A frozen model, found and not yet opened."""

    algorithm: TeacherKeys
    tokenizer: Tokenizer
    weights: resolve.Weights
    """For a sealed run, the folder of its last checkpoint."""
    base: Base | None = None
    """Model below its adapters; None if it has none."""
    run: RunRecord | None = None
    """The sealed run that it comes from; None for weights that were not trained here."""

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Its identity for the record, with the digest of every file, after a download. Raises `RecordError`."""
        directory = self.weights.folder
        facts: dict[str, Any] = {"precision": self.algorithm.teacher_precision, "tokenizer": self.tokenizer.digest}
        if self.run is None:
            resolve.fetch_tensors(self.weights)
            return facts | {"id": recorded_name(self.weights), "revision": self.weights.revision,
                            "weights": resolve.weight_digests(directory)}
        names = [f"{CHECKPOINTS}/{directory.name}/{file.name}" for file in self._files]
        facts |= {"run": self.weights.id, "root": self.run.root, "checkpoint": directory.name,
                  "weights": sealed_digests(self.run, names)}
        return facts if self.base is None else facts | {"base": self.base.facts()}

    @property
    def _files(self) -> list[Path]:
        """Files of the weights in a run's checkpoint: one, or its shards."""
        return stored_files(self.weights.folder, MODEL_FILE if self.base is None else ADAPTER_FILE)

    @property
    def digest(self) -> str:
        """SHA-256 of `facts`."""
        return json_digest(self.facts)

    def open(self, student: Engine, resolved: resolve.ResolvedRun) -> LogProbFunction:
        """Opens it on the student's kind of engine and devices; its weights are read at the first call."""
        engine, state = self._opened(student, resolved)
        assert isinstance(engine, LikelihoodEngine)  # of the student's kind, which was checked
        return lambda batch: engine.log_probs(state(), batch)

    def open_for_tokens(self, student: Engine, resolved: resolve.ResolvedRun, count: int) -> TopTokensFunction:
        """Opens it as `open` does, for its ``count`` most likely tokens within the student's vocabulary."""
        engine, state = self._opened(student, resolved)
        assert isinstance(engine, TeachingEngine)  # of the student's kind, which was checked
        return lambda batch: engine.most_likely(state(), batch, count, resolved.shape.vocab_size)

    def engine(self, name: str, student: EngineRequest) -> Engine:
        """An engine of this name for the teacher, on the student's devices. Raises `RequestError`."""
        precision = self.algorithm.teacher_precision
        try:
            return find_engine(name).engine.open(teacher_request(student, self, precision))
        except RequestError as error:
            if precision != "nf4":
                raise
            # The engine was asked for `method: qlora`, a key that the recipe may not have or has for the student.
            raise RequestError(f"algorithm.teacher_precision: {precision} is not possible: {error.given}",
                               error.expected, "algorithm.teacher_precision=bf16") from error

    def _opened(self, student: Engine, resolved: resolve.ResolvedRun) -> tuple[Engine, Callable[[], State]]:
        """Its engine, and a function that reads its weights at the first call and returns its state."""
        device, recipe = student.describe(), resolved.recipe
        engine = self.engine(recipe.engine, EngineRequest.of(
            recipe, resolved.shape, device=device.platform, mesh=MeshConfig(**device.mesh)))
        if self.base is not None and not isinstance(engine, AdapterEngine):
            raise RequestError(f"algorithm.teacher: {self.algorithm.teacher} has adapters, and engine {engine.name} "
                               "does not read them", "an engine that does",
                               f"workings export {quote(self.algorithm.teacher)} --out TEACHER, then "
                               "algorithm.teacher=TEACHER")

        @cache
        def state() -> State:
            if self.base is not None:
                assert isinstance(engine, AdapterEngine)  # others were refused above
                assert self.weights.directory is not None  # a checkpoint's
                return engine.with_adapters(self.base.load(engine), self.weights.directory)
            with self._folder() as folder:
                return engine.load(folder, trainable=False)

        return engine, state

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """A folder with weights and ``config.json`` as an engine loads them; a checkpoint has no ``config.json``."""
        directory = self.weights.folder
        if self.run is None:
            yield directory
            return
        with tempfile.TemporaryDirectory(prefix="workings-teacher-") as name:
            (Path(name) / "config.json").write_text(json.dumps(to_hf_config(self.shape)), encoding="utf-8")
            # A link, because a copy would take the weights' bytes on the disk once more.
            for file in self._files:
                (Path(name) / file.name).symlink_to(file.absolute())
            yield Path(name)


def sealed_digests(run: RunRecord, names: Sequence[str]) -> dict[str, str]:
    """SHA-256 of some files of a sealed run, by path. Raises `RecordError` if they are not the sealed ones."""
    sums = parse_sums((run.path / SUMS).read_bytes())
    # The root is the digest of the sums as they are here: where the seal names it, they are those that were sealed.
    if parse_seal((run.path / SEAL).read_bytes())["root"] != run.root:
        raise RecordError(f"{run.path}: {SUMS} is not what its seal names")
    for name in names:
        if not (run.path / name).is_file() or file_digest(run.path / name) != sums.get(name):
            raise RecordError(f"{run.path / name}: not the file that the run sealed")
    return {name: sums[name] for name in names}


def recorded_name(weights: resolve.Weights) -> str:
    """Name of weights in a record."""
    # Only the name: a path may contain a user's name.
    if weights.directory and weights.revision == LOCAL:
        return weights.directory.name
    return Path(weights.id).name if is_local(weights.revision) else weights.id


def teacher_request(student: EngineRequest, teacher: TeacherModel, precision: TeacherPrecision) -> EngineRequest:
    """The request to an engine that holds a frozen teacher on the student's devices."""
    # An objective of several targets tells the teacher's program how many most likely tokens to return.
    objective = student.objective if isinstance(student.objective, SeveralTargets) else CROSS_ENTROPY
    shape = teacher.shape
    memory = student.memory.model_copy(update={"optimizer_in_backward": False})
    if not shape.per_layer_width:
        memory = memory.model_copy(update={"per_layer_embeddings": "device"})
    # The optimizer is never made: the state is loaded without it.
    return replace(
        student, shape=shape, objective=objective, optimizer=AdamWConfig(name="adamw"),
        method=_method(teacher.method, four_bits=precision == "nf4"),
        precision=PrecisionConfig(parameters="fp32" if precision == "fp32" else "bf16",
                                  compute=student.precision.compute), memory=memory)


def _method(trained: Method, *, four_bits: bool) -> Method:
    """The method of an engine that holds a model trained by ``trained``, in four bits or not."""
    if isinstance(trained, FullConfig):
        # Only `qlora` has four bits. Its adapters are all zero here, and as small as possible.
        return QloraConfig(name="qlora", rank=1) if four_bits else FULL
    adapters = trained.model_dump(exclude={"name"})
    return QloraConfig(name="qlora", **adapters) if four_bits else LoraConfig(name="lora", **adapters)


def find_teacher(loaded: LoadedRecipe, tokenizer: Tokenizer, shape: ModelShape, bases: Sequence[Path] = ()) -> Teacher:
    """Finds the teacher of a recipe. No device is opened, and no tensor of the Hub is downloaded.

    ``tokenizer`` and ``shape`` are those of the student; a relative path may also start from one of the folders
    ``bases``. Raises `RequestError` for a teacher that is missing or does not fit, and `RecordError`.
    """
    algorithm = loaded.recipe.algorithm.teacher_keys
    assert algorithm is not None  # only a way with a teacher calls this
    folders = [loaded.base, *bases]
    folder = resolve.local_folder(algorithm.teacher, folders)
    if folder is not None and (folder / SEAL).is_file():
        resolve.refuse_unread_revision("algorithm.teacher_revision", algorithm.teacher_revision,
                                       resolve.Weights(directory=folder, id=algorithm.teacher, revision=LOCAL))
        teacher = _of_run(folder, algorithm, loaded.recipe.engine)
    else:
        weights = resolve.locate_weights(algorithm.teacher, algorithm.teacher_revision, folders, tensors=False)
        resolve.refuse_unread_revision("algorithm.teacher_revision", algorithm.teacher_revision, weights)
        if not (weights.folder / "config.json").is_file():
            raise RequestError(f"algorithm.teacher: {algorithm.teacher} has no config.json",
                               "a sealed run, or a folder with config.json, *.safetensors and tokenizer.json",
                               "workings export RUN --out TEACHER")
        teacher = Teacher(algorithm=algorithm, shape=read_shape(weights.folder), weights=weights,
                          tokenizer=Tokenizer.load(weights.folder))
    refuse_other_vocabulary(teacher, tokenizer, shape)
    if loaded.recipe.data.max_length > teacher.shape.context:
        raise RequestError(f"data.max_length: {loaded.recipe.data.max_length} is longer than the context of "
                           f"algorithm.teacher: {algorithm.teacher}", f"at most {teacher.shape.context} tokens",
                           f"data.max_length={teacher.shape.context}")
    return teacher


def refuse_processes(recipe: Recipe) -> None:
    """Raises `RequestError` for a teacher: several processes share the calls of one engine, and it has its own."""
    if recipe.algorithm.teacher_keys is not None:
        raise RequestError(f"algorithm.name: {recipe.algorithm.name} does not run in several processes",
                           "one process: the teacher is its own engine, and only one engine's calls reach the "
                           "other processes",
                           "one process, with several devices where there are several")


def teacher_model(loaded: LoadedRecipe) -> TeacherModel | None:
    """A recipe's teacher for a plan; None without one. Raises `RequestError` if its shape is not known here."""
    algorithm = loaded.recipe.algorithm.teacher_keys
    if algorithm is None:
        return None
    folder = resolve.local_folder(algorithm.teacher, [loaded.base])
    if folder is None and is_stored(algorithm.teacher):
        folder = resolve.locate_weights(algorithm.teacher, "", [], tensors=False).directory
    if folder is None:
        return TeacherModel(shape=resolve.shape_by_hub_id(algorithm.teacher, "algorithm.teacher"))
    # A sealed run has its shape in its manifest, and may hold only adapters.
    if not (folder / SEAL).is_file():
        return TeacherModel(shape=read_shape(folder))
    return TeacherModel(shape=_sealed_shape(folder), method=_recipe_of(RunRecord.open(folder)).method)


def _recipe_of(run: RunRecord) -> Recipe:
    return check_recipe(run.manifest.config, str(run.path))


def _of_run(path: Path, algorithm: TeacherKeys, engine: str) -> Teacher:
    run = RunRecord.open(path)
    recipe = _recipe_of(run)
    if not run.checkpoints.folders():
        raise RequestError(f"algorithm.teacher: {algorithm.teacher} has no checkpoint", "a run that kept one")
    kept = run.kept_checkpoint().path
    sealed_digests(run, [MODEL_SHAPE, *(f"{TOKENIZER}/{file.name}" for file in (path / TOKENIZER).iterdir())])
    return Teacher(algorithm=algorithm, run=run, method=recipe.method, base=_base(run, recipe, algorithm, engine),
                   tokenizer=Tokenizer.load(path / TOKENIZER), shape=_sealed_shape(path),
                   weights=resolve.Weights(directory=kept, id=run.manifest.name, revision=kept.name))


def _base(run: RunRecord, recipe: Recipe, algorithm: TeacherKeys, engine: str) -> Base | None:
    """The model below a run's adapters; None if the run has no adapters."""
    if recipe.method.trains_all_weights:
        return None
    model, recorded = recipe.model, run.manifest.weight_digests
    if isinstance(model, FromPretrained):
        weights = resolve.recorded_weights(run, model, f"run it in the folder that {model.id} is relative to",
                                           adapters=True, tensors=False)
    # The same seed gives other random weights in another engine, and adapters fit only those that they were trained on.
    elif recipe.engine != engine:
        raise RequestError(f"algorithm.teacher: {algorithm.teacher} has adapters on random weights of engine "
                           f"{recipe.engine}", f"an engine with the same random numbers; this run's is {engine}",
                           f"workings export {quote(algorithm.teacher)} --out TEACHER, then algorithm.teacher=TEACHER")
    else:
        weights = resolve.Weights(directory=None, id=run.manifest.model_id, revision=resolve.RANDOM)
    return Base(weights=weights, recorded={} if isinstance(recorded, Absent) else recorded, seed=recipe.seed)


def _sealed_shape(path: Path) -> ModelShape:
    # As an engine loads it from `config.json`: there, numbers that mean the same are written in one way.
    return from_hf_config(to_hf_config(ModelShape(**loads((path / MODEL_SHAPE).read_bytes()))))


def refuse_other_vocabulary(teacher: Teacher, tokenizer: Tokenizer, shape: ModelShape) -> None:
    """Raises `RequestError` unless every token of the student has the same id in the teacher's vocabulary."""
    name, ids_of_teacher = teacher.algorithm.teacher, teacher.tokenizer.ids
    # Tokens that only the teacher has, such as those of pictures, do no harm: the student never samples them.
    if differing := sorted(token for token, number in tokenizer.ids.items() if ids_of_teacher.get(token) != number):
        raise RequestError(f"in algorithm.teacher: {name}, {len(differing):,} tokens have another id "
                           f"than the student's or none ({', '.join(map(repr, differing[:3]))})",
                           "a teacher with the student's vocabulary: it judges the very tokens that the student wrote",
                           "a teacher of the same family, or its tokenizer for the student")
    # Models have embedding rows for ids that their tokenizer never uses, and may sample them.
    if teacher.shape.vocab_size < shape.vocab_size:
        raise RequestError(f"algorithm.teacher: {name} has only {teacher.shape.vocab_size:,} rows in its embedding",
                           f"at least the {shape.vocab_size:,} of the student, which it may sample any token of")
