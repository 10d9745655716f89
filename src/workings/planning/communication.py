"""Bytes that devices send to each other in one update, and their seconds; no overlap with computing is assumed.

With ``fsdp`` a device gathers the weights that the others hold, once forward and once backward, and sends the gradients
of what is trained to those that hold it. With ``tp`` the devices of a row sum what each layer gives. Devices of several
slices share the network between these: what comes from another slice is counted once for all of them.
"""

from dataclasses import dataclass

from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest, MeshShape
from workings.hardware.catalog import Target
from workings.models.batch import BatchShape
from workings.models.weights import PER_LAYER_EMBEDDING
from workings.planning.tensors import local_tensors, trained_tensors, weight_bytes

SUMS_OF_A_LAYER = 2
"""Sums over ``tp`` of a layer's forward: attention's and the feed-forward's outputs; its backward has as many."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Bytes that one device receives in one update."""

    between_devices: float
    """Over the links of a slice or between GPUs."""
    between_slices: float
    """The share of one device in the bytes that its slice receives from the others."""


def traffic_of_an_update(request: EngineRequest, batch: BatchShape, mesh: MeshShape, slices: int = 1) -> Traffic:
    """Bytes that one device receives in one update.

    Args:
        request: to the engine.
        batch: of the update.
        mesh: of the devices.
        slices: number of slices that the devices are spread over evenly.
    """
    fsdp, tp = mesh.of_a_copy
    # Tables are split by rows over all devices: only a batch's rows and sums of them travel, which are few bytes.
    tables = sum(tensor.elements for tensor in local_tensors(request.shape, 1, tp)
                 if not tensor.in_layer and tensor.name != PER_LAYER_EMBEDDING)
    # Weights are converted to the format of the computing before they travel, if that is smaller.
    stored, compute = (BYTES_OF_FORMAT[number_format] for number_format in (request.precision.parameters,
                                                                            request.precision.activations))
    unsharded = weight_bytes(request, 1, tp) - stored * tables
    weights_travel = request.split_frozen or request.method.name == "full"
    # Quantized frozen matrices travel as they are.
    smaller = 1.0 if request.method.name == "qlora" else min(stored, compute) / stored
    # Once for forward and once for backward.
    gathered = 2 * unsharded * smaller if weights_travel else 0.0
    trained = sum(tensor.elements for tensor in trained_tensors(request, 1, tp) if tensor.in_layer)
    gradients = trained * (stored if request.method.name == "full" else 4)
    received = batch.accumulation * (gathered + gradients)
    # Activations are summed among the devices that share a row.
    rows = batch.rows // mesh.row_devices
    recomputed = 1 if request.memory.remat == "layer" else 0
    sums = (2 + recomputed) * SUMS_OF_A_LAYER * request.shape.layers * batch.accumulation
    # An all-reduce is a scatter and a gather.
    summed = sums * 2 * (1 - 1 / tp) * rows * batch.positions * request.shape.width * compute
    # Copies sum the part of the gradients that each device has, those of tables too, and gather nothing. JAX does so
    # for each micro batch, PyTorch once an update.
    all_gradients = gradients + (stored * tables if request.method.name == "full" else 0)
    between_copies = batch.accumulation * all_gradients / fsdp * 2 * (1 - 1 / mesh.replicate)
    # Copies are the farthest from each other, so a copy is within a slice if there are as many copies as slices.
    slices_of_a_copy = max(1, slices // mesh.replicate)
    across = received * (1 - 1 / slices_of_a_copy) / (fsdp / slices_of_a_copy)
    return Traffic(between_devices=received * (1 - 1 / fsdp) + summed + (between_copies if slices == 1 else 0.0),
                   between_slices=across + (between_copies if slices > 1 else 0.0))


def communication_seconds(request: EngineRequest, batch: BatchShape, target: Target, mesh: MeshShape,
                          share: float) -> float | None:
    """Seconds of an update's traffic at a share of the target's rates; None if the catalog has no rates."""
    if mesh.devices == 1:
        return 0.0
    if not target.interconnect_gb_s or (target.slices > 1 and not target.network_gb_s):
        return None
    traffic = traffic_of_an_update(request, batch, mesh, target.slices)
    network = traffic.between_slices / target.network_gb_s if target.slices > 1 else 0.0
    return (traffic.between_devices / target.interconnect_gb_s + network) / (1e9 * share)
