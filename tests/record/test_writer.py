"""A run directory from its beginning to its seal: nothing overwritten, one writer, resumes that lose nothing."""

import errno
import fcntl
import json
import subprocess
from pathlib import Path

import pytest

from tests.record import synthetic
from tests.record.synthetic import names
from workings.errors import RecordError, RequestError, StorageError
from workings.record import attempts, jsonl, recovery
from workings.record.layout import EVENTS, MANIFEST, METRICS, partial_path, rollout_file, rollout_step
from workings.record.lock import DirectoryLock
from workings.record.manifest import RunFolder, read_manifest
from workings.record.reader import RunRecord
from workings.record.writer import RunWriter


def test_a_run_is_written_sealed_and_read(tmp_path) -> None:
    path = synthetic.sealed_run(tmp_path / "tiny")
    assert names(tmp_path) == ["attempts.jsonl", "tiny"]
    run = RunRecord.open(path)
    assert (run.status, run.manifest.completed_steps, run.manifest.final_loss) == ("complete", 6, 0.5)
    assert run.metrics() == [dict(line) for line in synthetic.steps()]
    assert [row["kind"] for row in run.events()] == ["started", "checkpoint", "checkpoint", "checkpoint"]
    assert [folder.name for folder in run.checkpoints.folders()] == ["step_000004", "step_000006"]
    assert run.evaluations() == {}
    synthetic.add_evaluation(path)
    assert RunRecord.open(path).evaluations()["test"]["scorecard"]["overall"]["correct"] == 8
    log = (path / "train" / "training_log.txt").read_text().splitlines()
    assert log[:2] == ["training starts", "step 1: loss 3.0000"]
    done = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert attempts.read(tmp_path)[0]["run"] == "tiny"


def test_a_folder_of_runs_names_one_of_them(tmp_path) -> None:
    run = synthetic.sealed_run(tmp_path / "runs" / "tiny")
    for folder in (tmp_path, tmp_path / "runs"):
        with pytest.raises(RequestError) as refused:
            RunRecord.open(folder)
        assert refused.value.try_next == f"a run in it, such as {run}"
    with pytest.raises(RequestError) as refused:
        RunRecord.open(run / "train")
    assert "workings runs" in refused.value.try_next


def test_nothing_is_overwritten(tmp_path) -> None:
    path = synthetic.sealed_run(tmp_path / "tiny")
    before = (path / "run_manifest.json").read_bytes()
    with pytest.raises(RequestError, match=r"tiny already exists") as caught:
        RunWriter.create(path)
    assert caught.value.try_next == "another --out"
    writer = RunWriter.create(tmp_path / "other")
    with pytest.raises(RequestError, match="has an unfinished run") as caught:
        RunWriter.create(tmp_path / "other")
    assert "--resume" in caught.value.try_next
    with pytest.raises(RequestError, match="another process is writing"):
        RunWriter.reopen(tmp_path / "other")
    with pytest.raises(RequestError, match="complete"):
        RunWriter.resume(path)
    with pytest.raises(RequestError, match="no unfinished run"):
        RunWriter.reopen(path)
    with pytest.raises(RequestError, match="leave --resume out"):
        RunWriter.resume(tmp_path / "never")
    writer.close()
    assert (path / "run_manifest.json").read_bytes() == before


def test_a_file_system_without_locks(tmp_path, monkeypatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StorageError, match=r"could not lock .*No locks available; choose a folder on a local disk"):
        RunWriter.create(tmp_path / "run")


def test_a_folder_that_another_process_finished_in_between(tmp_path, monkeypatch) -> None:
    (tmp_path / "run.partial").mkdir()

    def rename_first(descriptor: int, operation: int) -> None:
        (tmp_path / "run.partial").rename(tmp_path / "run")
    monkeypatch.setattr(fcntl, "flock", rename_first)
    with pytest.raises(RequestError, match="another process has just finished"):
        DirectoryLock(tmp_path / "run.partial")


def test_steps_without_a_gap_and_with_all_their_keys(tmp_path) -> None:
    writer = RunWriter.create(tmp_path / "run")
    line = dict(synthetic.steps()[0])
    with pytest.raises(RecordError, match="metrics of step 2 after those of step 0"):
        writer.metric(line | {"step": 2})
    for wrong in ({"loss": float("nan")}, {"supervised_tokens": 0}, {"batch_digest": "x"}, {"step": "1"},
                  {"share_of_weights_changed": 1.5}):
        with pytest.raises(RecordError, match=next(iter(wrong))):
            writer.metric(line | wrong)
    with pytest.raises(RecordError, match="null"):
        writer.metric(line | {"more": None})
    writer.metric(line | {"evaluation_loss": 2.5})
    writer.close()
    assert jsonl.read(partial_path(tmp_path / "run") / METRICS)[0] == [line | {"evaluation_loss": 2.5}]


def test_what_is_written_is_cleaned(tmp_path) -> None:
    writer = RunWriter.create(tmp_path / "run")
    token, home = "hf_" + "a" * 34, str(Path.home())
    writer.log(f"loading with {token} from {home}/models")
    writer.event("note", text=f"{home}/x")
    writer.write_json("env/env_info.json", {"path": [f"{home}/x"], "n": 1})
    writer.write_text("README.md", f"key {token}")
    writer.close()
    partial = partial_path(tmp_path / "run")
    assert (partial / "train/training_log.txt").read_text() == "loading with [redacted] from ~/models\n"
    assert jsonl.read(partial / EVENTS)[0][0]["text"] == "~/x"
    assert json.loads((partial / "env/env_info.json").read_text()) == {"path": ["~/x"], "n": 1}
    assert (partial / "README.md").read_text() == "key [redacted]"


def test_torn_lines_are_cut_and_become_events(tmp_path) -> None:
    writer = RunWriter.create(tmp_path / "run")
    synthetic.begin(writer)
    for step in (1, 2, 3):
        synthetic.take_step(writer, step)
    writer.close()
    partial = partial_path(tmp_path / "run")
    with (partial / METRICS).open("ab") as stream:
        stream.write(b'{"step":4,"lo')
    (partial / "train" / ".half.json.tmp").write_text("x")
    writer = RunWriter.reopen(tmp_path / "run")
    kinds = [(row["kind"], row.get("file"), row.get("names")) for row in jsonl.read(partial / EVENTS)[0]][-2:]
    assert kinds == [("torn_line", METRICS, None), ("leftovers_removed", None, ["train/.half.json.tmp"])]
    checkpoint, skipped = writer.checkpoints.latest_valid()
    assert (checkpoint.step, skipped) == (2, [])
    assert writer.truncate_metrics(2) == {"kept_steps": 2, "dropped_steps": 1}
    for step in range(3, 7):
        synthetic.take_step(writer, step)
    synthetic.finish(writer)
    assert RunRecord.open(tmp_path / "run").metrics() == [dict(line) for line in synthetic.steps()]


def stopped(place: Path, metrics: str) -> Path:
    """A run that stopped with these lines of metrics."""
    RunWriter.create(place).close()
    (partial_path(place) / METRICS).write_text(metrics)
    return place


def test_a_damaged_or_missing_line_is_named_and_the_lock_is_free(tmp_path: Path) -> None:
    out = stopped(tmp_path / "run", '{"step": 1}\n{"step":\n{"step": 3}\n')
    for _ in range(2):  # the first attempt holds nothing
        with pytest.raises(RecordError) as caught:
            RunWriter.resume(out)
        assert "line 2" in str(caught.value)
        assert str(partial_path(out) / METRICS) in str(caught.value)
        assert "another --out" in str(caught.value)
    out = stopped(tmp_path / "shorter", '{"step": 1}\n')
    with pytest.raises(RecordError, match=r"lines of steps 1 to 4 are not all there\n.* another --out"):
        recovery.keep_metrics(partial_path(out) / METRICS, 4)


def test_an_interrupted_run_is_continued_by_another_that_names_it(tmp_path) -> None:
    path = synthetic.sealed_run(tmp_path / "tiny", "interrupted", 3)
    root = RunRecord.open(path).root
    writer = RunWriter.resume(path)
    assert writer.resumed_from == {"name": "tiny.interrupted-1", "root": root}
    checkpoint, _ = writer.checkpoints.latest_valid()
    assert checkpoint.step == 3
    writer.truncate_metrics(3)
    synthetic.take_step(writer, 4)
    writer.close()
    writer = RunWriter.resume(path)  # killed and resumed once more: it still knows where it comes from
    assert writer.resumed_from == {"name": "tiny.interrupted-1", "root": root}
    for step in (5, 6):
        synthetic.take_step(writer, step)
    synthetic.finish(writer)
    assert RunRecord.open(tmp_path / "tiny.interrupted-1").root == root
    assert RunRecord.open(path).metrics() == [dict(line) for line in synthetic.steps()]


def test_rollouts_of_more_digits_than_are_padded_to_go_by_their_number(tmp_path) -> None:
    (tmp_path / "train/rollouts").mkdir(parents=True)
    for step in (999_999, 1_000_000, 1_000_001):
        (tmp_path / rollout_file(step)).write_text("{}")
    (tmp_path / "train/rollouts/step_1.json").write_text("{}")
    recovery.remove_rollouts(tmp_path, 999_999)
    assert sorted(path.name for path in (tmp_path / "train/rollouts").iterdir()) == ["step_1.json", "step_999999.json"]
    recovery.remove_rollouts(tmp_path, 0)
    assert [path.name for path in (tmp_path / "train/rollouts").iterdir()] == ["step_1.json"]
    assert [rollout_step(name) for name in ("train/rollouts/step_000007.json", "step_1000000.json", "step_7.json",
                                            "step_0000007.json")] == [7, 1_000_000, None, None]


def test_continuing_that_was_killed_after_the_renaming(tmp_path) -> None:
    path = synthetic.sealed_run(tmp_path / "tiny", "interrupted", 3)
    path.rename(tmp_path / "tiny.interrupted-1")
    (tmp_path / ".tiny.partial.tmp").mkdir()
    writer = RunWriter.resume(path)
    assert writer.resumed_from is not None
    assert writer.resumed_from["name"] == "tiny.interrupted-1"
    writer.close()
    assert not (tmp_path / ".tiny.partial.tmp").exists()


def test_the_manifest_is_strict_and_goes_round(tmp_path) -> None:
    manifest = synthetic.manifest()
    path = tmp_path / MANIFEST
    path.write_text(json.dumps(manifest.to_json()))
    assert read_manifest(RunFolder(tmp_path)).to_json() == manifest.to_json()
    for change in ({"status": "fine"}, {"commit_sha": "abc"}, {"parameters": 0}, {"model_id": None},
                   {"finished_at": "yesterday"}, {"more": 1}):
        path.write_text(json.dumps(manifest.to_json() | change))
        with pytest.raises(RecordError, match=next(iter(change))):
            read_manifest(RunFolder(tmp_path))
