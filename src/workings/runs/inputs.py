"""From the names in a recipe to files, a tokenizer and a model shape."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe
from workings.config.model import FromPretrained
from workings.data.traces import Trace, completion_text
from workings.errors import RequestError
from workings.models.hub import weights_directory
from workings.models.shape import ModelShape
from workings.models.shapes import catalog, from_hf_config, published_shape, shape_from_config
from workings.models.tokenizer import Tokenizer
from workings.models.tokenizer_training import train_tokenizer

TRAINED_VOCABULARY = 512
"""Vocabulary of a tokenizer that is trained on the run's own traces (`tokenizer: train`)."""


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Where a model's weights come from."""

    directory: Path | None
    """Local directory in Hugging Face's format; None: random weights."""
    id: str
    """What the recipe calls it: a Hub id, a directory, a published shape, or `scratch`."""
    revision: str
    """Resolved commit on the Hub, or why there is none."""


def find_weights(loaded: LoadedRecipe, *, tensors: bool = True) -> Weights:
    """The weights the recipe asks for, on local disk; without ``tensors`` only the files that describe them."""
    model = loaded.recipe.model
    if isinstance(model, FromPretrained):
        local = loaded.path(model.id)
        directory, revision = weights_directory(str(local) if local.is_dir() else model.id, model.revision,
                                                tensors=tensors)
        return Weights(directory=directory, id=model.id, revision=revision)
    shape = model.shape
    return Weights(directory=None, id=shape if isinstance(shape, str) else f"scratch:{shape.family}",
                   revision="random weights")


def fetch_tensors(loaded: LoadedRecipe, weights: Weights) -> None:
    """Download the tensors beside files that were found without them, of the same commit; the run is known to fit."""
    if weights.directory is not None and not loaded.path(weights.id).is_dir():
        weights_directory(weights.id, weights.revision)


def find_tokenizer(loaded: LoadedRecipe, weights: Weights, traces: Sequence[Trace]) -> Tokenizer:
    """The tokenizer the recipe asks for: the model's, one from a directory, or one trained on the traces."""
    name = loaded.recipe.tokenizer
    if name == "train":
        reasoning = loaded.recipe.data.reasoning
        return train_tokenizer((text for trace in traces for text in (trace.prompt, completion_text(trace, reasoning))),
                               TRAINED_VOCABULARY)
    if name == "model":
        if weights.directory is None:
            raise RequestError("tokenizer: model", "a model with a tokenizer of its own; this one is made from scratch",
                               "set `tokenizer: train`, or a directory with tokenizer.json")
        return Tokenizer.load(weights.directory)
    local = loaded.path(name)
    return Tokenizer.load(local if local.exists() else weights_directory(name, "main", tensors=False)[0])


def find_shape(loaded: LoadedRecipe, weights: Weights, tokenizer: Tokenizer) -> ModelShape:
    """The model's shape; a model from scratch takes its vocabulary from the tokenizer."""
    model = loaded.recipe.model
    if isinstance(model, FromPretrained):
        assert weights.directory is not None  # find_weights says so for pretrained models
        return from_hf_config(json.loads((weights.directory / "config.json").read_text("utf-8")))
    if isinstance(model.shape, str):
        return published_shape(model.shape)
    return shape_from_config(model.shape, tokenizer.vocab_size)


def planned_shape(loaded: LoadedRecipe) -> ModelShape:
    """The model's shape from the recipe, local files and the catalog alone.

    Raises:
        RequestError: a Hub id that the catalog does not have, or a tokenizer that is not on this machine.
    """
    model = loaded.recipe.model
    if isinstance(model, FromPretrained):
        config = loaded.path(model.id) / "config.json"
        if config.is_file():
            return from_hf_config(json.loads(config.read_text("utf-8")))
        return _by_hub_id(model.id)
    if isinstance(model.shape, str):
        return published_shape(model.shape)
    return shape_from_config(model.shape, _vocabulary(loaded))


def _by_hub_id(name: str) -> ModelShape:
    """Instruction-tuned models have the shape of the model they were made from."""
    rows: dict[str, dict[str, Any]] = {str(row["hub_id"]): row for row in catalog().values()}
    base = name.removesuffix("-it")
    for candidate in (name, base, f"{base}-pt"):
        if candidate in rows:
            return published_shape(str(rows[candidate]["name"]))
    near = get_close_matches(name, rows, 1, 0.4) or ["google/gemma-2b"]
    raise RequestError(f"model.id: {name}", "a directory with config.json, or a model whose shape is known: "
                       + ", ".join(rows), f"model.id={near[0]}")


def _vocabulary(loaded: LoadedRecipe) -> int:
    """Tokens of a model from scratch; a tokenizer that is trained later has at most so many."""
    name = loaded.recipe.tokenizer
    if name == "train":
        return TRAINED_VOCABULARY
    path = loaded.path(name)
    if not path.exists():
        raise RequestError(f"tokenizer: {name} for a plan", "a tokenizer on this machine, because its size decides",
                           "tokenizer=train, or a directory with tokenizer.json")
    return Tokenizer.load(path).vocab_size
