"""Contents of a compiled program's heap, from the compiler's buffer assignment.

Compilers write down the address of every temporary array (``--xla_dump_to``): allocation, offset, size, type. Arrays
that are never alive together share addresses. `heap_parts` counts each address for the largest array that is ever
there, and names arrays by their sizes; arrays that no rule names are `OTHER`.

Shape suffixes of the rules: L layers, B rows and S positions of one device's micro batch, T = B x S, D width,
V vocabulary (of one device: V / n).
"""

import re
from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from workings.models.shape import ModelShape
from workings.models.weights import layer_loops

ALLOCATION = re.compile(r"allocation \d+: size (\d+),(.*)")
VALUE = re.compile(r"^ value: <\d+ \S+ @\d+> \(size=(?P<size>\d+),offset=(?P<offset>\d+)\): "
                   r"(?P<dtype>[a-z]+\d*)\[(?P<dims>[\d,]*)\]", re.MULTILINE)
OTHER = "other temporaries"
GRADIENTS, UPDATE = "gradients", "update in fp32"
LOGITS, HEAD, HEAD_FP32 = "logits", "gradient of the embedding", "embedding in fp32 (gradient and update)"
KEPT, LAYER, SCORES = "activations kept for backward", "activations of the layer at hand", "attention scores"
WEIGHTS = "weights and gradients of the layer at hand"
CACHE = "cache of keys and values"
GATHERED, EMBEDDING = "weights gathered or in another format", "embedding gathered or in another format"
WITHOUT_UPDATE = {GRADIENTS: GATHERED, UPDATE: GATHERED, HEAD: EMBEDDING, HEAD_FP32: EMBEDDING, KEPT: CACHE,
                  WEIGHTS: "weights of the layer at hand"}
"""Names of arrays of the same sizes in a program without an update, which has no gradients and no backward."""
MIN_BYTES = 4096
"""Smaller arrays are ignored."""


@dataclass(frozen=True)
class Value:
    """An array of the heap."""

    offset: int
    size: int
    dtype: str
    dims: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The numbers of one device by which an array is recognized."""

    shape: ModelShape
    rows: int
    length: int
    devices: int
    stacked: frozenset[tuple[int, ...]]
    """Sorted sizes, without ones, of one device's trained tensors with their layer axis."""
    single: frozenset[tuple[int, ...]]
    """Sizes of one layer's tensors, split and whole."""
    parameter_dtype: str
    cache_slots: int = 0
    updates: bool = True
    """Whether the program has a backward and an update."""


def read_heap(text: str) -> tuple[int, list[Value]]:
    """Size of the largest heap of a buffer assignment in text form, and the arrays in it."""
    largest, values = 0, list[Value]()
    # Arguments, constants and outputs have their own allocations; the heap is where temporaries share addresses.
    for block in re.split(r"^(?=allocation )", text, flags=re.MULTILINE):
        head = ALLOCATION.match(block)
        # Colors are on-chip memories.
        if not head or "preallocated-temp" not in head[2] or "color" in head[2] or int(head[1]) <= largest:
            continue
        # Axes of length one come and go in the compiler; without them an array is recognized in every form.
        largest, values = int(head[1]), [
            Value(int(found["offset"]), int(found["size"]), found["dtype"],
                  tuple(int(n) for n in found["dims"].split(",") if n and n != "1"))
            for found in VALUE.finditer(block) if int(found["size"]) >= MIN_BYTES]
    return largest, values


def name_of(value: Value, sizes: Sizes) -> str:
    """Name of an array, by its sizes alone."""
    name = _name_in_step(value, sizes)
    return name if sizes.updates else WITHOUT_UPDATE.get(name, name)


def _name_in_step(value: Value, sizes: Sizes) -> str:
    shape, dims = value.dims and sizes.shape, tuple(sorted(value.dims))
    if not shape:
        return OTHER
    # From the most specific size to the least: the first rule that applies gives the name.
    tokens = sizes.rows * sizes.length
    # A vocabulary that does not divide is whole on every device.
    local_vocabulary = shape.vocab_size // sizes.devices if shape.vocab_size % sizes.devices == 0 else shape.vocab_size
    if local_vocabulary in dims or shape.vocab_size in dims:
        if shape.width not in dims:
            return LOGITS
        return HEAD if value.dtype == sizes.parameter_dtype else HEAD_FP32
    if dims in sizes.stacked:
        return GRADIENTS if value.dtype == sizes.parameter_dtype else UPDATE
    elements = prod(dims)
    # Iterations of the loops over layers, and of the loops inside them: most families have one loop, over all layers.
    iterations = {number for loop in layer_loops(shape) for stack in loop.stacks
                  for number in (len(stack), loop.iterations, len(stack) // loop.iterations) if number > 1}
    if sizes.cache_slots and value.dims[0] in {*iterations, shape.layers} and sizes.cache_slots in value.dims:
        return CACHE
    # The scan over layers stores one entry an iteration for backward, with whole micro batches after it.
    if value.dims[0] in iterations and elements % (value.dims[0] * tokens) == 0:
        return KEPT
    if dims in sizes.single:
        return WEIGHTS
    # Length by length, or length by a block of queries or keys: attention's loops use blocks of 128, 256 or 512.
    last = value.dims[-2:]
    if (len(last) == 2 and sizes.length in last and {*last} <= {sizes.length, 128, 256, 512}
            and elements >= tokens * min(256, sizes.length)):
        return SCORES
    return LAYER if elements % tokens == 0 else OTHER


def heap_parts(text: str, sizes: Sizes) -> dict[str, int]:
    """Bytes of the heap by name; they add up to its size."""
    heap_bytes, values = read_heap(text)
    # Between two neighboring edges nothing begins or ends, so the largest array there has the whole piece: it is
    # written last.
    edges = np.unique([edge for value in values for edge in (value.offset, value.offset + value.size)])
    largest = np.full(len(edges), -1)
    for i in sorted(range(len(values)), key=lambda i: (values[i].size, -values[i].offset, -i)):
        start, end = np.searchsorted(edges, (values[i].offset, values[i].offset + values[i].size))
        largest[start:end] = i
    parts: Counter[str] = Counter()
    for i, piece in zip(largest.tolist(), np.diff(edges).tolist(), strict=False):
        if i >= 0:
            parts[name_of(values[i], sizes)] += piece
    # Alignment and the arrays that are too small to look at are covered by no value.
    if (rest := heap_bytes - parts.total()) > 0:
        parts[OTHER] += rest
    return dict(parts.most_common())


def assignment_text(folder: Path) -> str:
    """The buffer assignment that a compiler left in a folder; empty where it left none."""
    # Small helper programs are compiled on the way; the one that was asked for has the longest text.
    files = list(folder.rglob("*buffer-assignment.txt"))
    return max(files, key=lambda path: path.stat().st_size).read_text(errors="replace") if files else ""
