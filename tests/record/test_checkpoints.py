"""Checkpoints: complete or not there; the newest good one is found and the others are named; which one is the best."""

import json
import os
from pathlib import Path

import pytest

from tests.record.synthetic import names
from workings.errors import RecordError
from workings.evaluation.comparison.kept_checkpoint import kept_checkpoint
from workings.record.checkpoints import CheckpointStore, best_checkpoint, parse_commit


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
    (lambda path: ((path / "model.safetensors").unlink(), (path / "model.safetensors").symlink_to("/dev/null")),
     "step_000030/model.safetensors: not a regular file"),
], ids=["truncated", "flipped", "uncommitted", "torn commit", "missing", "extra", "other step", "link"])
def test_a_damaged_one_is_skipped_and_named(tmp_path, damage, message: str) -> None:
    store = store_with(tmp_path, 10, 20, 30)
    damage(tmp_path / "step_000030")
    checkpoint, skipped = store.latest_valid()
    assert (checkpoint.step, len(skipped)) == (20, 1)
    assert message in skipped[0]
    assert skipped[0].startswith("step_000030")


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


# --- the best one ----------------------------------------------------------------------------------------------------

BEST = {"keep": "best", "measure": "loss", "every_steps": 2, "keep_last": 1, "patience": 2}


def lines(field: str, *values: float) -> list[dict[str, object]]:
    """Lines of steps 1, 2, …; a line without a value for each step of an odd number."""
    return [{"step": step} | ({field: values[step // 2 - 1]} if step % 2 == 0 else {})
            for step in range(1, 2 * len(values) + 1)]


@pytest.mark.parametrize(("values", "step", "since", "ends"), [
    ((3.0,), 2, 0, False), ((3.0, 2.0), 4, 0, False), ((3.0, 4.0), 2, 1, False), ((3.0, 3.0, 3.0), 2, 2, True),
    ((3.0, 4.0, 2.0, 5.0, 6.0), 6, 2, True)])
def test_the_earliest_of_equal_ones_is_the_best(values, step, since, ends):
    best = best_checkpoint(BEST, lines("evaluation_loss", *values), 100)
    assert (best.step, best.since, best.ends_the_run) == (step, since, ends)
    # The other way round for a share of right answers.
    right = best_checkpoint(BEST | {"measure": "accuracy"}, lines("held_out_score", *(-x for x in values)), 100)
    assert (right.step, right.since, right.ends_the_run) == (step, since, ends)
    # Only saved steps count, the last one among them, and patience may be endless.
    log = lines("evaluation_loss", 3.0, 1.0, 2.0, 5.0)
    saved = best_checkpoint(BEST | {"every_steps": 6, "patience": 0}, log, 8)
    assert (saved.step, saved.measured, saved.ends_the_run) == (6, 2, False)
    assert best_checkpoint(BEST | {"keep": "last"}, log, 8) is best_checkpoint(BEST, [{"step": 1}], 8) is None


def test_how_far_best_is_noise():
    def kept(first, last):
        log = [{"step": 2 * at, "held_out_score": marks.count("1") / len(marks), "held_out_right": marks}
               for at, marks in ((1, first), (2, last))]
        return kept_checkpoint(best_checkpoint(BEST | {"measure": "accuracy"}, log, 100),
                               [str(number) for number in range(len(first))])

    little = kept("1" * 21 + "0" * 19, "1" * 20 + "0" * 20)
    assert "0 is inside, so that no difference is shown" in little["sentence"]
    assert little["interval"]["low"] < 0 < little["interval"]["high"]
    much = kept("1" * 40, "0" * 40)
    assert "0 is inside" not in much["sentence"]
    assert much["interval"]["low"] > 0
    last = kept("0" * 40, "1" * 40)
    assert last["sentence"].endswith("is the best of 2, and it is the last one")
    assert "absent" in last["interval"]
    loss = kept_checkpoint(best_checkpoint(BEST, lines("evaluation_loss", 1.0, 2.0), 100), [])
    assert "without the rows needed for an interval" in loss["sentence"]
