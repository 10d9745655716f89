"""Finds and checks a recipe's teacher: a sealed run or weights."""

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from workings.config.load import LoadedRecipe, check_recipe
from workings.config.model import FromPretrained
from workings.config.recipe import Recipe
from workings.engines.weight_files import read_shape
from workings.errors import RequestError
from workings.inputs.object_store import is_stored
from workings.inputs.resolve import (
    RANDOM,
    Weights,
    local_folder,
    locate_weights,
    recorded_weights,
    refuse_unread_revision,
    shape_by_hub_id,
)
from workings.models.hub import LOCAL
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config, to_hf_config
from workings.models.tokenizer import Tokenizer
from workings.record.canonical import loads
from workings.record.layout import MODEL_SHAPE, SEAL, TOKENIZER
from workings.record.reader import RunRecord
from workings.record.values import Absent
from workings.ways.base import TeacherWay, way_of
from workings.ways.parts.teacher import Base, Teacher, TeacherModel, sealed_digests


def find_teacher(loaded: LoadedRecipe, tokenizer: Tokenizer, shape: ModelShape, bases: Sequence[Path] = ()) -> Teacher:
    """Finds the teacher of a recipe. No device is opened, and no tensor of the Hub is downloaded.

    ``tokenizer`` and ``shape`` are those of the student, ``bases`` further folders that a relative path may start from.
    Raises `RequestError` for one that is missing or does not fit, and `RecordError`.
    """
    algorithm = way_of(loaded.recipe).teacher_keys
    assert algorithm is not None  # only a way with a teacher calls this
    folders = [loaded.base, *bases]
    folder = local_folder(algorithm.teacher, folders)
    if folder is not None and (folder / SEAL).is_file():
        refuse_unread_revision("algorithm.teacher_revision", algorithm.teacher_revision,
                               Weights(directory=folder, id=algorithm.teacher, revision=LOCAL))
        teacher = _of_run(folder, algorithm, loaded.recipe.engine)
    else:
        weights = locate_weights(algorithm.teacher, algorithm.teacher_revision, folders, tensors=False)
        refuse_unread_revision("algorithm.teacher_revision", algorithm.teacher_revision, weights)
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
    """Raises `RequestError` for a teacher in several processes, which only share the calls of one engine."""
    if way_of(recipe).teacher_keys is not None:
        raise RequestError(f"algorithm.name: {recipe.algorithm.name} does not run in several processes",
                           "one process: the teacher is its own engine, and only one engine's calls reach the "
                           "other processes",
                           "one process, with several devices where there are several")


def teacher_model(loaded: LoadedRecipe) -> TeacherModel | None:
    """A recipe's teacher for a plan; None without one. Raises `RequestError` if it is neither here nor known."""
    algorithm = way_of(loaded.recipe).teacher_keys
    if algorithm is None:
        return None
    folder = local_folder(algorithm.teacher, [loaded.base])
    if folder is None and is_stored(algorithm.teacher):
        folder = locate_weights(algorithm.teacher, "", [], tensors=False).directory
    if folder is None:
        return TeacherModel(shape=shape_by_hub_id(algorithm.teacher, "algorithm.teacher"))
    # A sealed run has its shape in its manifest, and may hold only adapters.
    if not (folder / SEAL).is_file():
        return TeacherModel(shape=read_shape(folder))
    return TeacherModel(shape=_sealed_shape(folder), method=_recipe_of(RunRecord.open(folder)).method)


def _recipe_of(run: RunRecord) -> Recipe:
    return check_recipe(run.manifest.config, str(run.path))


def _of_run(path: Path, algorithm: TeacherWay, engine: str) -> Teacher:
    run = RunRecord.open(path)
    recipe = _recipe_of(run)
    if not run.checkpoints.folders():
        raise RequestError(f"algorithm.teacher: {algorithm.teacher} has no checkpoint", "a run that kept one")
    kept = run.kept_checkpoint().path
    sealed_digests(run, [MODEL_SHAPE, *(f"{TOKENIZER}/{file.name}" for file in (path / TOKENIZER).iterdir())])
    return Teacher(algorithm=algorithm, run=run, method=recipe.method, base=_base(run, recipe, algorithm, engine),
                   tokenizer=Tokenizer.load(path / TOKENIZER), shape=_sealed_shape(path),
                   weights=Weights(directory=kept, id=run.manifest.name, revision=kept.name))


def _base(run: RunRecord, recipe: Recipe, algorithm: TeacherWay, engine: str) -> Base | None:
    """The model below a run's adapters; None if it has none."""
    if recipe.method.trains_all_weights:
        return None
    model, recorded = recipe.model, run.manifest.weight_digests
    if isinstance(model, FromPretrained):
        weights = recorded_weights(run, model, f"run it in the folder that {model.id} is relative to", adapters=True,
                                   tensors=False)
    # The same seed gives other random weights in another engine, and adapters fit only those that they were trained on.
    elif recipe.engine != engine:
        raise RequestError(f"algorithm.teacher: {algorithm.teacher} has adapters on random weights of engine "
                           f"{recipe.engine}", f"an engine with the same random numbers; this run's is {engine}",
                           f"workings export {quote(algorithm.teacher)} --out TEACHER, then algorithm.teacher=TEACHER")
    else:
        weights = Weights(directory=None, id=run.manifest.model_id, revision=RANDOM)
    return Base(weights=weights, recorded={} if isinstance(recorded, Absent) else recorded, seed=recipe.seed)


def _sealed_shape(path: Path) -> ModelShape:
    # Through the format in which it is loaded, where some numbers that mean the same are written in one way.
    return from_hf_config(to_hf_config(ModelShape(**loads((path / MODEL_SHAPE).read_bytes()))))


def refuse_other_vocabulary(teacher: Teacher, tokenizer: Tokenizer, shape: ModelShape) -> None:
    """Raises `RequestError` unless every token of the student has the same id in the teacher's vocabulary."""
    name, theirs = teacher.algorithm.teacher, teacher.tokenizer.ids
    # Tokens that only the teacher has, such as those of pictures, do no harm: the student never samples them.
    if differing := sorted(token for token, number in tokenizer.ids.items() if theirs.get(token) != number):
        raise RequestError(f"in algorithm.teacher: {name}, {len(differing):,} tokens have another id "
                           f"than the student's or none ({', '.join(map(repr, differing[:3]))})",
                           "a teacher with the student's vocabulary: it judges the very tokens that the student wrote",
                           "a teacher of the same family, or its tokenizer for the student")
    # Models have embedding rows for ids that their tokenizer never uses, and may sample them.
    if teacher.shape.vocab_size < shape.vocab_size:
        raise RequestError(f"algorithm.teacher: {name} has only {teacher.shape.vocab_size:,} rows in its embedding",
                           f"at least the {shape.vocab_size:,} of the student, which it may sample any token of")
