"""Machines that a plan can be made for, read from `catalog.json`, where every row names its source."""

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
    """One machine. Figures are per device as the framework sees it; a missing one is 0 or empty and in ``absent``."""

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
    """Memory that a compiler allows a program to use, in units of 2**30 bytes."""
    usable_source: str = ""
    bandwidth_gb_s: float = 0.0
    """Memory bandwidth, in units of 10**9 bytes per second."""
    rates_tflops: Mapping[str, float] = field(default_factory=dict)
    """Dense peak rates by number format, in 10**12 operations a second."""
    no_matrix_units: tuple[str, ...] = ()
    """Number formats that run without matrix units, and so far below the rates of the others."""
    interconnect_gb_s: float = 0.0
    compute_capability: str = ""
    topology: str = ""
    """Name by which the TPU compiler knows the machine; for GPUs partitions x hosts x cards."""
    gpu_config: str = ""
    """Card in `gpu_configs/` that the CUDA compiler is told about."""
    accelerator_type: str = ""
    """Cloud's name of the machine, which the TPU compiler wants in its environment."""
    topology_options: Mapping[str, Any] = field(default_factory=dict)
    """Further compiler options for this machine (one chip per host, both cores of a chip as one device)."""
    slices: int = 1
    """TPU slices that the devices are spread over evenly, joined by the data center's network."""
    network_gb_s: float = 0.0
    """One device's share of that network."""
    kaggle_session_hours: int = 0
    absent: Mapping[str, str] = field(default_factory=dict)
    """Figure -> why it is left out."""

    @property
    def memory_bytes(self) -> int:
        """Usable bytes of one device: the compiler's limit where it is known, else what the datasheet says."""
        return int(self.usable_gib * 2**30) if self.usable_gib else int(self.memory_gb_per_device * 10**9)

    @property
    def memory_source(self) -> str:
        """Source of the memory limit."""
        return self.usable_source or self.source.split(";")[0]


def gpu_config(name: str) -> dict[str, Any]:
    """Description of an absent GPU for XLA's CUDA compiler, by the name that a target's ``gpu_config`` has.

    ``derived``: put together from datasheets and tables instead of read from such a card. ``compute_capability`` has
    the letter ``a`` if kernels may use features of this architecture alone. Memory is in bytes, its bandwidth in bytes
    per second.
    """
    text = files("workings.hardware").joinpath("gpu_configs", f"{name}.json").read_text(encoding="utf-8")
    values: dict[str, Any] = json.loads(text)
    return values


@cache
def targets() -> Mapping[str, Target]:
    """All rows by name, in the order of the file."""
    # By `importlib.resources` and no path: an installed package may be in a zip.
    text = files("workings.hardware").joinpath("catalog.json").read_text(encoding="utf-8")
    # Tuples, because all callers share one row.
    rows: list[dict[str, Any]] = [{key: tuple(value) if isinstance(value, list) else value
                                   for key, value in row.items()} for row in json.loads(text)["targets"]]
    return {row["name"]: Target(**row) for row in rows}


def target_in_name(recipe: str) -> str:
    """The machine that a recipe is called after (``gemma-2b-v5e8``: ``v5e-8``); empty where it is called after none."""
    names = {name.replace("-", ""): name for name in targets()}
    return next((names[part] for part in recipe.split("-") if part in names), "")


def find_target(name: str) -> Target:
    """A target by its name or another spelling of it. Raises `RequestError` that names the near ones."""
    # People write `V5E_8` and `tpu v5e-8`; names in the catalog are in lower case with hyphens.
    normalized_name = name.strip().lower().replace("_", "-").replace(" ", "-")
    spelled = {spelling: row for row in targets().values() for spelling in (row.name, *row.aliases)}
    if normalized_name in spelled:
        return spelled[normalized_name]
    near = get_close_matches(normalized_name, targets(), 3, 0.5)
    raise RequestError(f"--on {name} names no target of the catalog", "one of " + ", ".join(targets()),
                       "--on " + " or --on ".join(near) if near else "--on v5e-8")


HOST = MappingProxyType({"platform": "cpu"})
"""This machine's CPU, as a compiler is told of it."""


def compile_target(target: Target) -> Mapping[str, Any]:
    """A row of the catalog as a compiler is told of it, in JSON values; a GPU's row must name its ``gpu_config``."""
    if target.platform == "cpu":
        return dict(HOST)
    if target.platform == "gpu":
        return {"platform": "gpu", "card": gpu_config(target.gpu_config), "topology": target.topology}
    return {"platform": "tpu", "topology": target.topology, "accelerator_type": target.accelerator_type,
            "options": dict(target.topology_options)}
