"""A file of traces is hashed at once, counted without being read, and never another file than the one hashed."""

import hashlib
import json

import pytest

from workings.data import lazy_sequence
from workings.data.lazy_sequence import TraceFile
from workings.data.traces import Trace, read_traces, write_traces
from workings.errors import RequestError
from workings.record import digest

TRACES = [Trace(id=f"ü{number}", prompt="What is 1+1?", steps=("1+1=2",), answer="2") for number in range(5)]


@pytest.fixture
def path(tmp_path):
    write_traces(tmp_path / "traces.jsonl", TRACES)
    return tmp_path / "traces.jsonl"


def never(path):
    raise AssertionError("read")


def test_digest_and_number_are_known_without_reading(path, monkeypatch) -> None:
    monkeypatch.setattr(lazy_sequence, "read_traces", never)
    monkeypatch.setattr(digest, "CHUNK_BYTES", 7)
    found = TraceFile(path)
    assert (found.sha256, len(found)) == (hashlib.sha256(path.read_bytes()).hexdigest(), 5)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    assert len(TraceFile(path)) == 5
    with pytest.raises(AssertionError, match="read"):
        list(found)


def test_it_holds_the_traces_of_the_file(path) -> None:
    found = TraceFile(path)
    assert (list(found), list(found[1:3]), found[-1]) == (TRACES, TRACES[1:3], TRACES[-1])
    assert list(found) == read_traces(path)


def test_a_line_that_is_no_trace_is_named_when_traces_are_asked_for(path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")
    found = TraceFile(path)
    with pytest.raises(RequestError, match=r"traces.jsonl:6: not JSON"):
        list(found)


def test_a_file_that_changes_in_between_is_refused(path) -> None:
    found = TraceFile(path)
    path.write_bytes(path.read_bytes() + json.dumps(
        {"id": "new", "prompt": "What is 1+2?", "steps": [], "answer": "3"}).encode())
    with pytest.raises(RequestError, match="changed while it was being read"):
        list(found)
    path.unlink()
    with pytest.raises(RequestError, match="a file of traces"):
        list(found)


def test_absent_and_empty_files_are_refused_at_once(tmp_path) -> None:
    with pytest.raises(RequestError, match="a file of traces"):
        TraceFile(tmp_path / "absent.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(RequestError, match="is empty"):
        TraceFile(tmp_path / "empty.jsonl")
