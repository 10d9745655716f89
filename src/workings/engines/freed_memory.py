"""On a CPU, malloc's treatment of the memory that a step frees: kept for the next step, or returned to the kernel.

By default malloc returns large blocks and the end of the heap, and the kernel must provide every page again in the next
step. Only small programs keep their temporaries: kept blocks of other sizes leave holes, which for large programs would
be gigabytes that no plan counts (large programs have huge pages, `workings.hardware.huge_pages`).
"""

import ctypes
import os
import platform
from collections.abc import Mapping

MAX_TEMPORARIES = 256 << 20
"""The most bytes of temporaries of a small program."""
DECIDED = ("MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
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
    # Any such setting ends glibc's own adaptation, so returning memory needs explicit values, too.
    small = temporaries <= MAX_TEMPORARIES
    return _set(KEEPING if small else GIVING_BACK) and small


def return_free_memory() -> None:
    """Return to the kernel what malloc has free at this moment: copies of tensors, once the weights are read."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


def _set(parameters: Mapping[int, int]) -> bool:
    """Set parameters of glibc's malloc; returns whether it did: the person may have, or there is another library."""
    if platform.libc_ver()[0] != "glibc" or any(name in os.environ for name in DECIDED):
        return False
    for parameter, value in parameters.items():
        ctypes.CDLL(None).mallopt(parameter, value)
    return True
