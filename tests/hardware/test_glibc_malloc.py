"""What malloc keeps of the memory of a run on a CPU."""

import platform
import subprocess
import sys

import pytest

from workings.hardware.memory import MMAP_THRESHOLD, TUNABLES, keeps_freed_blocks

MAPPED_BLOCKS = """
import ctypes
from workings.hardware.memory import map_large_blocks
class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd".split()] + [
        (f"rest{i}", ctypes.c_size_t) for i in range(5)]
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.mallinfo2.restype = ctypes.c_void_p, Counts
libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
def mapped():
    libc.malloc_trim(0)  # what the heap has free is given out first
    before = libc.mallinfo2().hblks
    block = libc.malloc(2 << 20)
    found = libc.mallinfo2().hblks - before
    libc.free(block)
    return found
libc.free(libc.malloc(16 << 20))  # a freed large block raises the threshold
print(mapped(), end=" ")
map_large_blocks()
print(mapped(), mapped())
"""


def test_malloc_of_an_old_glibc_keeps_freed_blocks_unless_the_user_set_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TUNABLES, raising=False)
    for version, kept in ((("glibc", "2.36"), True), (("glibc", "2.38"), False), (("", ""), False)):
        monkeypatch.setattr(platform, "libc_ver", lambda version=version: version)
        assert keeps_freed_blocks() is kept
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    monkeypatch.setenv(TUNABLES, f"{MMAP_THRESHOLD}=4194304")
    assert not keeps_freed_blocks()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_large_blocks_are_mapped_and_returned() -> None:
    done = subprocess.run([sys.executable, "-c", MAPPED_BLOCKS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1", "1"]
