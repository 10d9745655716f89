"""Facts about this machine that need no framework: processor, cores, threads, memory, the cache's folder."""

import os
import platform
from pathlib import Path
from typing import Any

from workings.hardware.memory import host_memory

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                    "VECLIB_MAXIMUM_THREADS")
"""Environment variables that decide how many threads numeric libraries use, and so the order of sums."""


def describe(root: Path = Path("/")) -> dict[str, Any]:
    """The machine that this process runs on and the part of it that it may use, as ``env/env_info.json`` records them.

    Args:
        root: where ``proc`` and ``sys`` hang (tests give a folder).
    """
    memory = host_memory(root)
    logical = os.cpu_count() or 1
    # `os.cpu_count` counts the whole machine; containers and job schedulers often leave a process fewer.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    # A container's quota limits processor time and not which cores are used, so the affinity does not show it.
    quota = cgroup_cpu_quota(root / "sys/fs/cgroup")
    return {
        # Numeric libraries choose their vector code by it, and so the order of sums.
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
    """Name of the processor; where the system keeps none, the architecture."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            # x86 has the first of these names, ARM and MIPS the others.
            if key.strip() in ("model name", "Hardware", "cpu model") and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


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
