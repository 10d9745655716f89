"""What a small step frees is there for the next one."""

import platform
import resource

import pytest

from workings.engines import freed_memory
from workings.engines.freed_memory import MAX_TEMPORARIES, keep_freed_memory, return_free_memory
from workings.hardware.memory import resident_bytes


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this system has no glibc")
def test_pages_of_freed_memory_are_not_made_anew():
    size, times = 40 << 20, 8

    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(times):
            bytearray(size)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    try:
        assert not keep_freed_memory(MAX_TEMPORARIES + 1)
        given_back = faults()
        assert keep_freed_memory(MAX_TEMPORARIES)
        faults()
        kept = faults()
    finally:
        keep_freed_memory(MAX_TEMPORARIES + 1)
    assert kept < given_back / 10


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this system has no glibc")
def test_kept_memory_is_returned_once_the_weights_are_read():
    size = 24 << 20
    try:
        keep_freed_memory(0)
        blocks = [b"x" * size for _ in range(6)]
        del blocks[::2]
        kept = resident_bytes()
        return_free_memory()
        assert kept - resident_bytes() > 2.5 * size
    finally:
        keep_freed_memory(MAX_TEMPORARIES + 1)


def test_the_person_decides(monkeypatch):
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "65536")
    assert not keep_freed_memory(0)


def test_another_library(monkeypatch):
    monkeypatch.setattr(freed_memory.platform, "libc_ver", lambda: ("", ""))
    assert not keep_freed_memory(0)
