"""Memory of this machine that a process may use, what is free of it now, who says so; and bytes as people read them.

Three things can set the limit: the machine, a control group around this process, and an address-space limit of the
process itself (`ulimit -v`). The lowest one counts, for the whole and for what is free separately.
"""

import ctypes
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

PROCESS_PEAK = "process (peak resident set)"
"""Source of a peak where no device counts."""
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
"""Each is 1024 times the one before."""


@dataclass(frozen=True, kw_only=True)
class HostMemory:
    """Bytes, and where they come from."""

    limit_bytes: int
    """Bytes that processes here may use together."""
    limit_source: str
    available_bytes: int
    """Bytes that this process can still take without swapping."""
    available_source: str


def host_memory(root: Path = Path("/")) -> HostMemory:
    """The lowest limit, and the least that is free.

    Args:
        root: where ``proc`` and ``sys`` hang (tests give a folder).
    """
    limits = [_machine(root), *_groups(root), *_address_space(root)]
    # Limit and free memory are compared apart: the machine may be nearly full while a group's limit is lower.
    limit, limit_source = min((limit, source) for limit, _, source in limits)
    # A limit may be lowered below what is in use already.
    available, available_source = min((max(0, free), source) for _, free, source in limits)
    return HostMemory(limit_bytes=limit, limit_source=limit_source, available_bytes=available,
                      available_source=available_source)


def resident_bytes() -> int:
    """Memory that this process holds at this moment; 0 where the system does not say."""
    return _statm(Path("/"))[1]


def peak_resident_bytes() -> int:
    """The most memory that this process has held so far."""
    import resource  # not on Windows, where nothing is trained; what only reads a record imports this module too

    # Linux counts in KiB here, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _machine(root: Path) -> tuple[int, int, str]:
    """All memory and what is available of it; a system without `/proc` does not say what is available."""
    kib = _numbers(root / "proc/meminfo")
    if "MemTotal" in kib:
        # MemAvailable counts the caches that the kernel would give up; MemFree leaves them out.
        available = kib.get("MemAvailable", kib["MemTotal"])
        return kib["MemTotal"] * 1024, available * 1024, "machine (/proc/meminfo)"
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return pages, pages, "machine (sysconf)"


def _groups(root: Path) -> list[tuple[int, int, str]]:
    """Limits of the control group of this process and of the groups around it, version 2 and 1."""
    limits = []
    for base, path, names in _memberships(root):
        # Every group up to the mount limits what is in it.
        for folder in (base / path, *(base / path).parents):
            if not folder.is_relative_to(base):
                break
            # No limit is `max` in version 2, and more than any machine has in version 1.
            if limit := _number(folder / names[0]):
                # The kernel gives cached files up before it refuses memory.
                held = _number(folder / names[1]) - _numbers(folder / "memory.stat").get(names[2], 0)
                limits.append((limit, limit - max(0, held), f"control group ({names[0]})"))
    return limits


def _memberships(root: Path) -> list[tuple[Path, str, tuple[str, str, str]]]:
    """Memory control groups of this process: mount, path below it, and the names of its files."""
    mount = root / "sys/fs/cgroup"
    second = ("memory.max", "memory.current", "inactive_file")
    first = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    # Inside a container the group's own files often hang at the mount itself, regardless of what the path says.
    mounts = [(mount, "", second), (mount / "memory", "", first)]
    file = root / "proc/self/cgroup"
    for line in file.read_text().splitlines() if file.is_file() else []:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mounts += [(mount, path.lstrip("/"), second), (mount / "unified", path.lstrip("/"), second)]
        elif "memory" in controllers.split(","):
            mounts.append((mount / "memory", path.lstrip("/"), first))
    return mounts


def _number(file: Path) -> int:
    """The number in a file; 0 where there is no file or no number."""
    text = file.read_text().strip() if file.is_file() else ""
    return int(text) if text.isdigit() else 0


def _numbers(file: Path) -> dict[str, int]:
    """The number of each line by the name before it; empty where there is no file."""
    lines = file.read_text().splitlines() if file.is_file() else []
    return {words[0].removesuffix(":"): int(words[1]) for words in map(str.split, lines) if words[1:]}


def _address_space(root: Path) -> list[tuple[int, int, str]]:
    """`ulimit -v`, where it is set."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    virtual = _statm(root)[0]
    if soft == resource.RLIM_INFINITY or not virtual:
        return []
    # This limit counts addresses, with or without memory for them.
    return [(soft, soft - virtual, "address space (ulimit -v)")]


def _statm(root: Path) -> tuple[int, int]:
    """Virtual and resident bytes of this process."""
    file = root / "proc/self/statm"
    if not file.is_file():
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    virtual, resident = (int(pages) for pages in file.read_text().split()[:2])
    return virtual * page, resident * page


def gib(count: int) -> str:
    """Memory of a device or a host: GiB with two decimals from one GiB on, MiB below."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def byte_text(size: float) -> str:
    """Bytes of any number, in the largest unit that fits: ``512 B``, ``1.5 KiB``."""
    unit = 0
    while size >= 1024 and unit < len(BYTE_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {BYTE_UNITS[unit]}" if unit == 0 else f"{size:.1f} {BYTE_UNITS[unit]}"


VARIABLE, MAPPED = "GLIBC_TUNABLES", "glibc.malloc.mmap_threshold"
REUSES_ALIGNED = (2, 38)
"""The glibc from which on aligned blocks are used again."""
MAPPED_FROM = 1 << 20
"""Size of a block, in bytes, from which on the kernel maps it. From 4 MiB on, a small model takes no less."""
KEPT_SHARE = 2
"""A run takes at most this many times its planned memory where freed blocks are kept (1.7 times was measured)."""
_MMAP_THRESHOLD = -3  # of malloc.h


def keeps_freed_blocks() -> bool:
    """Whether this process's malloc keeps freed blocks that it cannot use again, and the user left it so.

    Up to 2.37, glibc does not give an aligned block to the next request of its size, and PyTorch asks for aligned
    blocks alone.
    """
    library, number = platform.libc_ver()
    return library == "glibc" and tuple(map(int, number.split("."))) < REUSES_ALIGNED and (
        MAPPED not in os.environ.get(VARIABLE, ""))


def map_large_blocks() -> None:
    """Have malloc return large blocks to the kernel as soon as they are freed: a run is slower and near its plan.

    LoRA of SmolLM2-135M grew by 1.53 instead of 2.05 GiB (planned 1.47), and took 44 instead of 34 s.
    """
    ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, MAPPED_FROM)


def return_free_memory() -> None:
    """Return to the kernel what malloc has free at this moment: copies of tensors, once the weights are read."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
