"""Finding and checking a model's weight files before anything is allocated."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from workings.engines.safetensors_file import TensorFile
from workings.errors import RequestError
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config, unproven_from_hf
from workings.models.weights import tensor_shapes

PREFIXES = ("", "language_model.", "model.language_model.")
"""What stands before Hugging Face's text names: nothing, or (multimodal Gemma 3) an outer model's name."""


class WeightFiles:
    """The safetensors of a directory in Hugging Face's format, read by the names of `models.weights`.

    Args:
        directory: has ``model.safetensors``, or ``model.safetensors.index.json`` and its shards.
        expected: every tensor the model needs -> its shape.
        optional_prefix: what published files may leave out at the beginning of names.

    Raises:
        RequestError: a shard or tensor is missing, or a tensor has another shape than the model needs.
    """

    def __init__(self, directory: Path, expected: Mapping[str, tuple[int, ...]], optional_prefix: str = "") -> None:
        self.directory = directory
        self._optional_prefix = optional_prefix
        # Headers alone are read here: a wrong file is found before any memory is taken.
        self._where = self._find()
        self._names = {name: self._stored_name(name) for name in expected}
        wrong = [f"{name}: {self._file(name).shape(self._names[name])}, expected {size}"
                 for name, size in expected.items() if self._file(name).shape(self._names[name]) != size]
        if wrong:
            raise RequestError(f"{directory}: {len(wrong)} tensors of another shape, e.g. {wrong[0]}",
                               "weights of the model that config.json describes", "")

    def _find(self) -> dict[str, TensorFile]:
        index = self.directory / "model.safetensors.index.json"
        if index.is_file():
            parts = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        else:
            parts = ["model.safetensors"]
        missing = [part for part in parts if not (self.directory / part).is_file()]
        if missing:
            raise RequestError(f"{self.directory} without {', '.join(missing)}",
                               "model.safetensors, or every shard that model.safetensors.index.json names",
                               "download the directory again, whole")
        # The index names the files; which tensor lies where is taken from their own headers.
        files = [TensorFile(self.directory / part) for part in parts]
        return {name: file for file in files for name in file.names()}

    def _stored_name(self, name: str) -> str:
        if name.removeprefix(self._optional_prefix) in self._where:
            return name.removeprefix(self._optional_prefix)
        for prefix in PREFIXES:
            # "model.language_model." replaces the leading "model." of a text name.
            stored = prefix + name if prefix != PREFIXES[2] else prefix + name.removeprefix("model.")
            if stored in self._where:
                return stored
        raise RequestError(f"{self.directory} without tensor {name}",
                           "all tensors of the architecture that config.json names", "")

    def _file(self, name: str) -> TensorFile:
        return self._where[self._names[name]]

    def read(self, name: str) -> np.ndarray:
        """One tensor, mapped from its file."""
        return self._file(name).read(self._names[name])

    def stored_name(self, name: str) -> str:
        """What the files call a tensor."""
        return self._names[name]

    def others(self) -> dict[str, TensorFile]:
        """The files' further tensors, which the model does not need."""
        needed = set(self._names.values())
        return {name: file for name, file in self._where.items() if name not in needed}


def stored_shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor in a directory, from the headers of its files alone.

    Raises:
        RequestError: no weights in safetensors, or a missing shard.
    """
    return {name: file.shape(name) for name, file in WeightFiles(directory, {}).others().items()}


def model_weights(directory: Path, shape: ModelShape) -> WeightFiles:
    """The weights of a model of this shape.

    Raises:
        RequestError: no config.json, another architecture or size than asked for, a missing shard or tensor.
    """
    config = directory / "config.json"
    if not config.is_file():
        raise RequestError(f"{directory} without config.json", "a directory in Hugging Face's format", "")
    values = json.loads(config.read_text(encoding="utf-8"))
    found = from_hf_config(values) if shape.proven else unproven_from_hf(values, stored_shapes(directory))
    if found != shape:
        raise RequestError(f"{config}: {found}", f"{shape}", "")
    return WeightFiles(directory, tensor_shapes(shape), family_of(shape).optional_prefix)
