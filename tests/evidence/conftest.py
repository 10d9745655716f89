"""One sealed run with an evaluation, made once and copied for every test."""

import shutil
from functools import cache
from pathlib import Path

import pytest

from tests.evidence import records, walk
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


@pytest.fixture(scope="session")
def honest_records(tmp_path_factory: pytest.TempPathFactory) -> records.RecordOf:
    """Makes a record of a kind once and verifies it."""
    @cache
    def honest(kind: str) -> records.Record:
        files = records.record(kind, tmp_path_factory.mktemp(kind))
        found = walk.verified(files)
        assert found.failed == 0, found
        return files, found
    return honest


@pytest.fixture
def record_of(honest_records: records.RecordOf, monkeypatch: pytest.MonkeyPatch,
              ) -> records.RecordOf:
    """The files of a record of a kind and what `verify` reports about it; it is scored in this process."""
    records.score_here(monkeypatch)
    return honest_records
