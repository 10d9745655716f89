"""Facts about this machine that need no framework: processor, cores, threads, memory, the cache's folder."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workings.hardware.memory import host_memory


@dataclass(frozen=True, kw_only=True)
class HostMachine:
    """This machine according to the operating system, and the part of it that this process may use."""

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
    """Source of the usable figure."""
    threads: Mapping[str, str]
    """Variables that set the number of threads of numeric libraries, where they are set."""


def describe(root: Path = Path("/")) -> HostMachine:
    """Facts about the machine that this process runs on.

    Args:
        root: where ``proc`` and ``sys`` hang (tests give a folder).
    """
    memory = host_memory(root)
    # `os.cpu_count` counts the whole machine; containers and job schedulers often leave a process fewer.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    # A container's quota limits processor time and not which cores are used, so the affinity does not show it.
    quota = cgroup_cpu_quota(root / "sys/fs/cgroup")
    return HostMachine(
        # Numeric libraries choose their vector code by it, and so the order of sums.
        cpu_model=cpu_model(),
        architecture=platform.machine(),
        # `os.cpu_count` returns None where the system does not say.
        logical_cores=os.cpu_count() or 1,
        usable_cores=max(1, min(usable, quota)) if quota else usable,
        memory_bytes=physical_memory_bytes(),
        usable_memory_bytes=memory.limit_bytes,
        memory_source=memory.limit_source,
        threads={name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    )


THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                    "VECLIB_MAXIMUM_THREADS")
"""Environment variables that decide how many threads numeric libraries use, and so the order of sums."""


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Name of the processor; where the system keeps none, the architecture."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            # x86 has the first of these names, ARM and MIPS the others.
            if key.strip() in ("model name", "Hardware", "cpu model") and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def physical_memory_bytes() -> int:
    """Physical memory of the machine, in bytes."""
    # POSIX has no figure for memory itself, only pages and their size.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def cgroup_cpu_quota(root: Path) -> int:
    """Whole processors that this process's control group may use, rounded up; 0 where there is no quota."""
    file = root / "cpu.max"
    if file.is_file():
        # Microseconds of processor time in each period, of all cores together.
        quota, period = file.read_text(encoding="ascii").split()
        return 0 if quota == "max" else -(-int(quota) // int(period))
    return 0


def cache_directory() -> Path:
    """Directory of caches: ``WORKINGS_CACHE``, or ``workings`` in the user's cache directory."""
    # The folder of the XDG specification comes second: `~/.cache` if its variable is not set.
    own = os.environ.get("WORKINGS_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "workings"
