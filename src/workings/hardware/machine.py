"""Facts about this machine that need no framework: processor, cores, threads, memory and its limits."""

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the operating system says about this machine and about what this process may use of it."""

    cpu_model: str
    """Name of the processor, e.g. `AMD EPYC 7B13`."""
    architecture: str
    """`x86_64`, `arm64`, …"""
    logical_cores: int
    """Hardware threads of the machine."""
    usable_cores: int
    """Hardware threads this process may run on (affinity and control group)."""
    memory_bytes: int
    """Physical memory."""
    usable_memory_bytes: int
    """Memory this process may use: physical, or the control group's limit where that is lower."""
    memory_source: str
    """Where the usable figure comes from."""
    threads: Mapping[str, str]
    """Variables that set the number of threads of numeric libraries, where they are set."""


def describe() -> Machine:
    """Facts about the machine that this process runs on."""
    physical = physical_memory_bytes()
    limit = cgroup_memory_limit_bytes(_CGROUP)
    limited = 0 < limit < physical
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_cpu_quota(_CGROUP)
    return Machine(
        cpu_model=cpu_model(),
        architecture=platform.machine(),
        logical_cores=os.cpu_count() or 1,
        usable_cores=max(1, min(usable, quota)) if quota else usable,
        memory_bytes=physical,
        usable_memory_bytes=limit if limited else physical,
        memory_source="control group limit" if limited else "physical memory",
        threads={name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    )


THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                    "VECLIB_MAXIMUM_THREADS")
"""Environment variables that decide how many threads numeric libraries use, and so the order of sums."""


def as_json(machine: Machine) -> dict[str, object]:
    """The facts as JSON values."""
    return asdict(machine)


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Name of the processor; where the system keeps none, the architecture."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Hardware", "cpu model") and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def physical_memory_bytes() -> int:
    """Physical memory of the machine, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cgroup_memory_limit_bytes(root: Path) -> int:
    """Memory limit of this process's control group, in bytes; 0 where there is none.

    Inside a container the group's own files are at the root of the mount: `memory.max` (version 2) or
    `memory/memory.limit_in_bytes` (version 1, where "no limit" is a number close to 2**63).
    """
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        file = root / name
        if file.is_file():
            text = file.read_text(encoding="ascii").strip()
            if text.isdigit() and int(text) < 2**62:
                return int(text)
    return 0


def cgroup_cpu_quota(root: Path) -> int:
    """Whole processors that this process's control group may use, rounded up; 0 where there is no quota."""
    file = root / "cpu.max"
    if file.is_file():
        quota, period = file.read_text(encoding="ascii").split()
        return 0 if quota == "max" else -(-int(quota) // int(period))
    return 0
