"""Verdicts of TRL's and LLaMA-Factory's forms, and what is no verdict."""

import json
from pathlib import Path
from typing import Any

import pytest

from workings.data.importing.hints import looks_like
from workings.data.importing.run import ImportRequest, import_records
from workings.data.importing.sources import open_file
from workings.data.verdicts import read_verdicts
from workings.errors import RequestError

ASKED, GOOD = "What is 1 + 1?", "1 + 1 = 2"


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def bot(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def imported(tmp_path: Path, *records: Any) -> Any:
    path = tmp_path / "given.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    out = tmp_path / "out.jsonl"
    result = import_records(open_file(path), out, ImportRequest(format="kto", labels={}, on_error="skip", force=True))
    return result, read_verdicts(out) if result.written else []


@pytest.mark.parametrize("record", [
    {"prompt": ASKED, "completion": GOOD, "label": False},
    {"prompt": [user(ASKED)], "completion": [bot(GOOD)], "label": False},
    {"messages": [user(ASKED), bot(GOOD)], "label": False},
    {"instruction": ASKED, "output": GOOD, "kto_tag": False},
    {"conversations": [{"from": "human", "value": ASKED}, {"from": "gpt", "value": GOOD}], "kto_tag": False}])
def test_each_form_is_a_verdict(tmp_path: Path, record: dict[str, Any]) -> None:
    assert looks_like(record) == "kto"
    result, [verdict] = imported(tmp_path, record | {"note": "kept", "license": "MIT"})
    assert (verdict.prompt, verdict.completion, verdict.label) == (ASKED, GOOD, False)
    assert (verdict.licence, verdict.metadata["note"], verdict.id) == ("MIT", "kept", "given-0000001")
    assert (result.read, result.written, result.rejected) == (1, 1, 0)


def test_every_record_stands_alone(tmp_path: Path) -> None:
    """Two completions of one prompt are two verdicts, and earlier turns are kept."""
    result, verdicts = imported(
        tmp_path, {"messages": [user("a"), bot("b"), user("c"), bot("1")], "label": True},
        {"messages": [user("c"), bot("2")], "label": True}, {"messages": [user("c"), bot("3")], "label": False})
    assert [(one.prompt, one.completion, one.label, len(one.history)) for one in verdicts] == [
        ("c", "1", True, 2), ("c", "2", True, 0), ("c", "3", False, 0)]
    assert result.written == 3


@pytest.mark.parametrize(("record", "reason"), [
    ({"prompt": "1?", "completion": "2"}, "one of `label` and `kto_tag` was expected"),
    ({"prompt": "1?", "completion": "2", "label": 1}, "`label` must be true or false, not 1"),
    ({"prompt": "1?", "completion": "2", "label": "true"}, "`label` must be true or false, not 'true'"),
    ({"prompt": "1?", "completion": "2", "output": "2", "label": True}, "one of `completion`, `messages`"),
    ({"prompt": "1?", "completion": " ", "label": True}, "is empty"),
    ({"prompt": "1?", "completion": "half \ud800", "label": True}, "half a surrogate pair")])
def test_what_is_no_verdict_is_rejected_with_its_reason(tmp_path: Path, record: Any, reason: str) -> None:
    result, _ = imported(tmp_path, {"prompt": ASKED, "completion": GOOD, "label": True}, record)
    assert (result.written, result.rejected) == (1, 1)
    assert reason in next(iter(result.reasons))


@pytest.mark.parametrize(("line", "said"), [
    ('{"id": "a", "prompt": "1?", "completion": "2"}', "`label` is missing"),
    ('{"id": "a", "prompt": "1?", "completion": "2", "label": null}', "must be true or false, not null"),
    ('{"id": "a", "prompt": "1?", "completion": " ", "label": true}', "`completion` is empty"), ("", "is empty")])
def test_a_file_of_verdicts_that_is_none(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "verdicts.jsonl").write_text(line)
    with pytest.raises(RequestError) as caught:
        read_verdicts(tmp_path / "verdicts.jsonl")
    assert said in str(caught.value)
