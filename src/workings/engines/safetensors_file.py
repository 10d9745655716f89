"""Reads and writes safetensors one tensor at a time, so that a checkpoint never exists twice in memory.

The format (https://huggingface.co/docs/safetensors):

    8 bytes      length of the header, little-endian
    the header   {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
    the bytes of all tensors

The library's own writer needs all tensors at once, and its NumPy reader does not support bfloat16.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from math import prod
from pathlib import Path
from types import EllipsisType
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from workings.errors import RecordError, RequestError
from workings.models.json_file import parse_object
from workings.models.shards import join_slices, shard_file, stored_files

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype(np.float64), "F32": np.dtype(np.float32), "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16), "I64": np.dtype(np.int64), "I32": np.dtype(np.int32),
    "U32": np.dtype(np.uint32), "U8": np.dtype(np.uint8), "I8": np.dtype(np.int8),
}
CODES = {dtype: code for code, dtype in DTYPES.items()}
Plan = Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]]
"""Number format and shape of each tensor of a file, by name, in the file's order."""
Index = tuple[slice | EllipsisType, ...]
"""A part of a tensor: slices along its first axes, and an ellipsis."""
WHOLE: Index = (...,)


def write_tensors(path: Path, plan: Plan, fetch: Callable[[str], np.ndarray]) -> None:
    """Write a file tensor by tensor, not atomically. Raises `RecordError` for an array that is not as planned."""
    # transformers needs this metadata.
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in plan.items():
        start, end = end, end + prod(shape) * dtype.itemsize
        header[name] = {"dtype": CODES[dtype], "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    # Spaces, which JSON ignores, so that the tensors begin at a multiple of eight bytes.
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, (dtype, shape) in plan.items():
            array = fetch(name)
            if array.dtype != dtype or array.shape != shape:
                raise RecordError(f"{name} is {array.dtype} {array.shape}, announced as {dtype} {shape}")
            # A view of the array's bytes: `tobytes` would copy them.
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def write_shard(directory: Path, file: str, place: tuple[int, int], slices: Plan,
                fetch: Callable[[str], np.ndarray]) -> None:
    """Write a process's slices of ``file`` to the disk; ``place``: its index, and the number of processes."""
    path = directory / shard_file(file, *place)
    write_tensors(path, slices, fetch)
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


MAX_AXES = 32
"""The most axes of a tensor in NumPy 1."""


class TensorFile:
    """An open safetensors file, whose tensors are read on demand. Raises `RecordError` for a damaged header."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # The library checks the header and the size of the file.
            with safe_open(path, "numpy"), path.open("rb") as file:  # type: ignore[no-untyped-call]
                length = int.from_bytes(file.read(8), "little")
                self._entries = parse_object(file.read(length), path.name)
        except (SafetensorError, OSError, RequestError) as error:
            said = error.given if isinstance(error, RequestError) else error
            raise RecordError(f"{path.name} is cut short or has a damaged header ({said})") from None
        self._entries.pop("__metadata__", None)
        self._start = 8 + length
        for name, entry in self._entries.items():
            if entry["dtype"] not in DTYPES or len(entry["shape"]) > MAX_AXES:
                raise RecordError(f"{path.name}: {name} has an unsupported number format or too many axes: "
                                  f"{entry['dtype']} {str(entry['shape'])[:80]}")

    def names(self) -> list[str]:
        """Names of all tensors, in the file's order."""
        return list(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a tensor, from the header."""
        return tuple(self._entries[name]["shape"])

    def dtype(self, name: str) -> np.dtype[Any]:
        """Number format of a tensor, from the header."""
        return DTYPES[self._entries[name]["dtype"]]

    def read(self, name: str, index: Index = WHOLE) -> np.ndarray:
        """A tensor or a part of it, mapped from the file."""
        start, end = self._entries[name]["data_offsets"]
        # An empty range cannot be memory-mapped.
        if start == end:
            return np.zeros(self.shape(name), self.dtype(name))[index]
        raw = np.memmap(self.path, np.uint8, "r", self._start + start, (end - start,))
        return np.frombuffer(raw, self.dtype(name)).reshape(self.shape(name))[index]


class ShardedFile:
    """The shards of a file, with the methods of `TensorFile`. Raises `RecordError` for missing or damaged ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = {file.name: TensorFile(file) for file in stored_files(path.parent, path.name)}
        self._tensors = join_slices((name, key, file.dtype(key), file.shape(key))
                                    for name, file in self._files.items() for key in file.names())

    def names(self) -> list[str]:
        """Names of all tensors."""
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of a whole tensor."""
        return self._tensors[name].shape

    def dtype(self, name: str) -> np.dtype[Any]:
        """Number format of a tensor."""
        return np.dtype(self._tensors[name].format)

    def read(self, name: str, index: Index = WHOLE) -> np.ndarray:
        """A tensor or a part of it. Only the stored slices that overlap the part are read."""
        tensor = self._tensors[name]
        sides = [side for side in index if isinstance(side, slice)]
        sides += [slice(None)] * (len(tensor.shape) - len(sides))
        wanted = [side.indices(length)[:2] for side, length in zip(sides, tensor.shape, strict=True)]
        part = np.empty([end - start for start, end in wanted], tensor.format)
        for stored in tensor.slices:
            overlap = [(max(start, first), min(end, first + length))
                       for (start, end), first, length in zip(wanted, stored.start, stored.size, strict=True)]
            if all(start < end for start, end in overlap):
                in_slice = _relative_to(stored.start, overlap)
                in_part = _relative_to([start for start, _ in wanted], overlap)
                part[in_part] = self._files[stored.file].read(stored.key, (*in_slice, ...))
        return part


def _relative_to(origin: Sequence[int], ranges: Sequence[tuple[int, int]]) -> tuple[slice, ...]:
    """Ranges counted from an origin: (4, 6) is ``slice(0, 2)`` from 4 on."""
    return tuple(slice(start - first, end - first) for (start, end), first in zip(ranges, origin, strict=True))


StoredTensors = TensorFile | ShardedFile


def open_tensors(path: Path) -> StoredTensors:
    """The tensors of a file, or of the shards in its place. Raises `RecordError` if neither can be read."""
    return TensorFile(path) if path.is_file() else ShardedFile(path)
