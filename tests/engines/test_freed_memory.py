"""What a small step frees is there for the next one."""

import platform
import resource

import pytest

from workings.engines import freed_memory
from workings.engines.freed_memory import MAX_TEMPORARIES, keep_freed_memory, map_each_tensor, return_free_memory
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
def test_a_large_program_returns_the_blocks_of_its_tensors():
    size = 48 << 20
    try:
        keep_freed_memory(MAX_TEMPORARIES + 1)
        assert not map_each_tensor(MAX_TEMPORARIES)
        assert map_each_tensor(MAX_TEMPORARIES + 1)
        blocks = [b"x" * size for _ in range(6)]
        full = resident_bytes()
        # Every second one stays: of a heap only its end could be returned.
        del blocks[::2]
        assert full - resident_bytes() > 2.5 * size
    finally:
        keep_freed_memory(MAX_TEMPORARIES + 1)


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
    assert not map_each_tensor(MAX_TEMPORARIES + 1)


def test_another_library(monkeypatch):
    monkeypatch.setattr(freed_memory.platform, "libc_ver", lambda: ("", ""))
    assert not keep_freed_memory(0)
