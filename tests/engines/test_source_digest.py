"""The digest of a package's code, by which kept plans are found."""

import sys
from pathlib import Path

import pytest

from workings.engines.source_digest import source_digest


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with a module in a folder below it: the module's file, and a function that gives the digest."""
    (inner := tmp_path / "measured" / "inner").mkdir(parents=True)
    for file in (inner.parent / "__init__.py", inner / "__init__.py", inner / "code.py"):
        file.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest(*packages: str, **settings: str) -> str:
        source_digest.cache_clear()
        return source_digest(*packages, **settings)

    yield inner / "code.py", digest
    source_digest.cache_clear()
    sys.modules.pop("measured", None)


def test_code_and_names_of_files_are_in_the_digest_and_of_a_neighbour_no_folder_below(package):
    file, digest = package
    before, alone = digest("measured"), digest(modules_of="measured")
    file.write_text("LIMIT = 4\n")
    changed = digest("measured")
    file.rename(file.with_name("other.py"))
    assert len({before, changed, digest("measured")}) == 3
    assert digest(modules_of="measured") == alone
    Path(file.parents[1], "shared.py").write_text("")
    assert digest(modules_of="measured") != alone
