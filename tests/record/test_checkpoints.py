"""Checkpoints: complete or not there; the newest good one is found and the others are named."""

import json
import os
from pathlib import Path

import pytest

from tests.record.synthetic import names
from workings.errors import RecordError
from workings.record.checkpoints import CheckpointStore, parse_commit


def store_with(directory: Path, *steps: int, keep_last: int = 3) -> CheckpointStore:
    store = CheckpointStore(directory, keep_last)
    for step in steps:
        save(store, step)
    return store


def save(store: CheckpointStore, step: int) -> Path:
    def write(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(bytes([step % 256]) * 1000)
        (folder / "export").mkdir()
        (folder / "export" / "config.json").write_text("{}")
    return store.save(step, write, {"position": {"epoch": 0, "batch": step}})


def test_saved_and_loaded(tmp_path) -> None:
    store = store_with(tmp_path / "checkpoints", 100)
    checkpoint, skipped = store.latest_valid()
    assert (checkpoint.step, checkpoint.path.name, skipped) == (100, "step_000100", [])
    assert checkpoint.facts == {"position": {"epoch": 0, "batch": 100}}
    commit = json.loads((checkpoint.path / "COMMIT.json").read_text())
    assert commit["files"]["model.safetensors"]["bytes"] == 1000
    assert set(commit["files"]) == {"model.safetensors", "export/config.json", "state.json"}


def test_only_the_newest_stay_and_later_ones_of_a_left_course_go(tmp_path) -> None:
    store = store_with(tmp_path, 10, 20, 30, 40, keep_last=2)
    assert [path.name for path in store.folders()] == ["step_000030", "step_000040"]
    save(store, 35)  # resumed from 30: 40 belongs to a course that was left
    assert [path.name for path in store.folders()] == ["step_000030", "step_000035"]
    save(store, 35)
    assert names(tmp_path) == ["step_000030", "step_000035"]


@pytest.mark.parametrize(("damage", "message"), [
    (lambda path: os.truncate(path / "model.safetensors", 999), "step_000030/model.safetensors: 999 bytes, 1000 were"),
    (lambda path: (path / "model.safetensors").write_bytes(b"x" * 1000), "bytes differ from those committed"),
    (lambda path: (path / "COMMIT.json").unlink(), "no COMMIT.json, so it was never completed"),
    (lambda path: os.truncate(path / "COMMIT.json", 40), "COMMIT.json: not JSON"),
    (lambda path: (path / "state.json").unlink(), "files differ from COMMIT.json"),
    (lambda path: (path / "more.txt").write_text("x"), "files differ from COMMIT.json"),
    (lambda path: (path / "COMMIT.json").write_text('{"schema":"checkpoint/1","step":7}'), "not a checkpoint/1"),
], ids=["truncated", "flipped", "uncommitted", "torn commit", "missing", "extra", "other step"])
def test_a_damaged_one_is_skipped_and_named(tmp_path, damage, message: str) -> None:
    store = store_with(tmp_path, 10, 20, 30)
    damage(tmp_path / "step_000030")
    checkpoint, skipped = store.latest_valid()
    assert (checkpoint.step, len(skipped)) == (20, 1)
    assert message in skipped[0]
    assert skipped[0].startswith("step_000030")


def test_a_link_instead_of_a_file_is_damage(tmp_path) -> None:
    store = store_with(tmp_path / "store", 10)
    model = tmp_path / "store" / "step_000010" / "model.safetensors"
    model.rename(tmp_path / "elsewhere")
    model.symlink_to(tmp_path / "elsewhere")
    checkpoint, skipped = store.latest_valid()
    assert (checkpoint, skipped) == (None, ["step_000010/model.safetensors: not a regular file"])


def test_a_link_is_no_checkpoint_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep_last=1)
    saved = save(store, 1)
    elsewhere = saved.rename(tmp_path / "elsewhere")
    saved.symlink_to(elsewhere)
    with pytest.raises(RecordError, match="step_000001: a link"):
        store.load(saved)
    assert store.latest_valid()[0] is None
    save(store, 2)
    assert not saved.is_symlink()
    assert (elsewhere / "model.safetensors").is_file()


def test_a_failing_engine_leaves_earlier_ones_and_no_trace(tmp_path) -> None:
    store = store_with(tmp_path, 10)

    def fail(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(Exception, match=r"could not save .*step_000020: the disk is full"):
        store.save(20, fail, {})
    assert names(tmp_path) == ["step_000010"]


def test_leftovers_of_a_killed_save_are_not_checkpoints(tmp_path) -> None:
    store = store_with(tmp_path, 10)
    (tmp_path / ".step_000020.tmp").mkdir()
    (tmp_path / ".step_000020.tmp" / "model.safetensors").write_bytes(b"half")
    checkpoint, skipped = store.latest_valid()
    assert (checkpoint.step, skipped) == (10, [])
    assert store.clean() == [".step_000020.tmp"]


def test_none_at_all(tmp_path) -> None:
    assert CheckpointStore(tmp_path / "nowhere").latest_valid() == (None, [])
    with pytest.raises(ValueError, match="at least 1"):
        CheckpointStore(tmp_path, keep_last=0)


def test_lines_are_on_the_disk_before_the_commit(tmp_path) -> None:
    seen: list[bool] = []
    store = CheckpointStore(tmp_path, 1, before_commit=lambda: seen.append(
        (tmp_path / ".step_000001.tmp" / "state.json").exists()
        and not (tmp_path / ".step_000001.tmp" / "COMMIT.json").exists()))
    save(store, 1)
    assert seen == [True]


@pytest.mark.parametrize("data", [
    b"[]", b'{"schema":"checkpoint/1","step":1,"files":[]}', b'{"schema":"checkpoint/1","step":1,"files":{"a":{}}}',
    b'{"schema":"checkpoint/1","step":1,"files":{"state.json":{"bytes":"1","sha256":"x"}}}',
    b'{"schema":"checkpoint/1","step":1,"files":{"state.json":{"bytes":1,"sha256":"x"},"../x":{"bytes":1,"sha256":"x"}}}',
], ids=lambda data: data[-30:].decode())
def test_a_commit_in_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError):
        parse_commit(data, 1)
