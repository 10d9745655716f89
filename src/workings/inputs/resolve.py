"""Finds the inputs that a recipe names: data, weights, tokenizer and the shape of the model.

`resolve` finds them all for a run. The other functions find one of them, for a plan or for a finished run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe
from workings.config.model import FromPretrained
from workings.config.recipe import Recipe
from workings.data.preferences import PreferencePair, Verdict
from workings.data.traces import Trace, completion_text
from workings.engines.base import Engine, State
from workings.engines.session import ModelSession, tokens_at_a_time
from workings.engines.weight_files import read_shape
from workings.errors import RequestError
from workings.inputs.datasets import RunData, find_data
from workings.inputs.gguf import converted, find_gguf, names_gguf
from workings.inputs.object_store import STORED, is_stored, stored_folder
from workings.models.chat import ChatTemplate
from workings.models.hub import GGUF, PATTERNS, SMALL, is_local, weights_directory
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.shapes import catalog, published_shape, shape_from_config
from workings.models.stop_tokens import StopTokens
from workings.models.tokenizer import Tokenizer
from workings.models.tokenizer_training import train_tokenizer
from workings.record.canonical import loads
from workings.record.digest import file_digest, json_digest
from workings.record.layout import OVERRIDES
from workings.record.reader import RunRecord
from workings.scoring.items import Item

TRAINED_VOCABULARY = 512
"""Vocabulary of a tokenizer that is trained on the run's own traces (`tokenizer: train`)."""
RANDOM = "random weights"
"""Revision of a model that is made from scratch."""
PARENTS_SEARCHED = 3
"""Folders above a run in which a relative path is searched: the run may have been moved with its weights."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Source of a model's weights."""

    directory: Path | None
    """Local directory in Hugging Face's format; None for random weights."""
    id: str
    """Name in the recipe: a Hub id, a directory, a folder of an object store, a published shape, or `scratch`."""
    revision: str
    """Commit on the Hub, or what the weights are instead: a local folder, `RANDOM`, `STORED`, or a GGUF file."""

    @property
    def folder(self) -> Path:
        """The local directory of weights that are not random."""
        assert self.directory is not None
        return self.directory


@dataclass(frozen=True, kw_only=True)
class RecipeModel:
    """A recipe with the shape, tokenizer and chat template of its model."""

    loaded: LoadedRecipe
    tokenizer: Tokenizer
    template: ChatTemplate
    shape: ModelShape

    @property
    def recipe(self) -> Recipe:
        """The recipe itself."""
        return self.loaded.recipe

    def session(self, engine: Engine, state: State) -> ModelSession:
        """A session to generate with a state of this model in the run's chat template."""
        return ModelSession(engine=engine, state=state, tokenizer=self.tokenizer, template=self.template,
                            tokens_at_a_time=tokens_at_a_time(self.shape, engine.describe().platform))


@dataclass(frozen=True, kw_only=True)
class ResolvedRun(RecipeModel):
    """A recipe with its inputs."""

    data: RunData
    weights: Weights

    @property
    def stop_tokens(self) -> StopTokens:
        """Tokens that end an answer, and whether files of the model's folder disagree about them."""
        return find_stop_tokens(self.loaded, self.weights, self.template)

    @cached_property
    def config(self) -> dict[str, Any]:
        """Every key of the recipe with its value, as recorded."""
        return self.loaded.resolved()

    @cached_property
    def config_digest(self) -> str:
        """SHA-256 of `config`."""
        return json_digest(self.config)

    def initial_state(self, engine: Engine, seed: int, *, trainable: bool = True) -> State:
        """The state before the first step: the recipe's weights, or random ones of a seed."""
        if self.weights.directory is None:
            return engine.init(seed, trainable=trainable)
        return engine.load(self.weights.directory, trainable=trainable)


def resolve(loaded: LoadedRecipe, data: RunData | None = None, *, tensors: bool = True) -> ResolvedRun:
    """Finds all inputs of a recipe, except for ``data`` that were already read.

    No device is opened and no weight is read. Without ``tensors`` only the files that describe the weights are
    downloaded. Raises `RequestError` if an input is missing, or inputs contradict each other.
    """
    data = data or find_data(loaded)
    # In this order: a tokenizer may be next to the weights, and the shape of a new model needs its vocabulary.
    weights = find_weights(loaded, tensors=tensors)
    tokenizer = find_tokenizer(loaded, weights, data.examples or data.prompts)
    template = ChatTemplate.for_config(loaded.recipe.data.template, tokenizer, loaded.recipe.data.reasoning)
    shape = find_shape(loaded, directory=weights.directory, vocabulary=tokenizer.vocab_size)
    return ResolvedRun(loaded=loaded, data=data, weights=weights, tokenizer=tokenizer, template=template, shape=shape)


def local_folder(name: str, bases: Sequence[Path]) -> Path | None:
    """The folder of this name, or of a GGUF file, in the first of the base folders that has one; None without one."""
    if source := find_gguf(name, bases):
        directory, _ = converted(source)
        return directory
    # An absolute name replaces the base.
    folders = ((base / Path(name).expanduser()).resolve() for base in bases)
    return next((folder for folder in folders if folder.is_dir()), None)


def locate_weights(name: str, revision: str, bases: Sequence[Path], *, tensors: bool = True) -> Weights:
    """Finds weights by name: a local folder, a GGUF file, a folder of an object store, or a repository of the Hub.

    A relative name starts from the first of ``bases`` that has it. ``revision`` is that of a repository of the Hub.
    Without ``tensors`` only the files that describe the weights are copied. Raises `RequestError` if there is nothing
    of this name.
    """
    if is_stored(name):
        return Weights(directory=stored_folder(name, PATTERNS, wanted=PATTERNS if tensors else SMALL), id=name,
                       revision=STORED)
    if source := find_gguf(name, bases):
        directory, sha256 = converted(source)
        return Weights(directory=directory, id=name, revision=f"{GGUF}{sha256}")
    if names_gguf(name):
        raise RequestError(f"there is no file {name}", "a GGUF file, a folder or a Hub id", "check the spelling")
    # A local folder takes precedence over the Hub.
    directory, resolved_revision = weights_directory(str(local_folder(name, bases) or name), revision, tensors=tensors)
    return Weights(directory=directory, id=name, revision=resolved_revision)


def refuse_unread_revision(key: str, revision: str, weights: Weights) -> None:
    """Raise `RequestError` if a revision is named for weights that are not from the Hub."""
    if revision != "main" and (is_local(weights.revision) or weights.revision == STORED):
        raise RequestError(f"{key}: {revision} does not apply to {weights.id}: it is not a repository of the Hub",
                           "a revision only with a Hub id", f"leave {key} out")


def find_weights(loaded: LoadedRecipe, *, tensors: bool = True) -> Weights:
    """A recipe's weights on local disk; without ``tensors`` only the files that describe them."""
    model = loaded.recipe.model
    if isinstance(model, FromPretrained):
        # The headers of an unverified model's weights list its tensors.
        weights = locate_weights(model.id, model.revision, [loaded.base], tensors=tensors or not model.verified)
        refuse_unread_revision("model.revision", model.revision, weights)
        return weights
    shape = model.shape
    return Weights(directory=None, id=shape if isinstance(shape, str) else f"scratch:{shape.family}", revision=RANDOM)


def is_verified(loaded: LoadedRecipe) -> bool:
    """Whether a recipe's model has to be of a family of this package; a model from scratch always is."""
    model = loaded.recipe.model
    return not isinstance(model, FromPretrained) or model.verified


def fetch_tensors(weights: Weights) -> None:
    """Download the tensors of weights that were found without them.

    Raises `RequestError` if the Hub or the store cannot be reached, or the weights have changed in the meantime.
    """
    if weights.directory is None or is_local(weights.revision):
        return
    # Each commit has another folder.
    if locate_weights(weights.id, weights.revision, []).directory != weights.directory:
        raise RequestError(f"{weights.id} changed while it was being read", "weights that do not change",
                           "the same command again")


def weight_digests(directory: Path) -> dict[str, str]:
    """SHA-256 of every file of weights in a directory, by name."""
    return {file.name: file_digest(file) for file in sorted(directory.glob("*.safetensors")) if file.is_file()}


def differing_weights(directory: Path, recorded: Mapping[str, str]) -> list[str]:
    """Names of the weight files that are changed, missing, or not recorded."""
    found = weight_digests(directory)
    return sorted(name for name in {*found, *recorded} if found.get(name) != recorded.get(name))


def find_tokenizer(loaded: LoadedRecipe, weights: Weights,
                   data: Iterable[Trace | PreferencePair | Verdict | Item]) -> Tokenizer:
    """A recipe's tokenizer: the model's, one from a directory, or one trained on the data."""
    name = loaded.recipe.tokenizer
    if name == "train":
        reasoning = loaded.recipe.data.reasoning
        # Prompt and completion as separate texts, as rows are encoded.
        return train_tokenizer((text for entry in data for text in _texts(entry, reasoning)), TRAINED_VOCABULARY)
    if name == "model":
        if weights.directory is None:
            raise RequestError("this model has no tokenizer: it is made from scratch", "another tokenizer",
                               "set `tokenizer: train`, or a directory with tokenizer.json")
        return Tokenizer.load(weights.directory)
    return Tokenizer.load(_local_tokenizer(loaded, name) or locate_weights(name, "main", [], tensors=False).folder)


def _texts(entry: Trace | PreferencePair | Verdict | Item, reasoning: str) -> tuple[str, ...]:
    """The texts of an entry that a tokenizer is trained on."""
    match entry:
        case Trace():
            # A raw text has no steps.
            return entry.prompt, completion_text(entry, "answer_only" if entry.is_text else reasoning)
        case Item():
            return entry.prompt, entry.expected_answer
        case Verdict():
            return entry.prompt, entry.completion
        case PreferencePair():
            return entry.prompt, entry.chosen, entry.rejected


def _local_tokenizer(loaded: LoadedRecipe, name: str) -> Path | None:
    """A folder or file of this machine with a tokenizer; None for a Hub id, whose small files are downloaded."""
    local = loaded.path(name)
    return local_folder(name, [loaded.base]) or (local if local.exists() else None)


def find_stop_tokens(loaded: LoadedRecipe, weights: Weights, template: ChatTemplate) -> StopTokens:
    """A recipe's stop tokens, compared with those that the files next to its tokenizer name."""
    return StopTokens.of(template, weights.directory if loaded.recipe.tokenizer == "model" else None)


def find_shape(loaded: LoadedRecipe, *, directory: Path | None = None, vocabulary: int | None = None) -> ModelShape:
    """The shape of a recipe's model. Nothing is downloaded except a description in an object store.

    A pretrained model's shape is in its ``directory``; None: the recipe's, or else the catalog of published models. A
    model from scratch has this ``vocabulary``; None: that of the recipe's tokenizer. Raises `RequestError` for a Hub id
    that the catalog does not have, and a tokenizer that is not on this machine.
    """
    model = loaded.recipe.model
    if isinstance(model, FromPretrained):
        return _pretrained_shape(loaded, model, directory or _described_in(loaded, model))
    if isinstance(model.shape, str):
        return published_shape(model.shape)
    return shape_from_config(model.shape, _vocabulary(loaded) if vocabulary is None else vocabulary)


def _described_in(loaded: LoadedRecipe, model: FromPretrained) -> Path | None:
    """The folder with the description of a pretrained model, if it is in a store or on this machine."""
    if is_stored(model.id):
        return find_weights(loaded, tensors=False).directory
    local = local_folder(model.id, [loaded.base])
    return local if local is not None and (local / "config.json").is_file() else None


def _pretrained_shape(loaded: LoadedRecipe, model: FromPretrained, directory: Path | None) -> ModelShape:
    if directory is not None:
        shape = read_shape(directory, verified=model.verified)
        if not shape.verified:
            family_of(shape).check_engine(loaded.recipe.engine, shape)
        return shape
    if not model.verified:
        raise RequestError(f"model.verified: false needs a directory, not the id {model.id}",
                           "a directory with config.json and *.safetensors, whose headers list the tensors: without "
                           "them there is no plan", "download it, then model.id=DIRECTORY")
    return shape_by_hub_id(model.id)


def find_or_fetch_shape(loaded: LoadedRecipe) -> ModelShape:
    """`find_shape`, which downloads the description of a model that is in no catalog."""
    try:
        return find_shape(loaded)
    except RequestError:
        directory = find_weights(loaded, tensors=False).directory
        # A model from scratch has nothing to download.
        if directory is None:
            raise
        return read_shape(directory, verified=is_verified(loaded))


def shape_by_hub_id(name: str, key: str = "model.id") -> ModelShape:
    """Shape of a published model by its Hub id; ``key``: the recipe's key, for errors. Raises `RequestError`.

    Instruction-tuned models have the shape of the model they were made from.
    """
    rows: dict[str, dict[str, Any]] = {str(row["hub_id"]): row for row in catalog().values()}
    base = name.removesuffix("-it").removesuffix("-Instruct")
    # Gemma 3 marks pretrained models with `-pt`, earlier families do not.
    for candidate in (name, base, f"{base}-pt"):
        if candidate in rows:
            return published_shape(str(rows[candidate]["name"]))
    raise RequestError(f"{key}: the model {name} is unknown",
                       "a directory with config.json, or a model whose shape is known: " + ", ".join(rows),
                       f"{key}=google/gemma-2b")


def _vocabulary(loaded: LoadedRecipe) -> int:
    """Vocabulary size of a model from scratch. For a tokenizer that is trained later it is the maximum."""
    name = loaded.recipe.tokenizer
    if name == "train":
        return TRAINED_VOCABULARY
    path = _local_tokenizer(loaded, name)
    if path is None:
        raise RequestError(f"a plan cannot read the tokenizer {name}",
                           "a tokenizer on this machine, because its size decides",
                           "tokenizer=train, or a directory with tokenizer.json")
    return Tokenizer.load(path).vocab_size


def recorded_base(run: RunRecord) -> Path:
    """The folder that the recipe's paths start from: the recorded one, relative to the run, or the current one."""
    overrides = loads((run.path / OVERRIDES).read_bytes())
    base = overrides.get("base") if isinstance(overrides, dict) else None
    return (run.path.resolve() / base if isinstance(base, str) else Path.cwd()).resolve()


def recorded_bases(run: RunRecord) -> list[Path]:
    """Folders that a relative path of the recipe may start from, the likeliest first."""
    return [recorded_base(run), Path.cwd(), *list(run.path.absolute().parents)[:PARENTS_SEARCHED]]


def recorded_weights(run: RunRecord, model: FromPretrained, try_next: str, *, adapters: bool, tensors: bool) -> Weights:
    """Finds the weights that training started from: at the recipe's path, near the run, in a store or on the Hub.

    ``adapters``: whether the run trained adapters; ``tensors``: as of `locate_weights`. Raises `RequestError`, which
    ends with ``try_next``, if the weights are missing.
    """
    revision, bases = str(run.manifest.model_revision), recorded_bases(run)
    # Do not search a local name on the Hub.
    if is_local(revision) and local_folder(model.id, bases) is None:
        raise RequestError(f"the weights that {run.path} started from are not in {model.id}",
                           "these weights" + (": the checkpoint holds the adapters only" if adapters else ""), try_next)
    return locate_weights(model.id, revision, bases, tensors=tensors)
