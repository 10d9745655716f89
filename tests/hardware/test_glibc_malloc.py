"""What a run on a CPU is told about its memory."""

import platform

import pytest

from workings.hardware.glibc_malloc import VARIABLE, less_memory


def test_blocks_that_are_given_back_are_advised_where_glibc_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=1048576"
    for version, advised in ((("glibc", "2.36"), True), (("glibc", "2.38"), False), (("", ""), False)):
        monkeypatch.setattr(platform, "libc_ver", lambda version=version: version)
        assert less_memory({}).startswith(asked) is advised
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    assert less_memory({VARIABLE: "glibc.malloc.mmap_threshold=4194304"}) == ""
