"""Artifacts for trackers, and MLflow's refusals. The real server is asked in `proof/mlflow_server.py`."""

import json
from pathlib import Path

import pytest

from tests.record import synthetic
from workings.errors import RequestError, WorkingsError
from workings.reports.mlflow import log_run
from workings.reports.tracked import artifacts


def test_artifacts_are_the_records_files_without_tensors(tmp_path: Path) -> None:
    run = synthetic.sealed_run(tmp_path / "run")
    (run / "checkpoints" / "link").symlink_to("/etc/hostname")
    names = {(file.name, folder) for file, folder in artifacts(run, weights=False)}
    assert ("run_manifest.json", None) in names
    assert ("metrics.jsonl", "train") in names
    assert not [name for name, _ in names if name.endswith(".safetensors") or name == "link"]
    assert [name for name, _ in ((file.name, folder) for file, folder in artifacts(run, weights=True))
            if name.endswith(".safetensors")]


@pytest.mark.parametrize("uri", ["sqlite:///x.db", "mlruns", ""])
def test_only_a_server_is_an_address(tmp_path: Path, uri: str) -> None:
    with pytest.raises(RequestError, match="--mlflow"):
        log_run(synthetic.sealed_run(tmp_path / "run"), uri, "x")


@pytest.mark.slow
def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    run = synthetic.sealed_run(tmp_path / "run")
    before = json.dumps(sorted(path.as_posix() for path in run.rglob("*")))
    with pytest.raises(WorkingsError, match="no server answers there\ntry:"):
        log_run(run, "http://127.0.0.1:9", "x")
    assert json.dumps(sorted(path.as_posix() for path in run.rglob("*"))) == before
