"""An offline run of Weights & Biases holds the record's numbers. Only where wandb is installed: it is large."""

import json
import struct
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.evaluation.making import items, score
from tests.record import synthetic
from workings.errors import RequestError
from workings.reports.live.watching import Tracker
from workings.reports.wandb import write_offline

BLOCK, HEADER = 32 * 1024, 7
NO_NETWORK = """
import socket, sys
def refuse(*unused): raise OSError("a test without a network")
socket.getaddrinfo = refuse
from workings.cli.main import main
sys.exit(main())
"""


def chunks(data: bytes) -> Iterator[bytes]:
    """Records of wandb's transaction log: blocks of pieces, each with checksum, length and kind (LevelDB's form)."""
    place, record = HEADER, b""
    while place + HEADER <= len(data):
        if BLOCK - place % BLOCK < HEADER:
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[place:place + HEADER])
        record += data[place + HEADER:place + HEADER + length]
        place += HEADER + length
        if kind in (1, 4):  # whole, or the last piece
            yield record
            record = b""


def read(place: Path) -> dict[str, list[Any]]:
    """What an offline run holds, by kind of record."""
    from wandb.proto import wandb_internal_pb2

    found = defaultdict(list)
    (log,) = place.glob("run-*.wandb")
    for data in chunks(log.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        kind = record.WhichOneof("record_type")
        found[kind].append(getattr(record, kind))
    return found


def test_an_offline_run_holds_what_the_record_says(tmp_path: Path,
                                                   run_python: Callable[..., "CompletedProcess[str]"]) -> None:
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    run = synthetic.sealed_run(tmp_path / "run")
    score(run / "eval", "items", items(20), [number < 15 for number in range(20)])
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    done = run_python("-c", NO_NETWORK, "runs", "track", run, "--to", "wandb", "--json", cwd=tmp_path)
    place = Path(json.loads(done.stdout.splitlines()[-1])["wandb"])
    assert place.parent == tmp_path / "wandb"
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    found = read(place)
    (head, *_) = found["run"]
    assert (head.project, head.display_name, head.host) == ("workings", "run", "not told")
    config = {entry.key or ".".join(entry.nested_key): json.loads(entry.value_json) for entry in head.config.update}
    assert config["seed"] == str(synthetic.CONFIG["seed"])
    losses = [json.loads(entry.value_json) for line in found["history"] for entry in line.item
              if "train/loss" in (entry.key, *entry.nested_key)]
    lines = [json.loads(line) for line in (run / "train" / "metrics.jsonl").read_text().splitlines()]
    assert losses == [line["loss"] for line in lines]
    summary = {entry.key or ".".join(entry.nested_key): json.loads(entry.value_json)
               for record in found["summary"] for entry in record.update}
    assert summary["eval/items/overall/accuracy"] == 0.75
    assert summary["workings.root_digest"] == json.loads((run / "SEAL.json").read_text())["root"]
    assert found["artifact"]
    assert not found["environment"], "nothing about this machine that the record does not say"


@pytest.mark.children
def test_a_run_that_trains_is_told_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb", reason="the extra `wandb` is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    said: list[str] = []
    tracker = Tracker("wandb", {"project": "workings", "name": "tiny", "config": {"training.steps": "2"}}, said.append)
    for step, loss in ((1, 1.5), (2, 0.5)):
        tracker.step({"step": step, "loss": loss, "tokens": 8, "seconds": 0.5})
    tracker.close("failed")
    assert said == []
    (place,) = (tmp_path / "wandb").glob("offline-run-*")
    found = read(place)
    assert (found["run"][0].project, found["run"][0].display_name) == ("workings", "tiny")
    assert [json.loads(entry.value_json) for line in found["history"] for entry in line.item
            if "train/loss" in (entry.key, *entry.nested_key)] == [1.5, 0.5]
    assert [ending.exit_code for ending in found["exit"]] == [1], "a failed run is not shown as finished"


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(RequestError, match=r"workings\[wandb\]"):
        write_offline(synthetic.sealed_run(tmp_path / "run"), tmp_path, "x")


@pytest.mark.parametrize(("words", "text"), [
    ((), "neither --mlflow nor --to"), (("--to", "comet"), "--to comet"),
    (("--to", "wandb", "--mlflow", "http://127.0.0.1:5000"), "--mlflow and --to")])
def test_one_tracker_at_a_time(tmp_path: Path, workings: Callable[..., "CompletedProcess[str]"],
                               words: tuple[str, ...], text: str) -> None:
    done = workings("runs", "track", tmp_path, *words, check=False)
    assert (done.returncode, text in done.stderr) == (2, True), done.stderr
