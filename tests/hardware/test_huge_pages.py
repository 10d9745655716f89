"""Which environment asks for huge pages, and that the command begins anew with it."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from workings.hardware import huge_pages
from workings.hardware.huge_pages import VARIABLE, with_huge_pages

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


@glibc
def test_the_process_begins_anew_once_and_stays_the_same(pages: Path, tmp_path: Path) -> None:
    """A real process, with another file for the kernel's, restarts itself: its number and words stay."""
    script = tmp_path / "command.py"
    script.write_text(
        "import json, os, sys\n"
        "from pathlib import Path\n"
        "from workings.hardware import huge_pages\n"
        f"huge_pages.with_huge_pages.__defaults__ = (Path({str(pages)!r}),)\n"
        "with open(sys.argv[-1], 'a') as file:\n"
        "    print(os.getpid(), file=file)\n"
        "huge_pages.restart_with_huge_pages(sys.argv[1:])\n"
        "print(json.dumps([os.environ.get('GLIBC_TUNABLES'), sys.argv[1:], sys.flags.utf8_mode]))\n")
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}

    def started(verb: str) -> tuple[list[object], list[str]]:
        begun = tmp_path / verb
        done = subprocess.run([sys.executable, "-X", "utf8", str(script), verb, "a b", str(begun)], check=True,
                              env=environment, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout), begun.read_text().split()

    found, begun = started("train")
    assert found == [ASKED, ["train", "a b", str(tmp_path / "train")], 1]
    assert len(begun) == 2
    assert begun[0] == begun[1]
    found, begun = started("verify")
    assert found[0] is None
    assert len(begun) == 1


def test_verbs_exist() -> None:
    from workings.cli.main import app

    there = {command.name for command in app.registered_commands}
    assert set(huge_pages.VERBS) <= there
