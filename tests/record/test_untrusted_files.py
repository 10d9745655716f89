"""Files of someone else's run: plain ones of a bounded size, with any names."""

import json
import os
import tracemalloc
from pathlib import Path

import pytest

from workings.errors import RecordError
from workings.record import jsonl, storage
from workings.record.canonical import loads, read_json
from workings.record.manifest import RunFolder
from workings.record.storage import open_plain, parsed_bytes, read_plain


def pipe(path: Path) -> None:
    os.mkfifo(path)


def holes(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(4 << 30)


def private(path: Path) -> None:
    other = path.with_name("private")
    other.write_text("{}")
    path.symlink_to(other)


@pytest.mark.parametrize(("make", "said"), [
    (lambda path: path.symlink_to("/dev/zero"), "a.json: a link, and no plain file"),
    (private, "a.json: a link, and no plain file"),
    (pipe, "a.json: a pipe, and no plain file"),
    (Path.mkdir, "a.json: a folder, and no plain file"),
    (holes, "a.json: 4,294,967,296 bytes, but hardly any are on the disk"),
    (lambda path: None, "a.json is missing"),
], ids=["device", "link", "pipe", "folder", "holes", "missing"])
def test_what_is_not_read(tmp_path: Path, make, said: str) -> None:
    make(tmp_path / "a.json")
    for read in (read_plain, read_json):
        with pytest.raises(RecordError, match="^" + said.replace(".", r"\.") + "$"):
            read(tmp_path / "a.json")
    if said.endswith("missing"):
        assert jsonl.read(tmp_path / "a.json", bounded=True) == ([], None)
    else:
        with pytest.raises(RecordError, match=r"plain file|bytes"):
            jsonl.read(tmp_path / "a.json", bounded=True)


def test_lines_of_ones_own_run_are_read_whatever_they_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "a"}\n' * 10_000)
    monkeypatch.setattr(storage, "MEMORY_MIB", 1)
    with pytest.raises(RecordError, match=r"WORKINGS_READ_MIB=\d allows more, for a record that you trust"):
        RunFolder(tmp_path).lines("rows.jsonl")
    assert len(RunFolder(tmp_path, bounded=False).lines("rows.jsonl")) == 10_000


def test_a_device_itself_is_not_opened() -> None:
    with pytest.raises(RecordError, match="null: a device, and no plain file"):
        open_plain(Path("/dev/null"))


def test_a_plain_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert read_plain(tmp_path / "a", 3) == b"abc"
    with pytest.raises(RecordError, match="a: 3 bytes, and at most 2 are read"):
        read_plain(tmp_path / "a", 2)
    (tmp_path / "b").write_bytes(b"")
    os.truncate(tmp_path / "b", 100 << 20)
    with pytest.raises(RecordError, match="b: 104,857,600 bytes, and at most 67,108,864 are read"):
        read_plain(tmp_path / "b")
    with open_plain(tmp_path / "a") as file:
        assert file.read() == b"abc"


TEXTS = {"lists of one": b"[" + b"[1]," * 50_000 + b"1]", "objects of one": b"[" + b'{"a":300},' * 20_000 + b"1]",
         "keys": b"{" + b",".join(b'"k%d":1' % number for number in range(60_000)) + b"}",
         "numbers": json.dumps([1000 + number for number in range(60_000)]).encode(),
         "one far character": json.dumps(["x" * 500_000, "\U0001f600"], ensure_ascii=False).encode()}


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_what_values_take_is_known_before_they_are_parsed(name: str) -> None:
    """At most two thirds above the estimate, and at least a third of it."""
    text = TEXTS[name]
    tracemalloc.start()
    value = loads(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert value
    assert peak / 1.67 < parsed_bytes(text) < 3 * peak
