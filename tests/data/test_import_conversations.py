"""Conversations on import: reasoning that is not kept, and no image, sound or film turned into text."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.conversations import conversations, turns
from tests.data.making import imported
from workings.data.row_fields import path_beside
from workings.errors import RequestError

TALKS = conversations(6)
RECORDS = [{"messages": [*(turn.to_json() for turn in talk.history), {"role": "user", "content": talk.prompt},
                         {"role": "assistant", "content": talk.answer}]} for talk in TALKS]
ASKED, SAID = {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}


# --- how much is learned ------------------------------------------------------------------------------------------

def test_reasoning_of_earlier_turns_that_is_not_kept_is_counted(tmp_path: Path) -> None:
    turn = {**SAID, "reasoning_content": "1+1=2"}
    result, [trace] = imported(tmp_path, "messages", {"messages": [ASKED, turn, ASKED, turn]})
    assert (trace.steps, trace.history) == (("1+1=2",), turns(("user", "1+1?"), ("assistant", "2")))
    assert (result.reasoning_left_out, list(result.notes())) == (
        1, ["the reasoning of 1 turn before the last is in a separate field and not kept"])


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
