"""One device's piece of every tensor: trained and frozen weights, and adapters.

Layers may differ in their tensors (Gemma 4), so tensors of the same name and shape are counted, layer by layer.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from types import MappingProxyType

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest
from workings.models.shape import ModelShape
from workings.models.weights import (
    EMBEDDING,
    HEAD,
    PER_LAYER_EMBEDDING,
    RESIDUAL,
    is_frozen,
    layer_shapes,
    outer_shapes,
    projections,
)

PER_LAYER_TABLE = "per-layer embeddings (frozen)"
"""Part of the memory: the second embedding table, which no method trains (Gemma 4 E2B: half of the model)."""
INPUT_SPLIT = tuple(f"{name}.weight" for name in RESIDUAL)
"""Matrices whose input axis is split over ``tp``; all others split their output axis."""
NF4_BLOCK = 64
"""Elements of a 4-bit matrix that share a scale of four bytes."""
Size = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One device's piece of a tensor."""

    name: str
    """The full name; of a layer's tensor, the name within the layer."""
    size: Size
    count: int
    """Number of layers that have it; 1 outside of the layers."""
    in_layer: bool

    @property
    def elements(self) -> int:
        """Elements of all of them on one device."""
        return prod(self.size) * self.count


@cache
def layer_tensors(shape: ModelShape) -> Mapping[tuple[str, Size], int]:
    """Name and shape of every tensor of the layers -> how many layers have it."""
    # Cached for all callers, so it must not be changed.
    return MappingProxyType(Counter(
        tensor for layer in range(shape.layers) for tensor in layer_shapes(shape, layer).items()))


def local_tensors(shape: ModelShape, fsdp: int, tp: int) -> Iterator[Tensor]:
    """One device's piece of each tensor; an axis that does not divide is left whole."""
    for name, size in outer_shapes(shape).items():
        yield Tensor(name=name, size=_local(name, size, fsdp, tp), count=1, in_layer=False)
    for (name, size), count in layer_tensors(shape).items():
        yield Tensor(name=name, size=_local(name, size, fsdp, tp), count=count, in_layer=True)


def _local(name: str, size: Size, fsdp: int, tp: int) -> Size:
    # Norms and biases are whole on every device: they are too small for splitting to matter.
    if len(size) < 2:
        return size
    # Tables are split by rows over all devices, whichever axis of the mesh they are on.
    if name in (EMBEDDING, HEAD, PER_LAYER_EMBEDDING):
        return (size[0] // (fsdp * tp), size[1]) if size[0] % (fsdp * tp) == 0 else size
    axes = (fsdp, tp) if name in INPUT_SPLIT else (tp, fsdp)
    # The matrices of experts are in one tensor, whose first axis counts them and stays whole.
    first, matrix = size[:-2], size[-2:]
    return first + tuple(length // axis if length % axis == 0 else length
                         for length, axis in zip(matrix, axes, strict=True))


def trained_tensors(request: EngineRequest, fsdp: int, tp: int) -> list[Tensor]:
    """Tensors with gradients and moments: adapters, or else all that the family does not freeze."""
    if request.method.name != "full":
        return adapters(request, fsdp, tp)
    return [tensor for tensor in local_tensors(request.shape, fsdp, tp) if not is_frozen(tensor.name, request.shape)]


def adapters(request: EngineRequest, fsdp: int, tp: int) -> list[Tensor]:
    """Adapters of LoRA and QLoRA: a thin matrix on either side of each chosen projection; none with full training."""
    method = request.method
    if method.name == "full":
        return []
    tensors: list[Tensor] = []
    for (name, size), count in layer_tensors(request.shape).items():
        if len(size) == 2 and name.removesuffix(".weight").rpartition(".")[2] in method.target_modules:
            out, inner = size
            both, one = (tp, fsdp), (fsdp,)  # the projection's own split, and `fsdp` on the side that it leaves whole
            split_in, split_out = (both, one) if name.endswith(INPUT_SPLIT) else (one, both)
            tensors += [Tensor(name=name, size=thin, count=count, in_layer=True)
                        for thin in ((method.rank, _local_length(inner, split_in)), (_local_length(out, split_out),
                                                                                     method.rank))]
    return tensors


def _local_length(length: int, axes: tuple[int, ...]) -> int:
    """A device's piece of an axis that is split by as many of the mesh's axes, from the front, as divide it."""
    while axes and length % prod(axes):
        axes = axes[:-1]
    return length // prod(axes)


def table_bytes(request: EngineRequest, fsdp: int, tp: int) -> int:
    """Bytes of one device's piece of the per-layer embeddings, in device or host memory; 0 for a model without them."""
    # If an engine does not split frozen weights, every device holds all of them.
    stored, mesh = BYTES_OF_FORMAT[request.precision.parameters], (fsdp, tp) if request.split_frozen else (1, 1)
    return sum(stored * tensor.elements for tensor in local_tensors(request.shape, *mesh)
               if tensor.name == PER_LAYER_EMBEDDING)


def table_on_host(request: EngineRequest) -> bool:
    """Whether the recipe keeps the per-layer embeddings in the host's memory."""
    return bool(request.shape.per_layer_width) and request.memory.per_layer_embeddings == "host"


def host_parts(request: EngineRequest, devices: int) -> dict[str, int]:
    """Bytes in the host's memory by part: the per-layer embeddings whole, once for the process of each device."""
    return {PER_LAYER_TABLE: devices * table_bytes(request, 1, 1)} if table_on_host(request) else {}


def weight_bytes(request: EngineRequest, fsdp: int, tp: int) -> int:
    """Bytes of weights as they are stored, without per-layer embeddings and adapters.

    With QLoRA the layers' projections have four bits and a scale for every 64.
    """
    stored, total = BYTES_OF_FORMAT[request.precision.parameters], 0
    fewer = {f"{name}.weight" for name in projections(request.shape)} if request.method.name == "qlora" else set()
    # Next to the split pieces, because an engine may leave frozen matrices whole on every device.
    unsharded = local_tensors(request.shape, 1, 1)
    for tensor, unsplit in zip(local_tensors(request.shape, fsdp, tp), unsharded, strict=True):
        if tensor.name in fewer and tensor.in_layer:
            total += _four_bit_bytes(tensor if request.split_frozen else unsplit)
        elif tensor.name != PER_LAYER_EMBEDDING:
            total += stored * tensor.elements
    return total


def _four_bit_bytes(tensor: Tensor) -> int:
    """Bytes of frozen projections: two numbers a byte and a float32 scale a block."""
    # Per device: blocks are never cut, so whole blocks are counted.
    return tensor.elements // 2 + 4 * (tensor.elements // NF4_BLOCK)
