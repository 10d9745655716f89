"""The digest of a package's code: a comment or a docstring does not change it, and everything else does."""

import sys
from pathlib import Path

import pytest

from workings.engines.source_digest import source_digest

CODE = 'LIMIT = 4\n\n\ndef double(number: int) -> int:\n    return 2 * number\n'


def digest_of(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Digest of a package with this code in a folder below it."""
    (folder / "measured" / "inner").mkdir(parents=True, exist_ok=True)
    for place in ("measured", "measured/inner"):
        (folder / place / "__init__.py").write_text("")
    (folder / "measured" / "inner" / "code.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))
    source_digest.cache_clear()
    sys.modules.pop("measured", None)
    return source_digest("measured")


@pytest.fixture(autouse=True)
def forget_digests():
    """No digest of this file's packages is kept for other tests."""
    yield
    source_digest.cache_clear()
    sys.modules.pop("measured", None)


@pytest.mark.parametrize(("before", "after", "same"), [
    ("LIMIT = 4", "# Four is enough.\nLIMIT = 4", True), ("LIMIT = 4", 'LIMIT = 4  # numbers\n"""How many."""', True),
    ("LIMIT = 4", '"""A module."""\nLIMIT = 4', True), ("int:\n", 'int:\n    """Twice the number."""\n\n', True),
    *((before, after, False) for before, after in (
        ("LIMIT = 4", "LIMIT = 5"), ("LIMIT = 4", 'LIMIT = "4"'), ("2 * number", "number * 2"),
        ("2 * number", "2 + number"), ("double", "twice"), ("(number: int)", "(number: int = 1)"),
        ("LIMIT = 4", "LIMIT = LOWER = 4"), ("return 2 * number", "return [2, number]"),
        ("return 2 * number", "return [[2], number]")))])
def test_code_changes_the_digest_and_words_for_people_do_not(before, after, same, tmp_path, monkeypatch):
    assert before in CODE
    changed = digest_of(CODE.replace(before, after), tmp_path, monkeypatch)
    assert (changed == digest_of(CODE, tmp_path, monkeypatch)) is same


def test_a_file_has_its_name_in_the_digest(tmp_path, monkeypatch):
    first = digest_of(CODE, tmp_path, monkeypatch)
    (tmp_path / "measured" / "inner" / "code.py").rename(tmp_path / "measured" / "inner" / "other.py")
    source_digest.cache_clear()
    assert source_digest("measured") != first


def test_of_a_package_next_to_it_no_folder_below_counts(tmp_path, monkeypatch):
    def digest() -> str:
        source_digest.cache_clear()
        return source_digest(modules_of="measured")

    digest_of(CODE, tmp_path, monkeypatch)
    first = digest()
    (tmp_path / "measured" / "inner" / "code.py").write_text(CODE + "double(2)\n")
    assert digest() == first
    (tmp_path / "measured" / "shared.py").write_text(CODE)
    assert digest() != first
