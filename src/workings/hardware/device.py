"""Facts about the devices that an engine has opened."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

DeviceRequest = Literal["auto", "cpu", "gpu", "tpu"]


def without_alias(device: str) -> DeviceRequest:
    """The requested device, with `gpu` for its other name `cuda`."""
    return cast(DeviceRequest, "gpu" if device == "cuda" else device)


def row_devices(mesh: Mapping[str, int]) -> int:
    """Number of devices that split rows between them; devices along ``tp`` have the same rows."""
    return mesh.get("replicate", 1) * mesh.get("fsdp", 1)


@dataclass(frozen=True, kw_only=True)
class DeviceFacts:
    """The devices that a run uses."""

    platform: str
    """`cpu`, `gpu` or `tpu`."""
    kind: str
    """The device's own name, e.g. `NVIDIA H200`, `TPU v5 lite`, or the CPU's model name."""
    count: int
    """Devices of this run, over all processes."""
    memory_limit_bytes: int
    """Bytes of one device that the run may use; on a CPU, of the machine or of the control group."""
    memory_limit_source: str
    mesh: Mapping[str, int]
    """Sizes of the axes, such as ``{"fsdp": 8, "tp": 1}``; ``replicate`` if there are copies of the parameters."""
    versions: Mapping[str, str]
    """Versions of the engine's libraries."""
    memory_share: float = 1.0
    """``memory_limit_bytes`` as a share of the device's memory; below 1 if the engine leaves a part free."""
    reason: str
    """Why this device was chosen: it was asked for, or `auto` found it."""
