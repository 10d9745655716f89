"""What devices send to each other in one update, and the seconds that takes; nothing of it is taken to be hidden.

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
class Sent:
    """Bytes that one device receives in one update."""

    between_devices: float
    """Over the links of a slice or of cards."""
    between_slices: float
    """Of what a slice receives from the others, the share of one of its devices."""


def sent(request: EngineRequest, batch: BatchShape, mesh: MeshShape, slices: int = 1) -> Sent:
    """Bytes that one device receives in one update.

    Args:
        request: what the engine is asked for.
        batch: of the update.
        mesh: of the devices.
        slices: that the devices of ``fsdp`` are spread over evenly.
    """
    fsdp, tp = mesh
    # Of tables, which are split by rows over all devices, no weights travel but a batch's rows and sums, which are few.
    tables = sum(each.elements for each in local_tensors(request.shape, 1, tp)
                 if not each.in_layer and each.name != PER_LAYER_EMBEDDING)
    # What is computed in fewer bytes than it is stored in is made smaller before it travels.
    stored, compute = (BYTES_OF_FORMAT[each] for each in (request.precision.parameters, request.precision.compute))
    unsharded = weight_bytes(request, 1, tp) - stored * tables
    travels = request.split_frozen or request.method.name == "full"
    # Frozen matrices in few bits travel as these bits.
    smaller = 1.0 if request.method.name == "qlora" else min(stored, compute) / stored
    gathered = 2 * unsharded * smaller if travels else 0.0
    trained = sum(each.elements for each in trained_tensors(request, 1, tp) if each.in_layer)
    gradients = trained * (stored if request.method.name == "full" else 4)
    received = batch.accumulation * (gathered + gradients)
    rows = batch.rows // fsdp
    again = 1 if request.memory.remat == "layer" else 0
    sums = (2 + again) * SUMS_OF_A_LAYER * request.shape.layers * batch.accumulation
    # A sum over all is a scatter and a gather.
    summed = sums * 2 * (1 - 1 / tp) * rows * batch.positions * request.shape.width * compute
    return Sent(between_devices=received * (1 - 1 / fsdp) + summed,
                between_slices=received * (1 - 1 / slices) / (fsdp / slices))


def communication_seconds(request: EngineRequest, batch: BatchShape, target: Target, mesh: MeshShape,
                          share: float) -> float | None:
    """Seconds that this takes at a share of the target's rates; None where the catalog has none."""
    if mesh == (1, 1):
        return 0.0
    if not target.interconnect_gb_s or (target.slices > 1 and not target.network_gb_s):
        return None
    traffic = sent(request, batch, mesh, target.slices)
    network = traffic.between_slices / target.network_gb_s if target.slices > 1 else 0.0
    return (traffic.between_devices / target.interconnect_gb_s + network) / (1e9 * share)
