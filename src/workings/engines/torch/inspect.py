"""What a step needs on the device at hand, by a trace of the very step."""

import torch

from workings.engines.base import EngineRequest, Inspection
from workings.engines.torch.device import Device
from workings.engines.torch.trace.inspect import Card, inspect_step


def inspection(request: EngineRequest, batch: tuple[int, ...], device: Device) -> Inspection:
    """Bytes of a step on a batch ``(A, B, S)``, traced without running it."""
    card = Card()
    if device.platform == "gpu":
        facts = torch.cuda.get_device_properties(device.device)
        card = Card(capability=f"{facts.major}.{facts.minor}", limit_bytes=facts.total_memory)
    return inspect_step(request, batch, device.platform, card)
