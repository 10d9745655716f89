"""The digest of a package's code: a comment or a docstring does not change it, and everything else does."""

import sys
from pathlib import Path

import pytest

from workings.engines.source_digest import source_digest

CODE = 'LIMIT = 4\n\n\ndef double(number: int) -> int:\n    return 2 * number\n'


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with `CODE` in a folder below it: the file with the code, and a function that gives the digest."""
    (inner := tmp_path / "measured" / "inner").mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").write_text("")
    (inner / "code.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest(*packages: str, **settings: str) -> str:
        source_digest.cache_clear()
        return source_digest(*packages, **settings)

    yield inner / "code.py", digest
    source_digest.cache_clear()
    sys.modules.pop("measured", None)


@pytest.mark.parametrize(("before", "after", "same"), [
    ("LIMIT = 4", '"""A module."""\n# Four is enough.\nLIMIT = 4\n"""How many."""', True),
    ("int:\n", 'int:\n    """Twice the number."""\n\n', True),
    *((before, after, False) for before, after in (
        ("LIMIT = 4", 'LIMIT = "4"'), ("2 * number", "number * 2"), ("double", "twice"),
        ("(number: int)", "(number: int = 1)"), ("return 2 * number", "return [[2], number]")))])
def test_code_changes_the_digest_and_words_for_people_do_not(before, after, same, package):
    file, digest = package
    first = digest("measured")
    file.write_text(CODE.replace(before, after))
    assert (digest("measured") == first) is same


def test_a_file_has_its_name_in_the_digest(package):
    file, digest = package
    first = digest("measured")
    file.rename(file.with_name("other.py"))
    assert digest("measured") != first


def test_of_a_package_next_to_it_no_folder_below_counts(package):
    file, digest = package
    first = digest(modules_of="measured")
    file.write_text(CODE + "double(2)\n")
    assert digest(modules_of="measured") == first
    Path(file.parents[1], "shared.py").write_text(CODE)
    assert digest(modules_of="measured") != first
