"""On a CPU, memory that a small step frees stays with malloc for the next step, instead of going back to the kernel.

malloc gives back what is large or lies at its end, and the next step has every page made anew. Kept are the temporaries
of small programs only: kept pieces of other sizes leave holes between them, which for large programs would be gigabytes
that no plan knows of (those have huge pages, `workings.hardware.huge_pages`).
"""

import ctypes
import os
import platform

MAX_TEMPORARIES = 256 << 20
"""Bytes of temporaries of a program that count as small."""
DECIDED = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_")
"""Variables by which a person decides what malloc keeps."""
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
"""Parameters of glibc's `mallopt`."""
# Nothing is mapped for itself and the heap's end is not given back, so the next step finds its pages made.
KEEPING = {TRIM_THRESHOLD: 2**31 - 1, MMAP_MAX: 0}
GIVING_BACK = {TRIM_THRESHOLD: 64 << 20, MMAP_THRESHOLD: 32 << 20, MMAP_MAX: 65536}
"""What glibc arrives at by itself after it has freed large pieces."""


def keep_freed_memory(temporaries: int) -> bool:
    """Let malloc keep what is freed where programs are small; returns whether it does.

    Args:
        temporaries: bytes, of the largest program.
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in DECIDED):
        return False
    # Any such setting ends glibc's own adaption, so giving back needs numbers, too.
    small = temporaries <= MAX_TEMPORARIES
    for parameter, value in (KEEPING if small else GIVING_BACK).items():
        ctypes.CDLL(None).mallopt(parameter, value)
    return small
