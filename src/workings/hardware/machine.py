"""Facts about this machine, without loading a framework: processor, cores, threads, memory, and the cache's folder."""

import os
import platform
from pathlib import Path
from typing import Any

from workings.hardware.memory import host_memory

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                    "VECLIB_MAXIMUM_THREADS")
"""Environment variables for the number of threads of numeric libraries, which decides the order of sums."""


def describe(root: Path = Path("/")) -> dict[str, Any]:
    """The machine, and the part of it that this process may use, as ``env/env_info.json``; ``root``: of ``proc``."""
    memory = host_memory(root)
    logical = os.cpu_count() or 1
    # Containers and job schedulers may restrict a process to some cores, or to a quota of processor time.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    quota = cgroup_cpu_quota(root / "sys/fs/cgroup")
    return {
        "cpu_model": cpu_model(),
        "architecture": platform.machine(),
        "logical_cores": logical,
        "usable_cores": max(1, min(usable, quota)) if quota else usable,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "usable_memory_bytes": memory.limit_bytes,
        "memory_source": memory.limit_source,
        "threads": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    }


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Name of the processor; the architecture if the system has no name."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Hardware", "cpu model") and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def cgroup_cpu_quota(root: Path) -> int:
    """Number of processors that this process's control group may use, rounded up; 0 without a quota."""
    file = root / "cpu.max"
    if not file.is_file():
        return 0
    # Microseconds of processor time per period, of all cores together.
    quota, period = file.read_text(encoding="ascii").split()
    return 0 if quota == "max" else -(-int(quota) // int(period))


def cache_directory() -> Path:
    """Directory of caches: ``$WORKINGS_CACHE``, ``$XDG_CACHE_HOME/workings`` or ``~/.cache/workings``."""
    own = os.environ.get("WORKINGS_CACHE")
    return Path(own) if own else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "workings"
