"""On a CPU, malloc keeps memory that a small step frees for the next step, instead of returning it to the kernel.

By default malloc returns large blocks and the end of the heap, and the kernel must provide every page again in the next
step. Only small programs keep their temporaries: kept blocks of other sizes leave holes, which for large programs would
be gigabytes that no plan counts (large programs have huge pages, `workings.hardware.huge_pages`).
"""

import ctypes
import os
import platform

MAX_TEMPORARIES = 256 << 20
"""The most bytes of temporaries of a small program."""
DECIDED = ("MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_")
"""Environment variables by which a person sets what malloc keeps."""
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
"""Parameters of glibc's `mallopt`."""
# No block is mapped separately and the end of the heap is not returned, so the next step finds its pages in place.
KEEPING = {TRIM_THRESHOLD: 2**31 - 1, MMAP_MAX: 0}
GIVING_BACK = {TRIM_THRESHOLD: 64 << 20, MMAP_THRESHOLD: 32 << 20, MMAP_MAX: 65536}
"""Values that glibc itself sets after it has freed large blocks."""


def keep_freed_memory(temporaries: int) -> bool:
    """Let malloc keep freed memory if programs are small; returns whether it does.

    Args:
        temporaries: bytes, of the largest program.
    """
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in DECIDED):
        return False
    # Any such setting ends glibc's own adaptation, so returning memory needs explicit values, too.
    small = temporaries <= MAX_TEMPORARIES
    for parameter, value in (KEEPING if small else GIVING_BACK).items():
        ctypes.CDLL(None).mallopt(parameter, value)
    return small
