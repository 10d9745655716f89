"""Machines that can be planned for, read from `catalog.json`, where every row names its source."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Literal

from workings.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class Target:
    """One machine. Figures are per device as the framework sees it; a missing figure is 0 or empty."""

    name: str
    platform: Literal["cpu", "gpu", "tpu"]
    kind: str
    """The device's own name."""
    devices: int
    """Devices of the whole machine (cores on TPU v2, v3 and 7x, chips or cards elsewhere)."""
    chips: int
    source: str
    aliases: tuple[str, ...] = ()
    memory_gb_per_device: float = 0.0
    """Memory in units of 10**9 bytes."""
    usable_gib: float = 0.0
    """Memory that the compiler lets a program use, in units of 2**30 bytes."""
    usable_source: str = ""
    bandwidth_gb_s: float = 0.0
    """Memory bandwidth, in units of 10**9 bytes per second."""
    rates_tflops: Mapping[str, float] = field(default_factory=dict)
    """Dense peak rates by number format, in 10**12 operations a second."""
    no_matrix_units: tuple[str, ...] = ()
    """Number formats that run without matrix units, and so are much slower."""
    interconnect_gb_s: float = 0.0
    compute_capability: str = ""
    topology: str = ""
    """The TPU compiler's name of the machine; for GPUs partitions x hosts x cards."""
    gpu_config: str = ""
    """Description in `gpu_configs/` for the CUDA compiler."""
    accelerator_type: str = ""
    """Google Cloud's name of the machine, which the TPU compiler needs in its environment."""
    topology_options: Mapping[str, Any] = field(default_factory=dict)
    """Further options of the TPU compiler, such as one chip per host."""
    slices: int = 1
    """TPU slices, joined by the data center's network; the devices are spread evenly over them."""
    network_gb_s: float = 0.0
    """One device's share of that network, in units of 10**9 bytes per second."""
    kaggle_session_hours: int = 0
    absent: Mapping[str, str] = field(default_factory=dict)
    """Missing figures -> why they are missing."""

    @property
    def memory_bytes(self) -> int:
        """Usable bytes of one device: the compiler's limit if it is known, else the number of the datasheet."""
        return int(self.usable_gib * 2**30) if self.usable_gib else int(self.memory_gb_per_device * 10**9)

    @property
    def memory_source(self) -> str:
        """Source of the memory limit."""
        return self.usable_source or self.source.split(";")[0]


def gpu_config(name: str) -> dict[str, Any]:
    """Description of a GPU for XLA's CUDA compiler; ``name``: the ``gpu_config`` of a target.

    ``derived``: whether it comes from datasheets and tables instead of from such a card. ``compute_capability`` ends
    with ``a`` if kernels may use features of this architecture alone. Memory is in bytes, bandwidth in bytes a second.
    """
    text = files("workings.hardware").joinpath("gpu_configs", f"{name}.json").read_text(encoding="utf-8")
    values: dict[str, Any] = json.loads(text)
    return values


@cache
def targets() -> Mapping[str, Target]:
    """All machines by name, in the order of the file."""
    text = files("workings.hardware").joinpath("catalog.json").read_text(encoding="utf-8")
    # Tuples, because all callers share the cached rows.
    rows: list[dict[str, Any]] = [{key: tuple(value) if isinstance(value, list) else value
                                   for key, value in row.items()} for row in json.loads(text)["targets"]]
    return {row["name"]: Target(**row) for row in rows}


def target_in_name(recipe: str) -> str:
    """The machine in the name of a recipe, such as ``v5e-8`` in ``gemma-2b-v5e8``; empty if there is none."""
    names = {name.replace("-", ""): name for name in targets()}
    return next((names[part] for part in recipe.split("-") if part in names), "")


def find_target(name: str) -> Target:
    """A target by its name or another spelling of it, such as ``V5E_8``. Raises `RequestError` for an unknown name."""
    normalized_name = name.strip().lower().replace("_", "-").replace(" ", "-")
    spelled = {spelling: row for row in targets().values() for spelling in (row.name, *row.aliases)}
    if normalized_name in spelled:
        return spelled[normalized_name]
    near = get_close_matches(normalized_name, targets(), 3, 0.5)
    raise RequestError(f"--on {name} names no target of the catalog", "one of " + ", ".join(targets()),
                       "--on " + " or --on ".join(near) if near else "--on v5e-8")


HOST = MappingProxyType({"platform": "cpu"})
"""`compile_target` of this machine's CPU."""


def compile_target(target: Target) -> Mapping[str, Any]:
    """Description of a target for a compiler, in JSON values. A GPU must have a ``gpu_config``."""
    if target.platform == "cpu":
        return dict(HOST)
    if target.platform == "gpu":
        return {"platform": "gpu", "card": gpu_config(target.gpu_config), "topology": target.topology}
    return {"platform": "tpu", "topology": target.topology, "accelerator_type": target.accelerator_type,
            "options": dict(target.topology_options)}
