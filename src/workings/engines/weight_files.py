"""Opens and checks the weight files of a model in Hugging Face's format, before any weight is read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workings.engines.safetensors_file import WHOLE, Index, StoredTensors, open_tensors
from workings.errors import RecordError, RequestError
from workings.models.json_file import read_object
from workings.models.shape import ModelShape
from workings.models.shapes import from_hf_config, unverified_from_hf
from workings.models.shards import whole_file
from workings.models.weights import tensor_shapes

INDEX = "model.safetensors.index.json"
MAX_NAME_BYTES = 255
"""Longest file name that file systems allow."""


class WeightFiles:
    """The tensors of a directory in Hugging Face's format, or of a checkpoint, by the names of `models.weights`.

    ``expected``: shape of every tensor that the model needs. At first only headers of files are read. Raises
    `RequestError` if a file or tensor is missing or damaged, or a tensor has another shape, integers, or two places.
    """

    def __init__(self, directory: Path, expected: Mapping[str, tuple[int, ...]]) -> None:
        self.directory = directory
        index = directory / INDEX
        file_names = _index_file_names(index) if index.exists() else {}
        self._file_with = self._open(sorted(set(file_names.values())) or ["model.safetensors"])
        self.names = {name: self._stored_name(name) for name in expected}
        """Name in the files of each expected tensor."""
        # Other libraries would give random weights to tensors that the index does not have.
        for stored in self.names.values():
            in_index, actual = file_names.get(stored, "no file"), self._file_with[stored].path.name
            if file_names and in_index != actual:
                raise RequestError(f"{index} has {stored} in {in_index}, and it is in {actual}",
                                   "the index of these very files", "download the directory again, whole")
        self._check_tensors(expected)

    def _check_tensors(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        wrong = [f"{name}: {self._file(name).shape(self.names[name])}, expected {size}"
                 for name, size in expected.items() if self._file(name).shape(self.names[name]) != size]
        if wrong:
            raise RequestError(f"{self.directory} has {len(wrong)} tensors of another shape, e.g. {wrong[0]}",
                               "weights of the model that config.json describes", "")
        for name in expected:
            if self._file(name).dtype(self.names[name]).kind in "iu":
                raise RequestError(f"{self._file(name).path} has {name} in whole numbers", "floating-point numbers",
                                   "the model's unquantized weights; method.name=qlora quantizes them itself")

    def _open(self, names: Sequence[str]) -> dict[str, StoredTensors]:
        """The open file of each tensor, by the tensor's name there. A file may be the shards of a checkpoint."""
        sharded = {whole_file(file.name) for file in self.directory.glob("*.safetensors")}
        missing = [name for name in names if not (self.directory / name).is_file() and name not in sharded]
        if missing:
            raise RequestError(f"{self.directory} has no {', '.join(missing)}",
                               "model.safetensors, or every shard that model.safetensors.index.json names",
                               "download the directory again, whole")
        files: dict[str, StoredTensors] = {}
        for path in (self.directory / name for name in names):
            try:
                file = open_tensors(path)
            except RecordError as error:
                raise RequestError(f"{path} cannot be read: {error}", "weights in safetensors, whole",
                                   "download the file again") from None
            for tensor in file.names():
                if tensor in files:
                    raise RequestError(f"{tensor} is in {files[tensor].path} and in {file.path}",
                                       "every tensor in one file", "download the directory again, whole")
                files[tensor] = file
        return files

    def _stored_name(self, name: str) -> str:
        """The tensor's name in the files, which may be those of a multimodal model."""
        for stored in (name, f"language_model.{name}", f"model.language_model.{name.removeprefix('model.')}"):
            if stored in self._file_with:
                return stored
        raise RequestError(f"{self.directory} has no tensor {name}",
                           "all tensors of the architecture that config.json names", "")

    def _file(self, name: str) -> StoredTensors:
        return self._file_with[self.names[name]]

    def read(self, name: str, index: Index = WHOLE) -> np.ndarray:
        """A tensor, or a part of it."""
        return self._file(name).read(self.names[name], index)

    def others(self) -> dict[str, StoredTensors]:
        """Tensors of the files that the model does not need."""
        needed = set(self.names.values())
        return {name: file for name, file in self._file_with.items() if name not in needed}


def _index_file_names(index: Path) -> dict[str, str]:
    """File name of each tensor, from an index. A name with a folder in it could lead out of the directory."""
    weight_map = read_object(index).get("weight_map")
    file_names: dict[str, Any] = weight_map if isinstance(weight_map, dict) else {}
    if not file_names or not all(map(_is_file_name, file_names.values())):
        raise RequestError(f"{index} has a wrong weight_map: {str(weight_map)[:80]}",
                           "a JSON object: name of a tensor -> name of a file in this folder",
                           "download the file again")
    return file_names


def _is_file_name(name: Any) -> bool:
    return isinstance(name, str) and name == Path(name).name and (
        0 < len(name.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES)


def read_shape(directory: Path, *, verified: bool = True) -> ModelShape:
    """The shape of the model in a directory, from its ``config.json`` and, if it is not ``verified``, its weights.

    Raises `RequestError` for a missing or damaged file, and if ``verified`` is wrong for the model.
    """
    file = directory / "config.json"
    if not file.is_file():
        raise RequestError(f"{directory} has no config.json", "a directory in Hugging Face's format", "")
    config = read_object(file)
    try:
        return from_hf_config(config) if verified else unverified_from_hf(config, stored_shapes(directory))
    except RequestError as error:
        given = error.given if str(directory) in error.given else f"{file}: {error.given}"
        raise RequestError(given, error.expected, error.try_next) from None


def stored_shapes(directory: Path) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor in a directory, from the headers of its files; raises as `WeightFiles`."""
    return {name: file.shape(name) for name, file in WeightFiles(directory, {}).others().items()}


def model_weights(directory: Path, shape: ModelShape) -> WeightFiles:
    """The weights of a model of this shape. Raises `RequestError` if the directory has another model."""
    actual = read_shape(directory, verified=shape.verified)
    if actual != shape:
        raise RequestError(f"{directory / 'config.json'} describes another model: {actual}", f"{shape}", "")
    return WeightFiles(directory, tensor_shapes(shape))
