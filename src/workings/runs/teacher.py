"""The teacher of a run that distills: found, proved, and opened frozen beside the student."""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from workings.config.algorithms import Taught
from workings.config.load import LoadedRecipe
from workings.config.recipe import Recipe
from workings.config.training import MeshConfig
from workings.engines.base import Engine, EngineRequest, State
from workings.engines.registry import find_engine
from workings.engines.weight_files import read_shape
from workings.errors import RecordError, RequestError
from workings.models.batch import Batch
from workings.models.hub import LOCAL
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config, to_hf_config
from workings.models.tokenizer import Tokenizer
from workings.planning.frozen import teacher_request
from workings.record.canonical import loads
from workings.record.digest import file_digest, json_digest
from workings.record.layout import CHECKPOINTS, MODEL_SHAPE, SEAL, SUMS, TOKENIZER
from workings.record.reader import Run
from workings.record.seal import parse_seal, parse_sums
from workings.runs.object_store import is_stored
from workings.runs.resolve import (
    ResolvedRun,
    Weights,
    fetch_tensors,
    local_folder,
    locate_weights,
    shape_by_hub_id,
    weight_digests,
)
from workings.training.taught_experience import AskedForTokens

MODEL_FILE = "model.safetensors"
"""A checkpoint's weights, and the name under which an engine loads them."""
Asked = Callable[[Batch], np.ndarray]
"""What a model says of a batch's targets: ``[A, B, S]`` float32 log probabilities."""


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """A frozen model, found and not yet opened."""

    algorithm: Taught
    shape: ModelShape
    tokenizer: Tokenizer
    weights: Weights
    """Of a sealed run: the folder of its last checkpoint."""
    run: Run | None = None
    """The sealed run that it comes from; None for weights that were not trained here."""

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What is recorded of it: which run or weights, with the digest of every file; tensors are downloaded first.

        Raises:
            RecordError: a file of a sealed run that is not the one it sealed.
        """
        directory = self.weights.directory
        assert directory is not None  # only a model from scratch has none
        said: dict[str, Any] = {"precision": self.algorithm.teacher_precision, "tokenizer": self.tokenizer.digest}
        if self.run is not None:
            place = f"{CHECKPOINTS}/{directory.name}/{MODEL_FILE}"
            return said | {"run": self.weights.id, "root": self.run.root, "checkpoint": directory.name,
                           "weights": sealed_digests(self.run, [place])}
        fetch_tensors(self.weights)
        # Only a folder's own name: its path may name a person.
        name = directory.name if self.weights.revision == LOCAL else self.weights.id
        return said | {"id": name, "revision": self.weights.revision, "weights": weight_digests(directory)}

    @property
    def digest(self) -> str:
        """SHA-256 of `facts`."""
        return json_digest(self.facts)

    def open(self, student: Engine, resolved: ResolvedRun) -> Asked:
        """On an engine of the student's kind and devices; its weights are read when it is asked for the first time."""
        engine, state = self._opened(student, resolved)
        return lambda batch: engine.log_probs(state(), batch)

    def open_for_tokens(self, student: Engine, resolved: ResolvedRun, count: int) -> AskedForTokens:
        """The same, asked for so many most likely tokens of those that the student knows."""
        engine, state = self._opened(student, resolved)
        return lambda batch: engine.most_likely(state(), batch, count, resolved.shape.vocab_size)

    def _opened(self, student: Engine, resolved: ResolvedRun) -> tuple[Any, Callable[[], State]]:
        device, recipe = student.describe(), resolved.recipe
        mesh = MeshConfig(fsdp=device.mesh["fsdp"], tp=device.mesh["tp"])
        asked = EngineRequest.of(recipe, resolved.shape, device=device.platform, mesh=mesh)
        # Both protocols: the student's engine is of the same kind and was looked at.
        engine: Any = find_engine(recipe.engine).engine.open(
            teacher_request(asked, self.shape, self.algorithm.teacher_precision))

        @cache
        def state() -> State:
            with self._folder() as folder:
                return engine.load(folder, trainable=False)

        return engine, state

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """Weights and ``config.json`` as an engine loads them; a checkpoint has no such file."""
        directory = self.weights.directory
        assert directory is not None  # only a model from scratch has none
        if self.run is None:
            yield directory
            return
        with tempfile.TemporaryDirectory(prefix="workings-teacher-") as name:
            (Path(name) / "config.json").write_text(json.dumps(to_hf_config(self.shape)), encoding="utf-8")
            # A link, because a copy would take the weights' bytes on the disk once more.
            (Path(name) / MODEL_FILE).symlink_to(directory.absolute() / MODEL_FILE)
            yield Path(name)


def find_teacher(loaded: LoadedRecipe, tokenizer: Tokenizer, shape: ModelShape,
                 bases: Sequence[Path] = ()) -> Teacher:
    """The teacher that a recipe names. No device is opened, and no tensor of the Hub is downloaded.

    Args:
        loaded: the recipe.
        tokenizer: the student's.
        shape: of the student.
        bases: further folders that a relative name may start from.

    Raises:
        RequestError: it is not there, has another vocabulary, takes shorter rows, or its checkpoint holds adapters.
        RecordError: a sealed run whose files are not those that it sealed.
    """
    algorithm = loaded.recipe.algorithm
    assert isinstance(algorithm, Taught)  # no other recipe has a teacher
    folders = [loaded.base, *bases]
    folder = local_folder(algorithm.teacher, folders)
    if folder is not None and (folder / SEAL).is_file():
        teacher = _of_run(folder, algorithm)
    else:
        weights = locate_weights(algorithm.teacher, algorithm.teacher_revision, folders, tensors=False)
        assert weights.directory is not None  # only a model from scratch has none
        if not (weights.directory / "config.json").is_file():
            raise RequestError(f"algorithm.teacher: {algorithm.teacher}, without config.json",
                               "a sealed run, or a folder with config.json, *.safetensors and tokenizer.json",
                               "workings export RUN --out TEACHER")
        teacher = Teacher(algorithm=algorithm, shape=read_shape(weights.directory), weights=weights,
                          tokenizer=Tokenizer.load(weights.directory))
    refuse_other_vocabulary(teacher, tokenizer, shape)
    if loaded.recipe.data.max_length > teacher.shape.context:
        raise RequestError(f"data.max_length: {loaded.recipe.data.max_length} with algorithm.teacher: "
                           f"{algorithm.teacher}", f"at most its context of {teacher.shape.context} tokens",
                           f"data.max_length={teacher.shape.context}")
    return teacher


def refuse_processes(recipe: Recipe) -> None:
    """Raise `RequestError` for a teacher in several processes, which make one engine's calls together."""
    if isinstance(recipe.algorithm, Taught):
        raise RequestError(f"algorithm.name: {recipe.algorithm.name} in several processes",
                           "one process: the teacher is an engine of its own, and only one engine's calls reach the "
                           "other processes",
                           "one process, with several devices where there are several")


def teacher_shape(loaded: LoadedRecipe) -> ModelShape | None:
    """Shape of a recipe's teacher, for a plan; None without one. Nothing is downloaded but a description in a store.

    Raises:
        RequestError: neither a folder on this machine nor a published model that the catalog has.
    """
    algorithm = loaded.recipe.algorithm
    if not isinstance(algorithm, Taught):
        return None
    folder = local_folder(algorithm.teacher, [loaded.base])
    if folder is None and is_stored(algorithm.teacher):
        folder = locate_weights(algorithm.teacher, "", [], tensors=False).directory
    if folder is None:
        return shape_by_hub_id(algorithm.teacher, "algorithm.teacher")
    return _sealed_shape(folder) if (folder / SEAL).is_file() else read_shape(folder)


def sealed_digests(run: Run, names: Sequence[str]) -> dict[str, str]:
    """SHA-256 of some files of a sealed run, by path. Raises `RecordError` where they are not the sealed ones."""
    sums = parse_sums((run.path / SUMS).read_bytes())
    # The root is the digest of the sums as they are here: where the seal names it, they are those that were sealed.
    if parse_seal((run.path / SEAL).read_bytes())["root"] != run.root:
        raise RecordError(f"{run.path}: {SUMS} is not what its seal names")
    for name in names:
        if not (run.path / name).is_file() or file_digest(run.path / name) != sums.get(name):
            raise RecordError(f"{run.path / name}: not the file that the run sealed")
    return {name: sums[name] for name in names}


def _of_run(path: Path, algorithm: Taught) -> Teacher:
    run = Run.open(path)
    if run.manifest.config_snapshot.get("method", {}).get("name", "full") != "full":
        raise RequestError(f"algorithm.teacher: {algorithm.teacher}, whose checkpoints hold adapters only",
                           "weights with the adapters merged",
                           f"workings export {algorithm.teacher} --out TEACHER, then algorithm.teacher=TEACHER")
    folders = run.checkpoints.folders()
    if not folders:
        raise RequestError(f"algorithm.teacher: {algorithm.teacher}, without a checkpoint", "a run that kept one")
    sealed_digests(run, [MODEL_SHAPE, *(f"{TOKENIZER}/{file.name}" for file in (path / TOKENIZER).iterdir())])
    return Teacher(algorithm=algorithm, run=run, tokenizer=Tokenizer.load(path / TOKENIZER),
                   shape=_sealed_shape(path),
                   weights=Weights(directory=folders[-1], id=run.manifest.name, revision=folders[-1].name))


def _sealed_shape(path: Path) -> ModelShape:
    # Through the format in which it is loaded, where some numbers that mean the same are written in one way.
    return from_hf_config(to_hf_config(ModelShape(**loads((path / MODEL_SHAPE).read_bytes()))))


def refuse_other_vocabulary(teacher: Teacher, tokenizer: Tokenizer, shape: ModelShape) -> None:
    """Raise `RequestError` unless every token of the student is the same token of the teacher."""
    name, theirs = teacher.algorithm.teacher, teacher.tokenizer.ids
    # Tokens that the teacher alone has, such as those of pictures, do no harm: the student never draws them.
    if differing := sorted(token for token, number in tokenizer.ids.items() if theirs.get(token) != number):
        raise RequestError(f"algorithm.teacher: {name}, in whose vocabulary {len(differing):,} tokens have another id "
                           f"than the student's or none ({', '.join(map(repr, differing[:3]))})",
                           "a teacher with the student's vocabulary: it judges the very tokens that the student wrote",
                           "a teacher of the same family, or its tokenizer for the student")
    # Models have rows for ids that their tokenizer never gives, and may draw them.
    if teacher.shape.vocab_size < shape.vocab_size:
        raise RequestError(f"algorithm.teacher: {name}, with {teacher.shape.vocab_size:,} rows of its embedding",
                           f"at least the {shape.vocab_size:,} of the student, which it may draw any token of")
