"""TensorBoard files next to a run, and MLflow's refusals. The real server is asked in `proof/mlflow_server.py`."""

import json
import struct
from pathlib import Path

import pytest

from tests.record import synthetic
from workings.errors import RequestError, WorkingsError
from workings.reports.mlflow import log_run
from workings.reports.tracked import artifacts
from workings.training.observer import LoggedSample
from workings.training.tensorboard import SCALARS, TensorBoardFiles

LINE = {"step": 1, "loss": 2.5, "learning_rate": 0.01, "grad_norm": 1.0, "tokens": 30, "seconds": 0.5}


def events(folder: Path) -> bytes:
    """Payloads of all event files of a folder: length, its checksum, data, its checksum."""
    found = b""
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])
            found += data[12:12 + size]
            data = data[16 + size:]
    return found


def test_tensorboard_files_hold_the_metrics(tmp_path: Path) -> None:
    said: list[str] = []
    files = TensorBoardFiles(tmp_path / "run", said.append)
    files.line(LINE)
    files.line(LINE | {"step": 2, "loss": 0.125, "evaluation_loss": 0.75})
    files.close()
    files.close()
    assert said == [f"curves     {tmp_path / 'tensorboard' / 'run'} (TensorBoard)"]
    data = events(tmp_path / "tensorboard" / "run")
    for tag in ("loss", "evaluation_loss", "learning_rate", "grad_norm"):
        assert SCALARS[tag].encode() in data
    for value in (2.5, 0.125, 0.75, 60.0):  # the last: tokens a second
        assert struct.pack("<f", value) in data
    assert SCALARS["memory_bytes"].encode() not in data  # was not in the lines


def test_tensorboard_reads_recipe_and_samples_as_texts_and_hparams(tmp_path: Path) -> None:
    files = TensorBoardFiles(tmp_path / "run", lambda text: None)
    files.recipe("name: a\n# 100 %", {"training": {"steps": 3}, "name": "a", "packing": True, "layers": [1, 2]})
    for step in (2, 4):
        files.sample(LoggedSample(step=step, prompt="1+1?", text=f"<b>\nis {step}", finish_reason="stop"))
    files.close()
    # By the library that TensorBoard itself reads with.
    loader = pytest.importorskip("tensorboard.backend.event_processing.plugin_event_accumulator")
    found = loader.EventAccumulator(str(tmp_path / "tensorboard" / "run"))
    found.Reload()
    assert found.summary_metadata["recipe"].plugin_data.plugin_name == "text"
    assert found.Tensors("recipe")[0].tensor_proto.string_val[0] == b"    name: a\n    # 100 %"
    assert [(each.step, each.tensor_proto.string_val[0]) for each in found.Tensors("samples/1+1?")] == [
        (step, f"    <b>\n    is {step}\n    \n    (ended by stop)".encode()) for step in (2, 4)]
    from tensorboard.plugins.hparams.metadata import parse_session_start_info_plugin_data

    told = parse_session_start_info_plugin_data(found.PluginTagToContent("hparams")["_hparams_/session_start_info"])
    assert told.hparams["training.steps"].number_value == 3
    assert told.hparams["packing"].bool_value is True
    assert [told.hparams[key].string_value for key in ("name", "layers")] == ["a", "[1, 2]"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_ends_the_files_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.training.tensorboard.FLUSH_SECONDS", -1.0)
    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda path, mode: opened(Path("/dev/full"), "wb"))
    said: list[str] = []
    files = TensorBoardFiles(tmp_path / "run", said.append)
    for step in range(3):
        files.line(LINE | {"step": step + 1})
    files.close()
    assert "tensorboard files end here: No space left on device" in said


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
