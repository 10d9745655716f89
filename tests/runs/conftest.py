"""The other package's engine, for runs in this process and in children."""

import os
import sys
from pathlib import Path

import pytest

OTHER_PACKAGE = Path(__file__).resolve().parent.parent / "other_package"


@pytest.fixture(autouse=True)
def other_package(monkeypatch):
    """As if `workings-other-engine` were installed."""
    monkeypatch.syspath_prepend(str(OTHER_PACKAGE))
    before = filter(None, [os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(OTHER_PACKAGE), *before]))
    yield
    sys.modules.pop("other_engine", None)
