"""Return of memory that malloc holds to the kernel."""

import ctypes
import platform


def return_free_memory() -> None:
    """Return to the kernel what malloc has free at this moment: copies of tensors, once the weights are read."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)
