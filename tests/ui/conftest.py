"""Someone who has the link to the page of a folder with two runs."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.ui.making import client, two_runs


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """The page over `two_runs` in the test's own folder."""
    two_runs(tmp_path)
    return client(tmp_path, monkeypatch)
