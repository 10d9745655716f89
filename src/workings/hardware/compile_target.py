"""Machines as a compiler is told of them that runs elsewhere: a TPU slice, NVIDIA cards of one kind, or this CPU."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from workings.hardware.catalog import Target, gpu_config


@dataclass(frozen=True, kw_only=True)
class TpuTarget:
    """A TPU slice that the compiler knows."""

    topology: str
    """libtpu's name of the slice, e.g. `v5e:2x4`."""
    accelerator_type: str
    """Cloud's name of it, which libtpu wants in the environment, e.g. `v5litepod-8`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Compiler options next to the name (`chip_config_name`, `chips_per_host_bounds`)."""
    platform: Literal["tpu"] = "tpu"


@dataclass(frozen=True, kw_only=True)
class CudaTarget:
    """NVIDIA cards of one kind."""

    card: Mapping[str, Any]
    """A file of `hardware/gpu_configs`."""
    topology: str
    """Partitions x hosts x cards, e.g. `1x1x2`."""
    platform: Literal["gpu"] = "gpu"


@dataclass(frozen=True, kw_only=True)
class HostTarget:
    """This machine's CPU."""

    platform: Literal["cpu"] = "cpu"


CompileTarget = TpuTarget | CudaTarget | HostTarget
V5E_8 = TpuTarget(topology="v5e:2x4", accelerator_type="v5litepod-8")
"""Kaggle's TPU v5e-8: eight chips of 15.75 GiB usable memory each."""


def compile_target(target: Target) -> CompileTarget:
    """A row of the catalog as a compiler is told of it; a GPU's row must name its ``gpu_config``."""
    if target.platform == "cpu":
        return HostTarget()
    if target.platform == "gpu":
        # Plain values, because the compiler is asked in a child process that is told everything as JSON.
        return CudaTarget(card=asdict(gpu_config(target.gpu_config)), topology=target.topology)
    return TpuTarget(topology=target.topology, accelerator_type=target.accelerator_type,
                     options=target.topology_options)
