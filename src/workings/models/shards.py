"""Sharded checkpoints: names of files and of slices, and the tensors that slices make up.

Each process writes one file of weights and one of moments with its slices of tensors. The second of four processes:

    model.shard_00001_of_00004.safetensors
        NAME@128,0      the slice of tensor NAME from row 128 and column 0 on
        OTHER           a whole tensor

There is no index, which could contradict the files.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import prod
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

from workings.errors import RecordError

_SHARD = re.compile(r"(\w+)\.shard_(\d{5})_of_(\d{5})\.safetensors")
_START = re.compile(r"(?:0|[1-9]\d{0,14})(?:,(?:0|[1-9]\d{0,14}))*")
Size = tuple[int, ...]


class Slice(NamedTuple):
    """A part of a tensor: its file, its name there, its first index along each axis, and its size."""

    file: str
    key: str
    start: Size
    size: Size


class SlicedTensor(NamedTuple):
    """A tensor made up of slices, which cover it without overlap."""

    format: Any
    shape: Size
    slices: tuple[Slice, ...]


def shard_file(file: str, index: int, count: int) -> str:
    """Name of the file that process ``index`` of ``count`` writes in place of ``file``."""
    return f"{file.removesuffix('.safetensors')}.shard_{index:05d}_of_{count:05d}.safetensors"


def whole_file(name: str) -> str:
    """Name of the unsharded file, given that of a shard; any other name is returned unchanged."""
    match = _SHARD.fullmatch(name)
    return f"{match[1]}.safetensors" if match else name


def shard_files(names: Iterable[str], file: str) -> list[str]:
    """Names of the shards of ``file``, in order. Raises `RecordError` unless all shards of one checkpoint are there."""
    shards = sorted(name for name in names if name != file and whole_file(name) == file)
    if not shards:
        raise RecordError(f"there is no {file} and no shard of it")
    count = int(shards[0].rpartition("_of_")[2].removesuffix(".safetensors"))
    if count != len(shards) or any(name != shard_file(file, i, count) for i, name in enumerate(shards)):
        raise RecordError(f"{file} has {len(shards)} shards that do not make {count}")
    return shards


def stored_files(folder: Path, file: str) -> list[Path]:
    """The file, or its shards. Raises `RecordError` as `shard_files`."""
    if (folder / file).is_file():
        return [folder / file]
    return [folder / name for name in shard_files((entry.name for entry in folder.glob("*.safetensors")), file)]


def missing_shards(names: Iterable[str]) -> list[str]:
    """The shards that are not among ``names``, although names of other shards count them."""
    present = set(names)
    counts = {(whole_file(match[0]), int(match[3])) for match in map(_SHARD.fullmatch, present) if match}
    return sorted({shard_file(file, index, count) for file, count in counts for index in range(count)} - present)


def slice_name(name: str, start: Sequence[int], size: Size, shape: Size) -> str:
    """Name of the slice of a tensor of this shape that begins at ``start``."""
    return name if size == shape else f"{name}@{','.join(map(str, start))}"


def join_slices(stored: Iterable[tuple[str, str, Any, Size]]) -> dict[str, SlicedTensor]:
    """Tensors by name, from file, key, format and size of each slice. Raises `RecordError` if they do not fit."""
    slices, formats = defaultdict[str, list[Slice]](list), dict[str, Any]()
    for file, key, number_format, size in stored:
        name, at_sign, start = key.partition("@")
        if at_sign and (not _START.fullmatch(start) or start.count(",") != len(size) - 1):
            raise RecordError(f"{file}: {key[:80]} does not say where the slice begins")
        first = tuple(map(int, start.split(","))) if at_sign else (0,) * len(size)
        slices[name].append(Slice(file, key, first, size))
        if formats.setdefault(name, number_format) != number_format:
            raise RecordError(f"{file}: {key[:80]} is {number_format}, and another slice of it is {formats[name]}")
    return {name: SlicedTensor(formats[name], _shape(name, parts), tuple(parts)) for name, parts in slices.items()}


def _shape(name: str, parts: Sequence[Slice]) -> Size:
    """Shape of the tensor that slices make up. They must form a grid.

    Slices that begin at (0, 0), (0, 8), (4, 0) and (4, 8) have the starts [0, 4] and [0, 8] along the two axes.
    """
    starts = [sorted(set(axis)) for axis in zip(*(part.start for part in parts), strict=False)]
    ends = [map(add, part.start, part.size) for part in parts]
    shape = tuple(map(max, zip(*ends, strict=False)))
    # Along each axis a slice reaches to the next start, or to the end: of 8 rows these are {0: 4, 4: 4}.
    lengths = [{first: after - first for first, after in zip(axis, [*axis[1:], end], strict=True)}
               for axis, end in zip(starts, shape, strict=True)]
    begins_at_zero = not any(axis[0] for axis in starts)
    is_complete = len({part.start for part in parts}) == len(parts) == prod(map(len, starts))
    sizes_fit = all(len(part.start) == len(shape) and part.size == tuple(
        length[first] for first, length in zip(part.start, lengths, strict=True)) for part in parts)
    if not (begins_at_zero and is_complete and sizes_fit):
        raise RecordError(f"{name[:80]}: its slices overlap or leave a gap")
    return shape
