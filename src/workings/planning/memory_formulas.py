"""Exact memory of a run: bytes per device of weights, optimizer state, gradients and batch.

These sizes follow from tensor shapes, number formats and the mesh. Estimates of all other memory are in
`forward_memory` and `step_memory`.

``fsdp`` and ``tp`` are the numbers of devices along the axes of the mesh. With ``fsdp=4 tp=2``, each of the eight
devices has a piece ``[out / 2, in / 4]`` of a matrix ``[out, in]``.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from types import MappingProxyType

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest, ProgramShape
from workings.models.batch import BatchShape
from workings.models.family import EMBEDDING, HEAD, PER_LAYER_EMBEDDING, RESIDUAL
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import is_frozen, layer_shapes

PER_LAYER_TABLE = "per-layer embeddings (frozen)"
"""Part of the memory: the second embedding table, which no method trains (Gemma 4 E2B: half of the model)."""
INPUT_SPLIT = tuple(f"{name}.weight" for name in RESIDUAL)
"""Matrices whose input axis is split over ``tp``; all others split their output axis."""
NF4_BLOCK = 64
"""Elements of a 4-bit matrix that share a scale of four bytes."""
BATCH_ARRAYS = 5
"""Arrays of every batch: tokens, targets, weights, positions and segment ids, four bytes an element."""
FORMULA_VERSIONS = {"formula": "4"}
"""Version of all formulas, recorded where a compiler's versions would be; raised when an estimate changes."""
Dims = tuple[int, ...]
"""Length of each axis of a tensor."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One device's piece of a tensor."""

    name: str
    """The full name; for a layer's tensor, the name within the layer."""
    dims: Dims
    count: int
    """Number of layers that have it; 1 outside of the layers."""
    in_layer: bool

    @property
    def elements(self) -> int:
        """Elements on one device, in all layers together."""
        return prod(self.dims) * self.count


@cache
def layer_tensors(shape: ModelShape) -> Mapping[tuple[str, Dims], int]:
    """Name and dimensions of every tensor of the layers -> how many layers have it."""
    return MappingProxyType(Counter(
        tensor for layer in range(shape.layers) for tensor in layer_shapes(shape, layer).items()))


def local_tensors(shape: ModelShape, fsdp: int, tp: int) -> Iterator[Tensor]:
    """One device's piece of every tensor of a model. An axis that cannot be divided evenly stays whole."""
    for name, dims in family_of(shape).outer_shapes(shape).items():
        yield Tensor(name=name, dims=_local_dims(name, dims, fsdp, tp), count=1, in_layer=False)
    for (name, dims), count in layer_tensors(shape).items():
        yield Tensor(name=name, dims=_local_dims(name, dims, fsdp, tp), count=count, in_layer=True)


def _local_dims(name: str, dims: Dims, fsdp: int, tp: int) -> Dims:
    """Dimensions of one device's piece of a tensor."""
    # Every device has whole norms and biases: they are too small for splitting to matter.
    if len(dims) < 2:
        return dims
    if name in (EMBEDDING, HEAD, PER_LAYER_EMBEDDING):
        return _local_length(dims[0], fsdp * tp), dims[1]
    out_devices, in_devices = (fsdp, tp) if name in INPUT_SPLIT else (tp, fsdp)
    # One tensor holds the matrices of all experts. Its first axis counts the experts and stays whole.
    return *dims[:-2], _local_length(dims[-2], out_devices), _local_length(dims[-1], in_devices)


def _local_length(length: int, *splits: int) -> int:
    """Length of one device's piece of an axis. Splits that do not divide it are left out, the last one first."""
    # A length of 12 over 4 and 2 devices becomes 3: 4 x 2 does not divide it, but 4 does.
    while length % prod(splits):
        splits = splits[:-1]
    return length // prod(splits)


def trained_tensors(request: EngineRequest, fsdp: int, tp: int) -> list[Tensor]:
    """Tensors with gradients and moments: the adapters, or all tensors that the model's family does not freeze."""
    if request.method.name != "full":
        return adapters(request, fsdp, tp)
    return [tensor for tensor in local_tensors(request.shape, fsdp, tp) if not is_frozen(tensor.name, request.shape)]


def adapters(request: EngineRequest, fsdp: int, tp: int) -> list[Tensor]:
    """Adapters of LoRA and QLoRA: A ``[rank, in]`` and B ``[out, rank]`` of each chosen projection."""
    method = request.method
    if method.name == "full":
        return []
    tensors: list[Tensor] = []
    for (name, dims), count in layer_tensors(request.shape).items():
        projection = name.removesuffix(".weight").rpartition(".")[2]
        if len(dims) != 2 or projection not in method.target_modules:
            continue
        out_length, in_length = dims
        # `tp` splits an adapter along the axis that it splits in the projection; `fsdp` splits both matrices.
        splits_input = name.endswith(INPUT_SPLIT)
        a_dims = method.rank, _local_length(in_length, tp if splits_input else 1, fsdp)
        b_dims = _local_length(out_length, 1 if splits_input else tp, fsdp), method.rank
        tensors += [Tensor(name=name, dims=local, count=count, in_layer=True) for local in (a_dims, b_dims)]
    return tensors


def _mesh_of_frozen(request: EngineRequest, fsdp: int, tp: int) -> tuple[int, int]:
    """Devices that share 4-bit matrices and per-layer embeddings; some engines leave these whole on every device."""
    return (fsdp, tp) if request.split_frozen else (1, 1)


def table_bytes(request: EngineRequest, fsdp: int, tp: int) -> int:
    """Bytes of one device's piece of the per-layer embeddings, in device or host memory; 0 for a model without them."""
    tensors = local_tensors(request.shape, *_mesh_of_frozen(request, fsdp, tp))
    return BYTES_OF_FORMAT[request.precision.parameters] * sum(
        tensor.elements for tensor in tensors if tensor.name == PER_LAYER_EMBEDDING)


def table_on_host(request: EngineRequest) -> bool:
    """Whether the recipe keeps the per-layer embeddings in the host's memory."""
    return bool(request.shape.per_layer_width) and request.memory.per_layer_embeddings == "host"


def host_parts(request: EngineRequest, devices: int) -> dict[str, int]:
    """Bytes in the host's memory by part: each device's process has a whole copy of the per-layer embeddings."""
    return {PER_LAYER_TABLE: devices * table_bytes(request, 1, 1)} if table_on_host(request) else {}


def outer_elements(request: EngineRequest, tp: int) -> int:
    """Elements of the tensors outside of the layers, without per-layer embeddings, on one of ``tp`` devices."""
    return sum(tensor.elements for tensor in local_tensors(request.shape, 1, tp)
               if not tensor.in_layer and tensor.name != PER_LAYER_EMBEDDING)


def weight_bytes(request: EngineRequest, fsdp: int, tp: int) -> int:
    """Bytes of weights as they are stored, without per-layer embeddings and adapters."""
    matrices = {f"{name}.weight" for name in family_of(request.shape).projections}
    four_bit = matrices if request.method.name == "qlora" else set()
    stored_elements = sum(tensor.elements for tensor in local_tensors(request.shape, fsdp, tp)
                          if tensor.name not in four_bit and tensor.name != PER_LAYER_EMBEDDING)
    # Two elements a byte, and a float32 scale a block. Blocks are never cut, so only whole ones are counted.
    four_bit_bytes = sum(tensor.elements // 2 + 4 * (tensor.elements // NF4_BLOCK)
                         for tensor in local_tensors(request.shape, *_mesh_of_frozen(request, fsdp, tp))
                         if tensor.name in four_bit)
    return BYTES_OF_FORMAT[request.precision.parameters] * stored_elements + four_bit_bytes


def layer_bytes(request: EngineRequest, tp: int) -> int:
    """Bytes of the layers' weights as they are stored, whole over ``fsdp``, on one of ``tp`` devices."""
    return weight_bytes(request, 1, tp) - BYTES_OF_FORMAT[request.precision.parameters] * outer_elements(request, tp)


def exact_parts(request: EngineRequest, batch: ProgramShape, fsdp: int, tp: int) -> dict[str, int]:
    """Bytes per device of parameters, moments, gradients and batch, by part.

    ``batch`` is (accumulation, rows of a micro batch, positions), as in `BatchShape`. Per-layer embeddings are their
    own part, unless they are in the host's memory.
    """
    accumulation, rows, positions = batch
    # Adapters are trained in float32, in any format of the frozen weights.
    trains_adapters = request.method.name != "full"
    trained_bytes = 4 if trains_adapters else BYTES_OF_FORMAT[request.precision.parameters]
    trained = trained_tensors(request, fsdp, tp)
    trained_elements = sum(tensor.elements for tensor in trained)
    adapter_bytes = trained_bytes * trained_elements if trains_adapters else 0
    parts = {"parameters": weight_bytes(request, fsdp, tp) + adapter_bytes}
    if request.shape.per_layer_width and not table_on_host(request):
        parts[PER_LAYER_TABLE] = table_bytes(request, fsdp, tp)
    parts["moments"] = sum(
        tensor.count * request.optimizer.state_bytes(tensor.dims, moments=request.precision.moments,
                                                     in_layer=tensor.in_layer) for tensor in trained)
    parts["gradients"] = trained_bytes * trained_elements
    batch_arrays = BATCH_ARRAYS + len(request.objective.signals)
    parts["batch"] = 4 * batch_arrays * accumulation * rows // fsdp * positions
    if request.precision.rounding == "master_fp32":
        parts["master weights"] = 4 * trained_elements
    # The sum over the micro batches so far exists next to the gradients of the current one.
    if accumulation > 1:
        parts["gradient accumulator"] = trained_bytes * trained_elements
    return parts


def state_parts(request: EngineRequest, fsdp: int, tp: int) -> dict[str, int]:
    """Bytes per device of what a trained model keeps in memory between steps, by part."""
    # No part of the state depends on the batch, so any batch that the mesh divides will do.
    parts = exact_parts(request, BatchShape(1, fsdp, 1), fsdp, tp)
    return {name: part_bytes for name, part_bytes in parts.items()
            if name in ("parameters", PER_LAYER_TABLE, "moments", "master weights")}


def checkpoint_bytes(request: EngineRequest) -> int:
    """Bytes of one checkpoint over all devices: adapters or the whole model, optimizer state, fp32 master weights."""
    parts = exact_parts(request, BatchShape(1, 1, 1), 1, 1)
    # A checkpoint of adapters has no other weights. Adapters have the size of their gradients.
    saved = parts["parameters"] + table_bytes(request, 1, 1) if request.method.name == "full" else parts["gradients"]
    return saved + parts["moments"] + parts.get("master weights", 0)
