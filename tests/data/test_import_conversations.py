"""Conversations on import: how much of them is learned, and no image, sound or film turned into text."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.data.conversations import conversations, said_by_the_assistant, turns
from tests.data.making import imported
from workings.cli.main import app
from workings.data.row_fields import path_beside
from workings.errors import RequestError

TALKS = conversations(6)
RECORDS = [{"messages": [*(turn.to_json() for turn in talk.history), {"role": "user", "content": talk.prompt},
                         {"role": "assistant", "content": talk.answer}]} for talk in TALKS]
ASKED, SAID = {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}


# --- how much is learned ------------------------------------------------------------------------------------------

def test_turns_and_characters_are_counted_from_the_records(tmp_path: Path) -> None:
    result, traces = imported(tmp_path, "messages", *RECORDS)
    assert [trace.answer for trace in traces] == [talk.answer for talk in TALKS]
    said = [said_by_the_assistant(talk) for talk in TALKS]
    assert result.to_json()["learned"] == {
        "conversations": 4, "earlier_reasoning_left_out": 0,
        "last": {"assistant_turns": 6, "characters": sum(len(turns[-1]) for turns in said)},
        "all": {"assistant_turns": 12, "characters": sum(len(text) for turns in said for text in turns)}}


def test_people_are_told_and_programs_too(tmp_path: Path) -> None:
    source = tmp_path / "talks.jsonl"
    source.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    words = ["data", "import", "--format", "messages", str(source), "--out", str(tmp_path / "t.jsonl"), "--force"]
    plain = CliRunner().invoke(app, words, catch_exceptions=False).stdout
    learned = json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)["learned"]
    share = learned["last"]["characters"] / learned["all"]["characters"]
    assert (f"data.learn: last (the default) learns 6 of 12 turns of the assistant: {learned['last']['characters']} of "
            f"{learned['all']['characters']} characters ({100 * share:.1f} %)") in plain
    assert "data.learn: all learns all 12" in plain


def test_reasoning_of_earlier_turns_that_is_not_kept_is_counted(tmp_path: Path) -> None:
    turn = {**SAID, "reasoning_content": "1+1=2"}
    result, [trace] = imported(tmp_path, "messages", {"messages": [ASKED, turn, ASKED, turn]})
    assert (trace.steps, trace.history) == (("1+1=2",), turns(("user", "1+1?"), ("assistant", "2")))
    assert result.learned is not None
    assert result.learned.reasoning_left_out == 1
    assert "1 earlier turns had reasoning in a separate field" in result.learned.text()[-1]


# --- images, audio, video -----------------------------------------------------------------------------------------

def parts(*found: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, *found]}, SAID]}


URL = "https://example.org/a.png"
MEDIA: list[tuple[str, dict[str, Any], str]] = [
    ("messages", parts({"type": "image_url", "image_url": {"url": URL}}),
     "an image (`image_url`) in turn 1 of `messages`"),
    ("messages", parts({"type": "image"}), "an image (`image`) in turn 1 of `messages`"),
    ("messages", parts({"image": URL}), "an image (`image`) in turn 1 of `messages`"),
    ("messages", parts({"type": "input_image", "image_url": URL}), "an image (`input_image`)"),
    ("messages", parts({"type": "input_audio", "input_audio": {"data": "UklGRg=="}}), "audio (`input_audio`)"),
    ("messages", parts({"type": "audio", "audio": "a.wav"}), "audio (`audio`)"),
    ("messages", parts({"type": "video", "video": "a.mp4"}), "video (`video`)"),
    ("messages", {"messages": [{**ASKED, "images": ["a.png"]}, SAID]}, "an image (`images`) in turn 1 of `messages`"),
    ("messages", {"messages": [ASKED, {**SAID, "audio": {"id": "x"}}]}, "audio (`audio`) in turn 2 of `messages`"),
    ("messages", {"messages": [ASKED, SAID], "images": [URL]}, "an image (`images`) in the record"),
    ("sharegpt", {"conversations": [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "2"}],
                  "image": "coco/1.jpg"}, "an image (`image`) in the record"),
    ("sharegpt", {"conversations": [{"from": "human", "value": "<audio>What?"}, {"from": "gpt", "value": "2"}],
                  "audios": ["a.wav"]}, "audio (`audios`) in the record"),
    ("prompt-completion", {"prompt": parts({"type": "image"})["messages"][:1], "completion": [SAID]},
     "an image (`image`) in turn 1 of `prompt`"),
    ("alpaca", {"instruction": "What?", "output": "2", "videos": ["a.mp4"]}, "video (`videos`) in the record"),
    ("gsm8k", {"question": "What?", "answer": "#### 2", "image": {"bytes": "iVBORw0=", "path": ""}},
     "an image (`image`) in the record"),
]


@pytest.mark.parametrize(("kind", "record", "reason"), MEDIA)
def test_what_is_no_text_is_refused_with_the_row(tmp_path: Path, kind: str, record: Any, reason: str) -> None:
    result, _ = imported(tmp_path, kind, record)
    [rejected] = [json.loads(line) for line in path_beside(result.out, "rejects.jsonl").read_text().splitlines()]
    assert (result.written, rejected["line"]) == (0, 1)
    assert rejected["reason"].startswith(reason)
    with pytest.raises(RequestError, match=r"file\.jsonl:1: .*only text can be learned from"):
        imported(tmp_path, kind, record, on_error="fail")


def test_empty_columns_of_pictures_hold_none(tmp_path: Path) -> None:
    content = [{"type": "text", "text": "1+1?", "image": None, "image_url": ""}]
    result, [trace] = imported(tmp_path, "messages", {
        "messages": [{"role": "user", "content": content, "images": []}, SAID],
        "images": [], "audio": None, "type": "image"})
    assert (result.written, trace.prompt, trace.metadata["type"]) == (1, "1+1?", "image")


def test_a_picture_next_to_our_own_form_is_kept_only_where_a_person_leaves_it_out(tmp_path: Path) -> None:
    record = {"prompt": "1+1?", "steps": [], "answer": "2", "image": "shown nowhere"}
    with pytest.raises(RequestError, match=r"an image \(`image`\) in the record: only text can be learned from"):
        imported(tmp_path, "traces", record, on_error="fail")
    _, [trace] = imported(tmp_path, "traces", record, ignore=("image",))
    assert trace.metadata == {"ignored": {"image": "shown nowhere"}}
