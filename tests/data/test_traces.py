"""Reading and writing traces."""

import json

import pytest

from workings.data.traces import Trace, iterate_traces, read_traces, write_traces
from workings.errors import RequestError

GOOD = {"id": "a", "prompt": "What is 1+1?", "steps": ["1+1=2"], "answer": "2"}


def test_what_is_written_is_read_again(tmp_path) -> None:
    traces = [
        Trace(id="a", prompt="What is 1+1?", steps=("1+1=2",), answer="2", section="core", licence="MIT",
              metadata={"level": 3, "tags": ["x"]}),
        Trace(id="ü", prompt="Wie groß?", steps=(), answer="5 m",
              history=(("system", "Be short."), ("user", "Hi"), ("assistant", "Hello"))),
    ]
    path = tmp_path / "traces.jsonl"
    write_traces(path, traces)
    assert read_traces(path) == traces
    assert json.loads(path.read_text().splitlines()[0])["level"] == 3


@pytest.mark.parametrize(("line", "reason"), [
    ('{"id": "b"', "not JSON"),
    ("[1]", "a JSON object was expected, not a list"),
    (json.dumps({**GOOD, "answer": 2}), "`answer` must be a text, not a number"),
    (json.dumps({**GOOD, "answer": None}), "`answer` must be a text, not null"),
    (json.dumps({**GOOD, "id": "b", "answer": " "}), "`answer` is empty"),
    (json.dumps({**GOOD, "steps": "1+1=2"}), "`steps` must be a list of texts"),
    (json.dumps({"id": "b", "prompt": "x", "steps": []}), "`answer` is missing"),
    (json.dumps(GOOD), "id 'a' is in an earlier line already"),
    ('{"id": "b", "prompt": "\\ud800", "steps": [], "answer": "2"}', "half a surrogate pair"),
    ('{"id": "b", "prompt": "x", "steps": ["\\ud800"], "answer": "2"}', "half a surrogate pair"),
    ('{"id": "b", "prompt": "x", "steps": [], "answer": "2", "note": "\\ud800"}', "half a surrogate pair"),
    ('{"id": "b", "prompt": "x", "steps": ["\\u0000"], "answer": "2"}', "a NUL character"),
    ('{"id": "b", "prompt": "x", "prompt": "y", "steps": [], "answer": "2"}', "given twice"),
    (json.dumps({**GOOD, "id": "b", "history": [{"role": "narrator", "content": "x"}]}), "a turn of `history`"),
    ("[" * 100000, "nested"),
])
def test_a_bad_line_is_named_with_its_reason(tmp_path, line: str, reason: str) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + line + "\n")
    with pytest.raises(RequestError) as caught:
        read_traces(path)
    assert caught.value.given.startswith(f"{path}:2: ")
    assert reason in caught.value.given


def test_bytes_that_are_not_utf8_are_named(tmp_path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b'{"id": "\xff"}\n')
    with pytest.raises(RequestError, match=r":1: .*utf-8"):
        read_traces(path)


def test_empty_and_absent_files_are_refused_at_once(tmp_path) -> None:
    with pytest.raises(RequestError, match="a file of traces"):
        read_traces(tmp_path / "absent.jsonl")
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(RequestError, match="is empty"):
        read_traces(tmp_path / "empty.jsonl")


def test_traces_stream(tmp_path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps(GOOD) + "\nbroken\n")
    stream = iterate_traces(path)
    assert next(stream).id == "a"  # the broken second line has not been looked at
    with pytest.raises(RequestError):
        next(stream)
