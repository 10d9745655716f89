"""The teacher of a distillation run: its identity, and how it is opened frozen, together with the student."""

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

from workings.config.method import FULL, FullConfig, LoraConfig, QloraConfig
from workings.config.training import AdamWConfig, MeshConfig, PrecisionConfig
from workings.engines.base import AdapterReadingEngine, Engine, EngineRequest, LikelihoodEngine, State, TeachingEngine
from workings.engines.registry import find_engine
from workings.errors import RecordError, RequestError
from workings.inputs.resolve import ResolvedRun, Weights, differing_weights, fetch_tensors, weight_digests
from workings.models.batch import Batch
from workings.models.hub import LOCAL, is_local
from workings.models.shape import ModelShape
from workings.models.shapes import to_hf_config
from workings.models.shards import stored_files
from workings.models.tokenizer import Tokenizer
from workings.objectives.base import CROSS_ENTROPY, SeveralTargets
from workings.record.digest import file_digest, json_digest
from workings.record.layout import CHECKPOINTS, SEAL, SUMS
from workings.record.reader import RunRecord
from workings.record.seal import parse_seal, parse_sums
from workings.ways.base import TeacherPrecision, TeacherWay

MODEL_FILE, ADAPTER_FILE = "model.safetensors", "adapter_model.safetensors"
"""Files of a checkpoint: all weights, under the name by which an engine loads them, or the adapters alone."""
LogProbFunction = Callable[[Batch], np.ndarray]
"""A model's log probabilities of a batch's targets: ``[A, B, S]`` float32."""
TopTokensFunction = Callable[[Batch], tuple[np.ndarray, np.ndarray]]
"""A teacher's most likely tokens at a batch's positions: ``[A, B, S, K]`` tokens and their log probabilities, as
`TeachingEngine.most_likely` returns them."""
Method = FullConfig | LoraConfig | QloraConfig


@dataclass(frozen=True, kw_only=True)
class TeacherModel:
    """A teacher, as far as planning needs it."""

    shape: ModelShape
    method: Method = FULL
    """The method that it was trained by: adapters stay next to its weights."""


@dataclass(frozen=True, kw_only=True)
class Base:
    """The frozen model below a teacher's adapters."""

    weights: Weights
    recorded: Mapping[str, str]
    """SHA-256 of its files by name, as recorded in the teacher's run; empty for random weights."""
    seed: int
    """Seed of random weights."""

    def facts(self) -> dict[str, Any]:
        """Its identity for the record; tensors are downloaded first. Raises `RecordError` if its files have changed."""
        if self.weights.directory is None:
            return {"id": self.weights.id, "seed": self.seed}
        fetch_tensors(self.weights)
        if differing := differing_weights(self.weights.directory, self.recorded):
            raise RecordError(f"{self.weights.directory}: {', '.join(differing)}: not what the adapters of the teacher "
                              "were trained next to")
        return {"id": recorded_name(self.weights), "weights": dict(self.recorded)}

    def load(self, engine: Engine) -> State:
        """Loads the model without adapters, frozen."""
        if self.weights.directory is None:
            return engine.init(self.seed, trainable=False)
        return engine.load(self.weights.directory, trainable=False)


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """A frozen model, found and not yet opened."""

    algorithm: TeacherWay
    shape: ModelShape
    tokenizer: Tokenizer
    weights: Weights
    """For a sealed run, the folder of its last checkpoint."""
    method: Method = FULL
    """Method by which it was trained."""
    base: Base | None = None
    """Model below its adapters; None if it has none."""
    run: RunRecord | None = None
    """The sealed run that it comes from; None for weights that were not trained here."""

    @cached_property
    def facts(self) -> dict[str, Any]:
        """Its identity for the record, with the digest of every file, after a download. Raises `RecordError`."""
        directory = self.weights.folder
        common: dict[str, Any] = {"precision": self.algorithm.teacher_precision, "tokenizer": self.tokenizer.digest}
        if self.run is not None:
            names = [f"{CHECKPOINTS}/{directory.name}/{file.name}" for file in self._files]
            return common | {"run": self.weights.id, "root": self.run.root, "checkpoint": directory.name,
                           "weights": sealed_digests(self.run, names),
                           **({} if self.base is None else {"base": self.base.facts()})}
        fetch_tensors(self.weights)
        return common | {"id": recorded_name(self.weights), "revision": self.weights.revision,
                       "weights": weight_digests(directory)}

    @property
    def _files(self) -> list[Path]:
        """Files of the weights in a run's checkpoint: one, or its shards."""
        return stored_files(self.weights.folder, MODEL_FILE if self.base is None else ADAPTER_FILE)

    @property
    def model(self) -> TeacherModel:
        """Its description for a plan."""
        return TeacherModel(shape=self.shape, method=self.method)

    @property
    def digest(self) -> str:
        """SHA-256 of `facts`."""
        return json_digest(self.facts)

    def open(self, student: Engine, resolved: ResolvedRun) -> LogProbFunction:
        """Opens it on the student's kind of engine and devices; its weights are read at the first call."""
        engine, state = self._opened(student, resolved)
        assert isinstance(engine, LikelihoodEngine)  # of the student's kind, which was checked
        return lambda batch: engine.log_probs(state(), batch)

    def open_for_tokens(self, student: Engine, resolved: ResolvedRun, count: int) -> TopTokensFunction:
        """Opens it as `open` does, for its ``count`` most likely tokens within the student's vocabulary."""
        engine, state = self._opened(student, resolved)
        assert isinstance(engine, TeachingEngine)  # of the student's kind, which was checked
        return lambda batch: engine.most_likely(state(), batch, count, resolved.shape.vocab_size)

    def engine(self, name: str, student: EngineRequest) -> Engine:
        """An engine of this name for the teacher, on the student's devices. Raises `RequestError`."""
        precision = self.algorithm.teacher_precision
        try:
            return find_engine(name).engine.open(teacher_request(student, self.model, precision))
        except RequestError as error:
            if precision != "nf4":
                raise
            # The engine was asked for `method: qlora`, a key that the recipe may not have or has for the student.
            raise RequestError(f"algorithm.teacher_precision: {precision} is not possible: {error.given}",
                               error.expected, "algorithm.teacher_precision=bf16") from error

    def _opened(self, student: Engine, resolved: ResolvedRun) -> tuple[Engine, Callable[[], State]]:
        device, recipe = student.describe(), resolved.recipe
        engine = self.engine(recipe.engine, EngineRequest.of(
            recipe, resolved.shape, device=device.platform, mesh=MeshConfig(**device.mesh)))
        if self.base is not None and not isinstance(engine, AdapterReadingEngine):
            raise RequestError(f"algorithm.teacher: {self.algorithm.teacher} has adapters, and engine {engine.name} "
                               "does not read them", "an engine that does",
                               f"workings export {quote(self.algorithm.teacher)} --out TEACHER, then "
                               " algorithm.teacher=TEACHER")

        @cache
        def state() -> State:
            if self.base is not None:
                assert isinstance(engine, AdapterReadingEngine)  # others were refused above
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


def recorded_name(weights: Weights) -> str:
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
    # The optimizer is never made: the state is loaded without it.
    return replace(
        student, shape=shape, objective=objective, optimizer=AdamWConfig(name="adamw"),
        method=_method(teacher.method, four_bits=precision == "nf4"),
        precision=PrecisionConfig(parameters="fp32" if precision == "fp32" else "bf16",
                                  compute=student.precision.compute),
        memory=student.memory.model_copy(update={"optimizer_in_backward": False} | (
            {} if shape.per_layer_width else {"per_layer_embeddings": "device"})))


def _method(trained: Method, *, four_bits: bool) -> Method:
    """The method of an engine that holds a model trained by ``trained``, in four bits or not."""
    if isinstance(trained, FullConfig):
        # Adapters of the least rank, all zero, come with four bits.
        return QloraConfig(name="qlora", rank=1) if four_bits else FULL
    adapters = trained.model_dump(exclude={"name"})
    return QloraConfig(name="qlora", **adapters) if four_bits else LoraConfig(name="lora", **adapters)
