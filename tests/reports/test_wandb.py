"""A run that trains is told to Weights & Biases in its offline mode. Only where wandb is installed: it is large."""

import json
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workings.reports.trackers import Tracker

BLOCK, HEADER = 32 * 1024, 7


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
