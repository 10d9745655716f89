"""Memory of this machine: how much a process may use, how much is free now, and bytes as text.

The machine, a control group, and an address-space limit (`ulimit -v`) may each limit it. The lowest limit counts.
"""

import ctypes
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PROCESS_PEAK = "process (peak resident set)"
"""Source of a peak that no device measures."""
BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
"""Each is 1024 times the one before."""


@dataclass(frozen=True, kw_only=True)
class HostMemory:
    """Memory of this machine for this process."""

    limit_bytes: int
    """Bytes that processes here may use together."""
    limit_source: str
    available_bytes: int
    """Bytes that this process can still take without swapping."""
    available_source: str


class _Limit(NamedTuple):
    limit_bytes: int
    free_bytes: int
    source: str


class _GroupFiles(NamedTuple):
    """Names of the files of a memory control group, and of the entry in ``memory.stat`` that counts cached files."""

    limit: str
    usage: str
    cached: str


GROUP_FILES_V1 = _GroupFiles("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
GROUP_FILES_V2 = _GroupFiles("memory.max", "memory.current", "inactive_file")


def host_memory(root: Path = Path("/")) -> HostMemory:
    """The lowest limit and the least free memory, each with its source; ``root``: parent of ``proc`` and ``sys``."""
    limits = [_machine(root), *_groups(root), *_address_space(root)]
    limit, limit_source = min((each.limit_bytes, each.source) for each in limits)
    # A limit may be lowered below what is in use already.
    available, available_source = min((max(0, each.free_bytes), each.source) for each in limits)
    return HostMemory(limit_bytes=limit, limit_source=limit_source, available_bytes=available,
                      available_source=available_source)


def resident_bytes() -> int:
    """Bytes that this process holds now; 0 if the system does not say."""
    _, resident = _statm(Path("/"))
    return resident


def peak_resident_bytes() -> int:
    """The most bytes that this process has held so far."""
    import resource  # not on Windows, where records can be read but nothing is trained

    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _machine(root: Path) -> _Limit:
    kib = _numbers(root / "proc/meminfo")
    if "MemTotal" in kib:
        # Unlike MemFree, MemAvailable counts the caches that the kernel would give up.
        available = kib.get("MemAvailable", kib["MemTotal"])
        return _Limit(kib["MemTotal"] * 1024, available * 1024, "machine (/proc/meminfo)")
    all_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return _Limit(all_bytes, all_bytes, "machine (sysconf)")


def _groups(root: Path) -> list[_Limit]:
    """Limits of the control group of this process, and of the groups around it up to the mount."""
    limits = []
    for mount, path, files in _memberships(root):
        for folder in (mount / path, *(mount / path).parents):
            if not folder.is_relative_to(mount):
                break
            # Without a limit the file has `max` in version 2, and more bytes than any machine in version 1.
            if limit := _number(folder / files.limit):
                # The kernel gives up cached files before it refuses memory.
                held = _number(folder / files.usage) - _numbers(folder / "memory.stat").get(files.cached, 0)
                limits.append(_Limit(limit, limit - max(0, held), f"control group ({files.limit})"))
    return limits


def _memberships(root: Path) -> list[tuple[Path, str, _GroupFiles]]:
    """Memory control groups of this process: mount, path below the mount, and names of files."""
    mount = root / "sys/fs/cgroup"
    # Inside a container the group's own files are often at the mount itself, regardless of the path.
    groups = [(mount, "", GROUP_FILES_V2), (mount / "memory", "", GROUP_FILES_V1)]
    file = root / "proc/self/cgroup"
    for line in file.read_text().splitlines() if file.is_file() else []:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            groups += [(folder, path.lstrip("/"), GROUP_FILES_V2) for folder in (mount, mount / "unified")]
        elif "memory" in controllers.split(","):
            groups.append((mount / "memory", path.lstrip("/"), GROUP_FILES_V1))
    return groups


def _number(file: Path) -> int:
    """The number in a file; 0 if there is no file or no number."""
    text = file.read_text().strip() if file.is_file() else ""
    return int(text) if text.isdigit() else 0


def _numbers(file: Path) -> dict[str, int]:
    """The number of each line by the name before it; empty if there is no file."""
    lines = file.read_text().splitlines() if file.is_file() else []
    return {words[0].removesuffix(":"): int(words[1]) for words in map(str.split, lines) if words[1:]}


def _address_space(root: Path) -> list[_Limit]:
    """The limit of `ulimit -v`, if it is set. It counts addresses, with or without memory for them."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    virtual, _ = _statm(root)
    if limit == resource.RLIM_INFINITY or not virtual:
        return []
    return [_Limit(limit, limit - virtual, "address space (ulimit -v)")]


def _statm(root: Path) -> tuple[int, int]:
    """Virtual and resident bytes of this process."""
    file = root / "proc/self/statm"
    if not file.is_file():
        return 0, 0
    page = os.sysconf("SC_PAGE_SIZE")
    virtual, resident = (int(pages) for pages in file.read_text().split()[:2])
    return virtual * page, resident * page


def gib(count: int) -> str:
    """Bytes as text, in GiB from one GiB on: ``1.50 GiB``, ``512.0 MiB``."""
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def byte_text(size: float) -> str:
    """Bytes as text, in the largest unit that fits: ``512 B``, ``1.5 KiB``."""
    unit = 0
    while size >= 1024 and unit < len(BYTE_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {BYTE_UNITS[unit]}" if unit == 0 else f"{size:.1f} {BYTE_UNITS[unit]}"


TUNABLES, MMAP_THRESHOLD = "GLIBC_TUNABLES", "glibc.malloc.mmap_threshold"  # a variable, and a setting in it
REUSES_ALIGNED = (2, 38)
"""The first version of glibc that reuses freed aligned blocks."""
MAPPED_FROM = 1 << 20
"""Size in bytes from which blocks are mapped by the kernel."""
KEPT_SHARE = 2
"""If freed blocks are kept, a run takes at most this many times its planned memory (1.7 times was measured)."""
M_MMAP_THRESHOLD = -3  # of malloc.h


def keeps_freed_blocks() -> bool:
    """Whether malloc keeps freed blocks that it cannot reuse: old versions of glibc do, unless the user changed it."""
    library, number = platform.libc_ver()
    if library != "glibc" or MMAP_THRESHOLD in os.environ.get(TUNABLES, ""):
        return False
    # PyTorch asks for aligned blocks only.
    return tuple(map(int, number.split("."))) < REUSES_ALIGNED


def map_large_blocks() -> None:
    """Make malloc return large freed blocks to the kernel, which takes less memory and more time."""
    # LoRA of SmolLM2-135M took 1.53 instead of 2.05 GiB (planned 1.47), and 44 instead of 34 s.
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MAPPED_FROM)


def return_free_memory() -> None:
    """Return memory that malloc has free to the kernel, for example after the weights are read."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
