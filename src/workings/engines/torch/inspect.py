"""Memory of a step on this machine's device, by a trace of the engine's own step."""

from dataclasses import replace

import torch

from workings.config.training import MeshConfig
from workings.engines.base import EngineRequest, Inspection
from workings.engines.torch.device import Device
from workings.engines.torch.trace.inspect import TracedCard, inspect_step
from workings.engines.torch.trace.target import trace_for
from workings.engines.torch.triton.check import kernels_run_on
from workings.models.batch import BatchShape


def inspection(request: EngineRequest, batch: BatchShape, device: Device, fsdp: int) -> Inspection:
    """Bytes a device of a step on a batch shared by ``fsdp`` processes, traced without running it."""
    card = TracedCard()
    if device.platform == "gpu":
        facts = torch.cuda.get_device_properties(device.device)
        card = TracedCard(capability=f"{facts.major}.{facts.minor}", limit_bytes=facts.total_memory,
                          kernels=kernels_run_on(device.device))
    request = replace(request, mesh=MeshConfig(fsdp=fsdp, tp=1))
    if fsdp == 1:
        return inspect_step(request, batch, device.platform, card)
    # In a child: processes that are not there cannot be told from the real ones that this one computes with.
    return trace_for(request, {"step": batch}, device.platform, capability=card.capability,
                     limit_bytes=card.limit_bytes)["step"]
