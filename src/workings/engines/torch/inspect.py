"""What a step needs on the device at hand, by a trace of the very step."""

from dataclasses import replace

import torch

from workings.config.training import MeshConfig
from workings.engines.base import EngineRequest, Inspection
from workings.engines.torch.device import Device
from workings.engines.torch.trace.inspect import Card, inspect_step


def inspection(request: EngineRequest, batch: tuple[int, ...], device: Device, fsdp: int) -> Inspection:
    """Bytes a device of a step on a batch ``(A, B, S)`` shared by ``fsdp`` processes, traced without running it."""
    card = Card()
    if device.platform == "gpu":
        facts = torch.cuda.get_device_properties(device.device)
        card = Card(capability=f"{facts.major}.{facts.minor}", limit_bytes=facts.total_memory)
    request = replace(request, mesh=MeshConfig(fsdp=fsdp, tp=1))
    return inspect_step(request, batch, device.platform, card)
