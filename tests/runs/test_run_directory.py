"""Where a run is written if no one says where, and where it is shown."""

import pytest

from workings.errors import RequestError
from workings.runs.create_or_resume import run_directory


def test_the_next_free_number_and_what_resumes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(run_directory("tiny")) == "runs/tiny"
    (tmp_path / "runs/tiny").mkdir(parents=True)
    (tmp_path / "runs/tiny-2.partial").mkdir()
    assert str(run_directory("tiny")) == "runs/tiny-3"
    with pytest.raises(RequestError, match="--out runs/tiny"):
        run_directory("tiny", resume=True)
