"""From the names in a recipe to files, a tokenizer and a model shape."""

import json
from dataclasses import dataclass
from pathlib import Path

from workings.config.load import LoadedRecipe
from workings.config.model import FromPretrained
from workings.data.render import completion_text
from workings.data.traces import Trace
from workings.errors import RequestError
from workings.models.hub import weights_directory
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config, published_shape, shape_from_config
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


def find_tokenizer(loaded: LoadedRecipe, weights: Weights, traces: list[Trace]) -> Tokenizer:
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
