"""A run that begins knows the address of a page over its folder."""

import json
from pathlib import Path

import pytest

from workings.record.page_address import open_page, page_address


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_page_around_a_run_is_named_while_it_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    with open_page(Path("runs"), "http://127.0.0.1:8765"):
        assert page_address(Path("runs/a b/c")) == "http://127.0.0.1:8765/run/a%20b/c"
        assert page_address(Path("elsewhere/c")) == ""
    assert page_address(Path("runs/a")) == ""


def test_a_page_whose_process_died_is_not_named(tmp_path: Path, cache: Path) -> None:
    with open_page(tmp_path, "http://127.0.0.1:8765"):
        file = next(cache.glob("pages/*.json"))
        file.write_text(json.dumps(json.loads(file.read_bytes()) | {"process": "another one's"}))
        assert page_address(tmp_path / "a") == ""
        file.write_text("{}")
        assert page_address(tmp_path / "a") == ""
