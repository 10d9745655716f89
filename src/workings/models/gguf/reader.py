"""A GGUF file: its header, the shape of its model, and its tensors by Hugging Face's names."""

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from workings.errors import RequestError
from workings.hints import pip_install
from workings.models.gguf.families import ROPE_FACTORS, from_gguf, gguf_names, read_hyperparameters
from workings.models.shape import ModelShape
from workings.models.weights import tensor_shapes

TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
"""Number formats of tensors that are read."""
UNQUANTIZED = ("F32", "F16", "BF16")
EMBEDDING, HEAD = "token_embd.weight", "output.weight"


class GgufFile:
    """An open GGUF file; tensors are mapped from it and dequantized when they are read.

    Errors name the file by ``name``, or its path. Raises `RequestError` if the package `gguf` is missing, the file is
    damaged or one of several, or its model or a number format is not read.
    """

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path, self.name = path, name or str(path)
        try:
            from gguf import GGUFReader
        except ModuleNotFoundError:
            raise RequestError(f"{self.name} needs the package gguf", "the package that reads GGUF",
                               pip_install("gguf")) from None
        try:
            reader = GGUFReader(path)
            self.header: dict[str, Any] = {key: field.contents() for key, field in reader.fields.items()}
        except (ValueError, IndexError, KeyError, OSError, OverflowError) as error:
            raise RequestError(f"{self.name} cannot be read: {error}", "a whole GGUF file",
                               "download it again") from None
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._check()

    def _check(self) -> None:
        """Refuse the file before anything is written from it."""
        if int(self.header.get("split.count", 1)) > 1:
            raise RequestError(f"{self.name} is one of {self.header['split.count']} files of a model", "one GGUF file",
                               "llama-gguf-split --merge FIRST.gguf WHOLE.gguf")
        kinds = {tensor.tensor_type.name for tensor in self._tensors.values()}
        if wrong := sorted(kinds - {*TYPES}):
            raise RequestError(f"{self.name} has tensors in {', '.join(wrong)}", f"tensors in {', '.join(TYPES)}",
                               "the same model in another quantization, such as Q4_K_M or Q8_0")
        if EMBEDDING not in self._tensors and str(self.header.get("general.architecture")) != "clip":
            raise RequestError(f"{self.name} lacks {EMBEDDING}", "a GGUF file of a language model")
        expected = f"the tensors of a {self.shape.family} model"
        for missing in self.names.values():
            if missing not in self._tensors:
                raise RequestError(f"{self.name} lacks {missing}", expected)
        if others := sorted({*self._tensors} - {*self.names.values()} - {ROPE_FACTORS}):
            raise RequestError(f"{self.name} has {others[0]}", expected)
        for name, size in tensor_shapes(self.shape).items():
            found = self._size(self.names[name])
            if found != size:
                raise RequestError(f"{self.name}: {self.names[name]} has shape {found}",
                                   f"shape {size}, as its header says", "download it again")

    @cached_property
    def shape(self) -> ModelShape:
        """Shape of the model."""
        factors = self._stored(ROPE_FACTORS) if ROPE_FACTORS in self._tensors else None
        try:
            rows = self._size(EMBEDDING)[0] if EMBEDDING in self._tensors else 0
            return read_hyperparameters(self.header, rows, HEAD in self._tensors, factors)
        except RequestError as error:
            raise RequestError(f"{self.name}: {error.given}", error.expected, error.try_next) from None

    @cached_property
    def names(self) -> dict[str, str]:
        """Hugging Face's name of every tensor of the model -> its name in the file."""
        return gguf_names(self.shape, self.shape.family)

    @property
    def quantization(self) -> str:
        """The file's name for its mix of number formats, such as ``Q4_K_M``, or else the format of most matrices."""
        from gguf import LlamaFileType

        stored = self.header.get("general.file_type")
        known = {int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType}
        if stored in known:
            return known[stored]
        matrices = [tensor.tensor_type.name for tensor in self._tensors.values() if len(tensor.shape) > 1]
        return Counter(matrices).most_common(1)[0][0]

    def tensor(self, name: str) -> np.ndarray:
        """The tensor with Hugging Face's name and values, in float32."""
        return from_gguf(self.shape, name, self._stored(self.names[name]))

    def _size(self, gguf_name: str) -> tuple[int, ...]:
        return tuple(int(axis) for axis in reversed(self._tensors[gguf_name].shape))

    def _stored(self, gguf_name: str) -> np.ndarray:
        """The tensor with the file's name and values, in float32."""
        from gguf.quants import dequantize

        tensor = self._tensors[gguf_name]
        return np.asarray(dequantize(tensor.data, tensor.tensor_type), np.float32).reshape(self._size(gguf_name))
