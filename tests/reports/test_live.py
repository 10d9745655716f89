"""Trackers while a run trains: told what the log holds, and unable to stop or slow a run."""

import contextlib
import json
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from workings.errors import RequestError
from workings.reports import tracker_child as child
from workings.reports import trackers
from workings.reports.trackers import RunListeners, Tracker

LINE = {"loss": 1.5, "learning_rate": 0.1, "memory_bytes": {"absent": "not told"}, "tokens": 8, "seconds": 0.5}
FIRST = {"project": "workings", "name": "tiny", "config": {"training.steps": "2"}}
GOOD = """
import json
told = []
def init(**words): told.append(words)
def log(metrics, step): told.append([metrics, step])
def finish(**words): open(__file__ + ".json", "w").write(json.dumps([*told, words]))
"""


@pytest.mark.children
@pytest.mark.parametrize(("name", "status", "ending"), [
    ("wandb", "failed", {"exit_code": 1}), ("wandb", "interrupted", {"exit_code": 130}), ("trackio", "complete", {})])
def test_a_library_is_told_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
                                                   status: str, ending: dict[str, int]) -> None:
    (tmp_path / f"{name}.py").write_text(GOOD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said: list[str] = []
    tracker = Tracker(name, FIRST, said.append)
    tracker.step({**LINE, "step": 1})
    tracker.close(status)
    assert said == []
    first, (metrics, step), end = json.loads((tmp_path / f"{name}.py.json").read_bytes())
    assert end == ending, "a failed run is not shown as finished"
    assert first == FIRST
    assert (metrics["train/loss"], step, "train/memory_bytes" in metrics) == (1.5, 1, False)


@pytest.mark.children
@pytest.mark.parametrize(("name", "file"), [("wandb", "wandb/offline-run-*/run-*.wandb"), ("trackio", "workings.db*")])
def test_the_library_itself_takes_what_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
                                                  file: str) -> None:
    if find_spec(name) is None:  # not imported here: it takes seconds
        pytest.skip(f"{name} is not installed")
    for variable, value in {"WANDB_MODE": "offline", "WANDB_DIR": tmp_path, "TRACKIO_DIR": tmp_path}.items():
        monkeypatch.setenv(variable, str(value))
    said: list[str] = []
    tracker = Tracker(name, FIRST, said.append)
    tracker.step({**LINE, "step": 1})
    tracker.close("failed")
    assert said == []
    assert any(b"train/loss" in written.read_bytes() for written in tmp_path.glob(file))


@pytest.mark.children
@pytest.mark.parametrize(("text", "seconds", "words"), [
    ("raise RuntimeError('no key')", 30.0, "it stopped: RuntimeError: no key"),
    ("import time\ndef init(**words): time.sleep(3600)", 0.5, "did not take everything within 0.5 s"),
])
def test_a_library_that_fails_or_hangs_is_said_once_and_slows_nothing(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, seconds: float, words: str) -> None:
    (tmp_path / "wandb.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    said: list[str] = []
    tracker = Tracker("wandb", FIRST, said.append, end_seconds=seconds, waiting_lines=3)
    for step in range(1, 20_001):  # more than pipe and queue hold
        tracker.step({**LINE, "step": step})
    tracker.close("complete")
    assert len(said) == 1
    assert words in said[0]
    if "hang" in words or "within" in words:
        assert "lines were dropped" in said[0]


@pytest.mark.children
def test_tensorboard_reads_what_it_was_told(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    said: list[str] = []
    tracker = Tracker("tensorboard", FIRST | {"folder": str(tmp_path / "tensorboard" / "tiny")}, said.append)
    for step in (1, 2):
        tracker.step({**LINE, "step": step, "loss": step / 2})
    tracker.close("complete")
    assert said == []
    found = loader.EventAccumulator(str(tmp_path / "tensorboard" / "tiny"))
    found.Reload()
    values = [each.tensor_proto.float_val[0] for each in found.Tensors("train/loss")]
    assert [(each.step, value) for each, value in zip(found.Tensors("train/loss"), values, strict=True)] == [
        (1, 0.5), (2, 1.0)]


@pytest.mark.slow
@pytest.mark.parametrize(("ends", "status"), [([json.dumps({"end": "complete"})], "FINISHED"), ([], "KILLED")])
def test_mlflow_is_told_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: list[str],
                                     status: str) -> None:
    pytest.importorskip("mlflow")
    # Its client writes to a folder what a server would write to its own.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    run = child.MlflowRun((tmp_path / "mlruns").as_uri(), FIRST)
    child.follow(run, iter([json.dumps({"step": step, "metrics": {"train/loss": step / 2}}) for step in (1, 2)] + ends))
    found = run.client.get_run(run.id)
    assert (found.info.status, found.info.run_name, found.data.params) == (status, "tiny", {"training.steps": "2"})
    assert [(each.step, each.value) for each in run.client.get_metric_history(run.id, "train/loss")] == [
        (1, 0.5), (2, 1.0)]


@pytest.mark.parametrize(("track", "words"), [
    ("tensorbord", "one of tensorboard, wandb, trackio, mlflow"), ("mlflow", "MLFLOW_TRACKING_URI")])
def test_what_cannot_be_told_is_refused_before_a_run(track: str, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        RunListeners([track])


@pytest.mark.parametrize(("error", "status"), [
    (None, "complete"), (KeyboardInterrupt(), "interrupted"), (ValueError("a secret"), "failed")])
def test_a_tracker_is_told_each_kind_of_end_once(monkeypatch: pytest.MonkeyPatch, error: BaseException | None,
                                                 status: str) -> None:
    ends: list[str] = []
    told = SimpleNamespace(step=lambda line: None, close=ends.append)
    monkeypatch.setattr(trackers, "Tracker", lambda *given: told)
    run = RunListeners(["tensorboard"])
    run.about(Path("runs/tiny"), {})
    with contextlib.suppress(KeyboardInterrupt, ValueError), run:
        run.step({**LINE, "step": 1})
        if error is not None:
            raise error
        run.ended("complete")
    assert ends == [status]
