"""Facts about the devices an engine opened, without any framework."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

DeviceRequest = Literal["auto", "cpu", "gpu", "tpu"]


def without_alias(device: str) -> DeviceRequest:
    """A device as it is asked for, `cuda` by its other name `gpu`."""
    return cast(DeviceRequest, "gpu" if device == "cuda" else device)


def row_devices(mesh: Mapping[str, int]) -> int:
    """Number of devices over which rows are split; those of ``tp`` share their rows."""
    return mesh.get("replicate", 1) * mesh.get("fsdp", 1)


@dataclass(frozen=True, kw_only=True)
class DeviceFacts:
    """The device that a run really uses."""

    platform: str
    """`cpu`, `gpu` or `tpu`."""
    kind: str
    """The device's own name, e.g. `NVIDIA H200`, `TPU v5 lite`, or the CPU's model name."""
    count: int
    """Devices this run uses, over all processes."""
    memory_limit_bytes: int
    """Bytes one device offers (for the CPU: the machine's or the control group's memory)."""
    memory_limit_source: str
    mesh: Mapping[str, int]
    """Axis sizes, e.g. `{"fsdp": 8, "tp": 1}`; `replicate` if there are several copies of the parameters."""
    versions: Mapping[str, str]
    """Versions of the engine's libraries."""
    memory_share: float = 1.0
    """Share of the device's memory that ``memory_limit_bytes`` is, where the engine leaves the rest to others."""
    reason: str
    """Why this device: asked for, or what `auto` saw."""
