"""Which environment asks for huge pages."""

import platform
from pathlib import Path

import pytest

from workings.hardware.glibc_malloc import VARIABLE, less_memory, with_huge_pages

ASKED = "glibc.malloc.hugetlb=1"
glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this system has no glibc")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """What the kernel says about huge pages."""
    file = tmp_path / "enabled"
    file.write_text("always [madvise] never\n")
    return file


@glibc
def test_asks_beside_what_is_set_already(pages: Path) -> None:
    assert with_huge_pages({}, pages) == {VARIABLE: ASKED}
    assert with_huge_pages({VARIABLE: "glibc.malloc.check=1"}, pages) == {VARIABLE: f"glibc.malloc.check=1:{ASKED}"}


def test_the_person_decides(pages: Path) -> None:
    assert with_huge_pages({VARIABLE: "glibc.malloc.hugetlb=0"}, pages) == {}
    assert with_huge_pages({VARIABLE: ASKED}, pages) == {}


@pytest.mark.parametrize("text", ["[always] madvise never", "always madvise [never]"])
def test_nothing_to_ask_for(pages: Path, text: str) -> None:
    pages.write_text(text)
    assert with_huge_pages({}, pages) == {}
    pages.unlink()
    assert with_huge_pages({}, pages) == {}


def test_old_or_other_libraries(pages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in (("glibc", "2.31"), ("", "")):
        monkeypatch.setattr(platform, "libc_ver", lambda found=library: found)
        assert with_huge_pages({}, pages) == {}


def test_blocks_that_are_given_back_are_advised_where_glibc_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=1048576"
    for version, advised in ((("glibc", "2.36"), True), (("glibc", "2.38"), False), (("", ""), False)):
        monkeypatch.setattr(platform, "libc_ver", lambda version=version: version)
        assert less_memory({}).startswith(asked) is advised
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.36"))
    assert less_memory({VARIABLE: "glibc.malloc.mmap_threshold=4194304"}) == ""
