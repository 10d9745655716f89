"""The other package's engine, for runs in this process and in children."""

import os
import sys
from pathlib import Path

import pytest

from tests.runs.runs_helpers import OTHER_PACKAGE, write_recipe


@pytest.fixture(autouse=True)
def other_package(monkeypatch):
    """As if `workings-other-engine` were installed."""
    monkeypatch.syspath_prepend(str(OTHER_PACKAGE))
    before = filter(None, [os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(OTHER_PACKAGE), *before]))
    yield
    sys.modules.pop("other_engine", None)


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """The recipe of the unigram engine, with its data."""
    return write_recipe(tmp_path / "asked")
