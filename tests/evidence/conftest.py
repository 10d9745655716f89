"""One sealed run with an evaluation, made once and copied for every test."""

import shutil
from pathlib import Path

import pytest

from tests.record import synthetic


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs with one complete run; never changed."""
    folder = tmp_path_factory.mktemp("pristine")
    synthetic.add_evaluation(synthetic.sealed_run(folder / "tiny"))
    return folder


@pytest.fixture
def run(pristine: Path, tmp_path: Path) -> Path:
    """A copy of the run, in a folder with its list of attempts."""
    shutil.copytree(pristine, tmp_path / "runs")
    return tmp_path / "runs" / "tiny"
