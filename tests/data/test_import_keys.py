"""Keys with other names: mapped by the user, or recognized as those of another format."""

import json
from pathlib import Path
from typing import Any

import pytest

from workings.data.importing.formats import FORMATS
from workings.data.importing.hints import looks_like, parse_map
from workings.data.importing.run import ImportRequest, ImportResult, import_records
from workings.data.importing.sources import open_file
from workings.data.traces import read_traces
from workings.errors import RequestError

MATH = {"problem": "1+1?", "solution": "1+1=2\n#### 2", "answer": "2", "meta": {"level": 3}}


def run(tmp_path: Path, kind: str, keys: str = "", *records: Any, on_error: str = "fail") -> ImportResult:
    source = tmp_path / "file.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in records or (MATH,)))
    return import_records(open_file(source), tmp_path / "out.jsonl", ImportRequest(
        format=kind, keys=parse_map([keys] if keys else []), on_error=on_error, labels={}))  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "keys"), [
    ("question-answer", "prompt=problem,answer=solution"), ("question-answer", "answer=solution"),
    ("gsm8k", "question=problem, answer=solution"), ("prompt-completion", "prompt=problem,completion=solution"),
    ("alpaca", "instruction=problem,output=solution"), ("tagged", "answer=solution"),
])
def test_mapped_keys_are_read_as_the_formats(tmp_path: Path, kind: str, keys: str) -> None:
    if kind == "tagged":
        run(tmp_path, kind, keys, {**MATH, "solution": "<think>1+1=2</think>2"})
    else:
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


TURNS = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
SIDES = {"chosen": TURNS, "rejected": [TURNS[0], {"role": "assistant", "content": "3"}]}


@pytest.mark.parametrize(("kind", "record"), [
    ("messages", {"messages": TURNS}),
    ("sharegpt", {"conversations": [{"from": "human", "value": "1+1?"}, {"from": "gpt", "value": "2"}]}),
    ("gsm8k", {"question": "1+1?", "answer": "x\n#### 2"}),
    ("traces", {"prompt": "1+1?", "steps": ["1+1=2"], "answer": "2"}),
    ("tagged", {"question": "1+1?", "response": "<think>1+1=2</think>2"}),
    ("alpaca", {"instruction": "1+1?", "input": "", "output": "2"}),
    ("prompt-completion", {"prompt": "1+1?", "completion": "2"}),
    ("question-answer", {"problem": "1+1?", "solution": "2"}),
    ("kto", {"prompt": "1+1?", "completion": "2", "label": True}),
    ("hh", {"chosen": "\n\nHuman: 1+1?\n\nAssistant: 2", "rejected": "\n\nHuman: 1+1?\n\nAssistant: 3"}),
    ("chosen-rejected", SIDES),
    ("prompt-chosen-rejected", {"prompt": "1+1?", "chosen": "2", "rejected": "3"}),
    ("ultrafeedback", {**SIDES, "prompt": "1+1?", "messages": TURNS, "score_chosen": 2.0, "score_rejected": 1.0}),
    ("llamafactory", {"instruction": "1+1?", "input": "", "chosen": "2", "rejected": "3"}),
    ("", {"frage": "1+1?", "antwort": "2"}),
])
def test_each_format_is_recognized_by_its_keys(kind: str, record: dict[str, Any]) -> None:
    assert looks_like(record) == kind
    assert kind == "" or kind in FORMATS


def test_where_all_are_rejected_the_other_format_is_named(tmp_path: Path) -> None:
    record = {"messages": TURNS}
    result = run(tmp_path, "gsm8k", "", record, record, on_error="skip")
    assert (result.written, result.looks_like, result.to_json()["looks_like"]) == (0, "messages", "messages")
    assert result.sha256 == ""
    assert not result.out.exists()
    # A bad record among good ones says nothing about the format.
    mixed = run(tmp_path, "gsm8k", "", {"question": "1+1?", "answer": "#### 2"}, record, on_error="skip")
    assert (mixed.written, mixed.looks_like) == (1, "")
