"""Keys with other names: mapped by the user, or recognized as those of another format."""

from pathlib import Path
from typing import Any

import pytest

from tests.data.making import imported
from workings.data.importing.hints import parse_map
from workings.data.importing.run import ImportResult
from workings.data.traces import read_traces
from workings.errors import RequestError

MATH = {"problem": "1+1?", "solution": "1+1=2\n#### 2", "answer": "2", "meta": {"level": 3}}


def run(tmp_path: Path, kind: str, keys: str = "", *records: Any, on_error: str = "fail") -> ImportResult:
    return imported(tmp_path, kind, *(records or (MATH,)), keys=parse_map([keys] if keys else []), on_error=on_error)[0]


@pytest.mark.parametrize(("kind", "keys"), [
    ("question-answer", "prompt=problem,answer=solution"), ("question-answer", "answer=solution"),
    ("gsm8k", "question=problem, answer=solution"), ("prompt-completion", "prompt=problem,completion=solution"),
    ("alpaca", "instruction=problem,output=solution"),
])
def test_mapped_keys_are_read_as_the_formats(tmp_path: Path, kind: str, keys: str) -> None:
    run(tmp_path, kind, keys)
    [trace] = read_traces(tmp_path / "out.jsonl")
    assert (trace.prompt, trace.steps, trace.answer) == ("1+1?", ("1+1=2",), "2")
    assert trace.metadata == {"original_answer": "2", "meta": {"level": 3}}


def test_labels_and_inner_keys_can_be_mapped_and_may_be_missing_in_some_records(tmp_path: Path) -> None:
    keys = "answer=solution,difficulty=meta.level,section=a.b"
    run(tmp_path, "question-answer", keys, MATH, {**MATH, "meta": 3, "a.b": "own", "a": {"b": "inner"}})
    first, second = read_traces(tmp_path / "out.jsonl")
    assert (first.difficulty, first.section, second.difficulty, second.section) == ("3", "", "", "own")


@pytest.mark.parametrize(("kind", "keys", "given", "expected", "hint"), [
    ("prompt-completion", "prompt=probelm,completion=solution", "`prompt` is missing; the record has `problem`",
     "a record of format prompt-completion", "--map KEY=YOURS"),
    ("question-answer", "answer=solution,section=levl", "no record has `levl`", "first record has `problem`", ""),
    ("sharegpt", "", "`conversations` is missing", "a record of format sharegpt", "--map KEY=YOURS"),
    ("sharegpt", "answer=solution", "`conversations` is missing", "format sharegpt", "--format question-answer"),
    ("", "", "two answers: `answer` and `solution` differ", "a record of format question-answer", "--on-error skip"),
    ("", "section=problem,category=solution", "the format is unknown; the first record has `answer`", "data list",
     "--map question=KEY,answer=KEY"),
])
def test_an_error_names_the_keys_that_are_there(tmp_path: Path, kind: str, keys: str, given: str, expected: str,
                                                hint: str) -> None:
    with pytest.raises(RequestError) as caught:
        run(tmp_path, kind, keys)
    assert given in caught.value.given
    assert expected in caught.value.expected
    assert hint in caught.value.try_next
    assert [path.name for path in tmp_path.iterdir()] == ["file.jsonl"]


@pytest.mark.parametrize("text", ["prompt", "prompt=", "=problem", "prompt=a,prompt=b", "prompt=a,,answer=b"])
def test_a_map_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="--map"):
        parse_map([text])


def test_where_all_are_rejected_the_other_format_is_named(tmp_path: Path) -> None:
    record = {"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}
    result = run(tmp_path, "gsm8k", "", record, record, on_error="skip")
    assert (result.written, result.looks_like, result.to_json()["looks_like"]) == (0, "messages", "messages")
    assert result.sha256 == ""
    assert not result.out.exists()
    # A bad record among good ones says nothing about the format.
    mixed = run(tmp_path, "gsm8k", "", {"question": "1+1?", "answer": "#### 2"}, record, on_error="skip")
    assert (mixed.written, mixed.looks_like) == (1, "")
