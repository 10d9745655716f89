"""Every format with records by hand: what comes out, which answer is marked, and why a bad record is rejected."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.conversations import turns
from tests.data.making import imported
from workings.answers.texts import same_answer
from workings.data.importing.completion import (
    before_box,
    final_answer,
    marked_answer,
    split_any,
    split_hashes,
    split_tagged,
)
from workings.data.importing.formats import FORMATS, RAW_TEXT
from workings.data.importing.hints import looks_like
from workings.data.preferences import PreferencePair, read_verdicts
from workings.data.row_fields import path_beside
from workings.errors import RequestError

THINK = "<think>\n1+1=2\nso 2\n</think>\n\n2"
TAGS = "<reasoning>1+1=2\nso 2</reasoning><answer>2</answer>"
USER, BOT = {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": TAGS}
GOOD: list[tuple[str, dict[str, Any]]] = [
    ("gsm8k", {"question": "1+1?", "answer": "1+1=2\nso 2\n#### 2"}),
    ("messages", {"messages": [USER, BOT]}),
    ("messages", {"messages": [USER, {"role": "assistant", "content": [{"type": "text", "text": TAGS}]}]}),
    ("messages", {"messages": [USER, {"role": "assistant", "content": "2", "reasoning_content": "1+1=2\nso 2"}]}),
    ("messages", {"messages": [USER, {"role": "assistant", "content": THINK}]}),
    ("messages", {"messages": [{"role": "user", "content": [{"type": "text", "value": "1+1?", "text": None}]},
                               {"role": "assistant", "content": [{"type": "text", "value": TAGS}]}]}),
    ("messages", {"messages": [USER, {"role": "assistant", "content": [
        {"type": "reasoning", "value": "1+1=2"}, {"type": "reasoning", "text": "so 2"},
        {"type": "text", "value": "2"}]}]}),
    ("messages", {"messages": [USER, {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "1+1=2\nso 2", "signature": "x"}, {"type": "text", "text": "2"}]}]}),
    ("messages", {"messages": [USER, {"role": "assistant", "reasoning_content": "1+1=2\nso 2", "content": [
        {"type": "reasoning", "reasoning": "1+1=2\n\nso 2\n"}, {"type": "output_text", "text": "2"}]}]}),
    ("prompt-completion", {"prompt": "1+1?", "completion": "2", "reasoning_content": "1+1=2\nso 2"}),
    ("alpaca", {"instruction": "1+1?", "output": "2", "thinking": "1+1=2\nso 2"}),
    ("question-answer", {"problem": "1+1?", "solution": "1+1=2\nso 2\n#### 2"}),
    ("question-answer", {"query": "1+1?", "response": TAGS}),
    ("question-answer", {"question": "1+1?", "response": "2", "reasoning": "1+1=2\nso 2"}),
    ("prompt-completion", {"prompt": "1+1?", "completion": TAGS}),
    ("prompt-completion", {"prompt": [USER], "completion": [BOT]}),
    ("prompt-completion", {"prompt": "1+1?", "completion": "1+1=2\nso 2\n#### 2"}),
    ("alpaca", {"instruction": "1+1?", "input": "", "output": THINK}),
    ("alpaca", {"instruction": "1+1?", "input": None, "output": THINK}),
    ("sharegpt", {"conversations": [{"from": "human", "value": "1+1?"}, {"from": "gpt", "value": TAGS}]}),
    ("tagged", {"question": "1+1?", "response": "1+1=2\nso 2\n</think>2"}),
    ("tagged", {"prompt": "1+1?", "text": "<think>1+1=2\n\nso 2</think>\n<answer>2</answer>"}),
    ("traces", {"prompt": "1+1?", "steps": ["1+1=2", "so 2"], "answer": "2"}),
    ("traces", {"question": "1+1?", "steps": "1+1=2\nso 2\n", "final_answer": "2"}),
    ("traces", {"prompt": "1+1?", "steps": ["1+1=2", "so 2"], "answer": "2", "final_answer": "2"}),
]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def bot(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


ASKED, RIGHT, WRONG = "What color is the sky?", "It is blue.", "It is green."
DIALOGUE = f"\n\nHuman: {ASKED}\n\nAssistant: "
BINARIZED = {"prompt": ASKED, "prompt_id": "3fb0", "chosen": [user(ASKED), bot(RIGHT)],
             "rejected": [user(ASKED), bot(WRONG)], "messages": [user(ASKED), bot(RIGHT)],
             "score_chosen": 8.5, "score_rejected": 8}
SHAREGPT = {"conversations": [{"from": "human", "value": ASKED}],
            "chosen": {"from": "gpt", "value": RIGHT}, "rejected": {"from": "gpt", "value": WRONG}}
PAIRS: list[tuple[str, dict[str, Any]]] = [
    ("prompt-chosen-rejected", {"prompt": ASKED, "chosen": f" {RIGHT}", "rejected": f" {WRONG}"}),
    ("prompt-chosen-rejected", {"prompt": [user(ASKED)], "chosen": [bot(RIGHT)], "rejected": [bot(WRONG)]}),
    ("chosen-rejected", {"chosen": [user(ASKED), bot(RIGHT)], "rejected": [user(ASKED), bot(WRONG)]}),
    ("hh", {"chosen": DIALOGUE + RIGHT, "rejected": DIALOGUE + WRONG}),
    ("ultrafeedback", BINARIZED),
    ("llamafactory", SHAREGPT),
    ("llamafactory", {"instruction": ASKED, "input": "", "chosen": RIGHT, "rejected": WRONG}),
    ("preferences", {"prompt": ASKED, "chosen": RIGHT, "rejected": f"{WRONG} "}),
]
VERDICTS: list[tuple[str, dict[str, Any]]] = [("kto", record) for record in (
    {"prompt": ASKED, "completion": RIGHT, "label": False},
    {"prompt": [user(ASKED)], "completion": [bot(RIGHT)], "label": False},
    {"messages": [user(ASKED), bot(RIGHT)], "label": False},
    {"instruction": ASKED, "output": RIGHT, "kto_tag": False},
    {"conversations": [{"from": "human", "value": ASKED}, {"from": "gpt", "value": RIGHT}], "kto_tag": False})]


@pytest.mark.parametrize(("kind", "record"), GOOD)
def test_every_notation_gives_the_same_trace(tmp_path: Path, kind: str, record: dict[str, Any]) -> None:
    result, traces = imported(tmp_path, kind, record)
    assert (result.read, result.written, result.rejected, result.rejects) == (1, 1, 0, None)
    assert (traces[0].prompt, traces[0].steps, traces[0].answer) == ("1+1?", ("1+1=2", "so 2"), "2")
    assert (traces[0].id, traces[0].metadata) == ("file-0000001", {})
    assert not path_beside(result.out, "rejects.jsonl").exists()


@pytest.mark.parametrize(("kind", "record"), PAIRS)
def test_every_form_gives_the_same_pair(tmp_path: Path, kind: str, record: dict[str, Any]) -> None:
    result, pairs = imported(tmp_path, kind, record)
    metadata = {key: record[key] for key in ("prompt_id", "score_chosen", "score_rejected") if key in record}
    assert (result.read, result.written, result.rejected) == (1, 1, 0)
    assert pairs == [PreferencePair(id="file-0000001", prompt=ASKED, chosen=RIGHT, rejected=WRONG, metadata=metadata)]


@pytest.mark.parametrize(("kind", "record"), VERDICTS)
def test_each_form_is_a_verdict(tmp_path: Path, kind: str, record: dict[str, Any]) -> None:
    assert looks_like(record) == kind
    _, [verdict] = imported(tmp_path, kind, record | {"note": "kept", "license": "MIT"})
    assert (verdict.prompt, verdict.completion, verdict.label) == (ASKED, RIGHT, False)
    assert (verdict.licence, verdict.metadata["note"], verdict.id) == ("MIT", "kept", "file-0000001")


FIRST = dict(reversed([*GOOD, *PAIRS, *VERDICTS]))
"""The first record of each format."""


def test_every_format_is_covered_and_recognized_by_its_keys() -> None:
    assert {*FIRST} == FORMATS.keys() - {RAW_TEXT}
    assert {kind: looks_like(record) for kind, record in FIRST.items()} == {
        **{kind: kind for kind in FIRST}, "preferences": "prompt-chosen-rejected"}
    assert looks_like({"frage": "1+1?", "antwort": "2"}) == ""


@pytest.mark.parametrize("kind", FIRST)
@pytest.mark.parametrize("key", ["system", "system_prompt"])
def test_a_system_text_is_the_first_turn_in_every_format(tmp_path: Path, kind: str, key: str) -> None:
    _, [entry] = imported(tmp_path, kind, {**FIRST[kind], key: "Answer like a pirate."})
    assert entry.history == turns(("system", "Answer like a pirate."))


BAD: list[tuple[str, Any, str]] = [
    ("gsm8k", {"question": "1+1?", "answer": "2"}, "no line that begins with ####"),
    ("gsm8k", {"question": "1+1?", "answer": "#### 2\n#### 3"}, "two answers"),
    ("gsm8k", {"question": "1+1?", "answer": "x\n#### 2\nmore"}, "text after the line"),
    ("gsm8k", {"question": "1+1?", "answer": "x\n####"}, "`answer` is empty"),
    ("gsm8k", {"prompts": "1+1?", "answer": "x\n#### 2"}, "`question` is missing; the record has `prompts`, `answer`"),
    ("gsm8k", {"question": True, "answer": "x\n#### 2"}, "`question` must be a text, not true or false"),
    ("gsm8k", {"question": " ", "answer": "x\n#### 2"}, "`prompt` is empty"),
    ("gsm8k", ["question"], "a record must be an object, not a list"),
    ("messages", {"messages": [USER]}, "the last turn is not the assistant's"),
    ("messages", {"messages": [BOT]}, "turns must alternate"),
    ("messages", {"messages": [USER, USER, BOT]}, "out of order is turn 2 of `messages` (user)"),
    ("messages", {"messages": "hi"}, "`messages` must be a list of turns, not a text"),
    ("messages", {"messages": [USER, {"role": "assistant", "content": [{"type": "tool"}]}]}, "else than text"),
    ("messages", {"messages": [USER, {**BOT, "tool_calls": [1]}]}, "a call of a tool must have a name"),
    ("messages", {"messages": [USER, {"role": "assistant", "content": [{"type": "text", "inhalt": "2"}]}]},
     "a part of type 'text' has no `text` or `value`; it has `type`, `inhalt`"),
    ("messages", {"messages": [USER, {"role": "assistant", "content": ["2"]}]}, "must be an object, not a text"),
    ("messages", {"messages": [USER, {"role": "assistant", "content": [
        {"type": "text", "text": "2"}, {"type": "reasoning", "text": "1+1=2"}]}]}, "reasoning after a text in turn 2"),
    ("messages", {"messages": [USER, {"role": "assistant", "reasoning_content": "1+1=3", "content": [
        {"type": "reasoning", "text": "1+1=2"}, {"type": "text", "text": "2"}]}]}, "two different reasonings"),
    ("question-answer", {"problem": "1+1?", "solution": "so 2", "answer": "2"}, "`answer` and `solution` differ"),
    ("question-answer", {"frage": "1+1?"}, "is missing; the record has `frage`"),
    ("prompt-completion", {"prompt": [USER], "completion": "2"}, "must be a list of turns"),
    ("alpaca", {"instruction": "1+1?", "output": TAGS + TAGS}, "more than one <reasoning> block"),
    ("alpaca", {"instruction": "1+1?", "output": "2", "history": [["a"]]}, "list of pairs"),
    ("sharegpt", {"conversations": [{"from": "human"}]}, "`value` is missing"),
    ("tagged", {"prompt": "1+1?", "text": "2"}, "no <think>"),
    ("tagged", {"prompt": "1+1?", "text": "<answer>2</answer><answer>3</answer>"}, "two answers"),
    ("tagged", {"prompt": "1+1?", "text": "<think>1+1=2"}, "do not pair"),
    ("tagged", {"prompt": "1+1?", "text": "Sure! <think>1+1=2</think>2"}, "would be lost"),
    ("tagged", {"prompt": "1+1?", "text": "<think>a</think><reasoning>b</reasoning>2"}, "both a <think>"),
    ("tagged", {"prompt": "1?", "question": "2?", "text": THINK}, "two questions: `prompt` and `question` differ"),
    ("traces", {"prompt": "1+1?", "steps": [], "answer": "2", "final_answer": "3"}, "two answers"),
    ("traces", {"prompt": "1+1?", "steps": [3], "answer": "2"}, "a step must be a text"),
    ("traces", {"prompt": "1+1?", "steps": {"a": 1}, "answer": "2"}, "`steps` must be a list of texts, not an object"),
    ("traces", {"prompt": "1+1?", "answer": "2"}, "`steps` is missing"),
    ("traces", {"prompt": "1+1?", "steps": [], "answer": "2", "metadata": 3}, "`metadata` must be an object"),
    ("traces", {"prompt": "1+1?", "steps": [], "answer": "2", "section": [1]}, "`section` must be a text, not a list"),
    ("traces", {"prompt": "half \ud800", "steps": [], "answer": "2"}, "half a surrogate pair"),
    ("prompt-chosen-rejected", {"prompt": "1?", "chosen": "2"}, "`rejected` is missing; the record has `prompt`"),
    ("prompt-chosen-rejected", {"prompt": "1?", "chosen": "2", "rejected": " "}, "`rejected` is empty"),
    ("prompt-chosen-rejected", {"prompt": "1?", "chosen": [bot("2")], "rejected": [bot("3")]}, "a list of turns"),
    ("prompt-chosen-rejected", {"prompt": [user("1?")], "chosen": [user("2")], "rejected": [bot("3")]}, "last turn"),
    ("prompt-chosen-rejected", {"prompt": [user("1?")], "rejected": [bot("3")],
                                "chosen": [{**bot("2"), "reasoning_content": "x"}]}, "reasoning in a separate field"),
    ("chosen-rejected", {"prompt": "1?", "chosen": "2", "rejected": "3"}, "try --format prompt-chosen-rejected"),
    ("chosen-rejected", {"chosen": [user("1?"), bot("2")], "rejected": [user("2?"), bot("3")]}, "before their last"),
    ("chosen-rejected", {"chosen": "The sky is bluer", "rejected": "The sky is blue now"}, "a word, after 'The"),
    ("chosen-rejected", {"chosen": "The sky", "rejected": "The sky is blue"}, "one text is the beginning of the other"),
    ("chosen-rejected", {"chosen": "A sky", "rejected": "The sky"}, "different beginnings"),
    ("hh", {"chosen": "Human: 1?\n\nAssistant: 2", "rejected": "1? 3"}, "`rejected` does not begin with `Human:`"),
    ("hh", {"chosen": DIALOGUE + RIGHT, "rejected": f"{DIALOGUE}{WRONG}\n\nHuman: Why?"}, "last turn is not"),
    ("ultrafeedback", {**BINARIZED, "score_rejected": 8.5}, "score_chosen 8.5 is not above score_rejected 8.5"),
    ("ultrafeedback", {**BINARIZED, "score_rejected": True}, "`score_rejected` must be a number, not true or false"),
    ("ultrafeedback", {**BINARIZED, "prompt": "Another?"}, "`prompt` is not the last question"),
    ("llamafactory", {**SHAREGPT, "chosen": RIGHT}, "`chosen` must be an object, not a text"),
    ("llamafactory", {**SHAREGPT, "instruction": ASKED}, "it is unclear which is the question"),
    ("preferences", {"prompt": "1?", "chosen": "2", "rejected": "3", "history": [user("0?")], "id": [1]}, "`id` must"),
    ("kto", {"prompt": "1?", "completion": "2"}, "one of `label` and `kto_tag` was expected"),
    ("kto", {"prompt": "1?", "completion": "2", "label": 1}, "`label` must be true or false, not 1"),
    ("kto", {"prompt": "1?", "completion": "2", "output": "2", "label": True}, "one of `completion`, `messages`"),
    ("kto", {"prompt": "1?", "completion": " ", "label": True}, "is empty"),
]


def test_earlier_turns_become_history(tmp_path: Path) -> None:
    said = [{"role": "system", "content": "Be short."}, USER, BOT, {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": "4"}]
    _, traces = imported(tmp_path, "messages", {"messages": said})
    assert traces[0].history == turns(("system", "Be short."), ("user", "1+1?"), ("assistant", TAGS))
    assert (traces[0].prompt, traces[0].steps, traces[0].answer) == ("2+2?", (), "4")
    _, traces = imported(tmp_path, "alpaca", {"instruction": "2+2?", "input": "Now.", "output": "4",
                                              "system": "Be short.", "history": [["1+1?", "2"]]})
    assert traces[0].prompt == "2+2?\n\nNow."
    assert traces[0].history == turns(("system", "Be short."), ("user", "1+1?"), ("assistant", "2"))
    _, traces = imported(tmp_path, "sharegpt", {"system": "Be short.", "conversations": [
        {"from": "human", "value": "1+1?"}, {"from": "gpt", "value": "2"}]})
    assert traces[0].history == turns(("system", "Be short."))


def test_labels_come_from_the_record_its_metadata_or_the_request(tmp_path: Path) -> None:
    base = {"prompt": "1+1?", "steps": [], "answer": "2"}
    _, traces = imported(tmp_path, "traces",
                         {**base, "id": 7, "difficulty": 3, "license": "MIT", "note": None, "score": 0.5},
                         {**base, "id": "b", "section": "top",
                          "metadata": {"section": "inner", "category": "sum", "k": [1]}},
                         labels={"section": "core", "licence": "CC0-1.0"})
    assert (traces[0].id, traces[0].section, traces[0].difficulty, traces[0].licence) == ("7", "core", "3", "MIT")
    assert traces[0].metadata == {"score": 0.5}
    assert (traces[1].section, traces[1].category, traces[1].licence) == ("top", "sum", "CC0-1.0")
    assert traces[1].metadata == {"k": [1]}


def test_a_key_with_another_meaning_is_kept_under_its_own_name(tmp_path: Path) -> None:
    _, traces = imported(tmp_path, "prompt-completion",
                         {"prompt": "1+1?", "completion": "4", "answer": "2", "steps": 3})
    assert traces[0].answer == "4"
    assert traces[0].metadata == {"original_answer": "2", "original_steps": 3}


def test_repeated_ids_are_rejected(tmp_path: Path) -> None:
    base = {"prompt": "1+1?", "steps": [], "answer": "2"}
    result, _ = imported(tmp_path, "traces", {**base, "id": "a"}, {**base, "id": "a"},
                         {**base, "id": "file-0000004"}, base)
    assert (result.written, result.rejected) == (2, 2)


def test_annotations_leave_the_steps(tmp_path: Path) -> None:
    record = {"question": "q", "answer": "He has 2*3 = $<<2*3=6>>6.\n#### 1,006"}
    _, traces = imported(tmp_path, "gsm8k", record)
    assert (traces[0].steps, traces[0].answer) == (("He has 2*3 = $6.",), "1006")
    assert traces[0].metadata == {"calculations": [["2*3=6"]]}


def test_a_number_with_a_decimal_comma_is_not_a_thousand() -> None:
    assert FORMATS["gsm8k"].read({"question": "q", "answer": "#### 3,5"}).values["answer"] == "3,5"
    assert FORMATS["gsm8k"].read({"question": "q", "answer": "#### $1,234,567.5"}).values["answer"] == "$1234567.5"


def test_texts_without_a_notation_are_answers() -> None:
    assert split_any("Hello.\n\nBye. ") == ((), "Hello.\n\nBye.")
    assert split_any("#### Heading\ntext") == ((), "#### Heading\ntext")
    assert split_any("#### One\ntext\n#### Two") == ((), "#### One\ntext\n#### Two")
    assert split_hashes("a \n\n b\n ####  7 ") == (("a", " b"), "7")
    assert split_tagged("<answer> 7 </answer>") == ((), "7")
    assert split_tagged(r"<think>2+3=5</think>It is \boxed{5}.") == (("2+3=5",), "5")


def test_reasoning_of_earlier_turns_that_is_not_kept_is_counted(tmp_path: Path) -> None:
    turn = {**bot("2"), "reasoning_content": "1+1=2"}
    result, [trace] = imported(tmp_path, "messages", {"messages": [USER, turn, USER, turn]})
    assert (trace.steps, trace.history) == (("1+1=2",), turns(("user", "1+1?"), ("assistant", "2")))
    assert (result.reasoning_left_out, list(result.notes())) == (
        1, ["the reasoning of 1 turn before the last is in a separate field and not kept"])


# --- images, audio, video -----------------------------------------------------------------------------------------

def parts(*found: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, *found]}, bot("2")]}


URL = "https://example.org/a.png"
MEDIA: list[tuple[str, dict[str, Any], str]] = [
    ("messages", parts({"type": "image_url", "image_url": {"url": URL}}),
     "an image (`image_url`) in turn 1 of `messages`"),
    ("messages", parts({"image": URL}), "an image (`image`) in turn 1 of `messages`"),
    ("messages", parts({"type": "input_audio", "input_audio": {"data": "UklGRg=="}}), "audio (`input_audio`)"),
    ("messages", parts({"type": "video", "video": "a.mp4"}), "video (`video`)"),
    ("messages", {"messages": [{**USER, "images": ["a.png"]}, bot("2")]}, "an image (`images`) in turn 1"),
    ("messages", {"messages": [USER, {**bot("2"), "audio": {"id": "x"}}]}, "audio (`audio`) in turn 2 of `messages`"),
    ("messages", {"messages": [USER, bot("2")], "images": [URL]}, "an image (`images`) in the record"),
    ("sharegpt", {"conversations": [{"from": "human", "value": "<image>\nWhat?"}, {"from": "gpt", "value": "2"}],
                  "image": "coco/1.jpg"}, "an image (`image`) in the record"),
    ("prompt-completion", {"prompt": parts({"type": "image"})["messages"][:1], "completion": [bot("2")]},
     "an image (`image`) in turn 1 of `prompt`"),
    ("alpaca", {"instruction": "What?", "output": "2", "videos": ["a.mp4"]}, "video (`videos`) in the record"),
]


@pytest.mark.parametrize(("kind", "record", "reason"), [*BAD, *MEDIA])
def test_a_bad_record_is_rejected_with_its_reason(tmp_path: Path, kind: str, record: Any, reason: str) -> None:
    result, _ = imported(tmp_path, kind, FIRST[kind], record)
    assert (result.read, result.written, result.rejected) == (2, 1, 1)
    rejected = [json.loads(line) for line in path_beside(result.out, "rejects.jsonl").read_text().splitlines()]
    assert [(line["line"], json.loads(line["raw"])) for line in rejected] == [(2, record)]
    assert reason in rejected[0]["reason"]
    assert list(result.reasons.values()) == [1]


def test_empty_columns_of_pictures_hold_none(tmp_path: Path) -> None:
    content = [{"type": "text", "text": "1+1?", "image": None, "image_url": ""}]
    result, [trace] = imported(tmp_path, "messages", {
        "messages": [{"role": "user", "content": content, "images": []}, bot("2")],
        "images": [], "audio": None, "type": "image"})
    assert (result.written, trace.prompt, trace.metadata["type"]) == (1, "1+1?", "image")


def test_a_picture_next_to_our_own_form_is_kept_only_where_a_person_leaves_it_out(tmp_path: Path) -> None:
    record = {"prompt": "1+1?", "steps": [], "answer": "2", "image": "shown nowhere"}
    with pytest.raises(RequestError, match=r"an image \(`image`\) in the record: only text can be learned from"):
        imported(tmp_path, "traces", record, on_error="fail")
    _, [trace] = imported(tmp_path, "traces", record, ignore=("image",))
    assert trace.metadata == {"ignored": {"image": "shown nowhere"}}


@pytest.mark.parametrize(("text", "answer"), [
    (r"3+4=7, so \boxed{7}.", "7"), (r"\boxed{1} no, \boxed{\frac{1}{2}}", r"\frac{1}{2}"), ("<answer>4</answer>", "4"),
    ("2+2\n#### 4", "4"), ("#### One\ntext\n#### Two", ""), ("#### Notes\nHello", ""), ("It is 7.", ""), ("", ""),
    (r"cut off \boxed{", ""), (r"<think>\boxed{5}</think>\boxed{6}", "6"), (r"<think>\boxed{5}", "")])
def test_marked(text: str, answer: str) -> None:
    assert marked_answer(text) == answer
    assert final_answer(text) == (answer or text)


@pytest.mark.parametrize(("text", "steps", "answer"), [
    ("Two plus two.\nSo \\boxed{4}.", ("Two plus two.",), "4"),
    ("Two plus two.\nThat makes \\boxed{4} apples.", ("Two plus two.", "That makes \\boxed{4} apples."), "4"),
    ("a=1\n\\[\\boxed{\\frac{1}{2}}\\]", ("a=1",), "\\frac{1}{2}"), ("The final answer is: $\\boxed{5}$.", (), "5"),
    ("<think>x</think>\\boxed{7}", ("x",), "7"), ("<think>x</think>It is \\boxed{7} then.", ("x",),
                                                   "It is \\boxed{7} then."),
    ("x\n#### \\boxed{3}", ("x",), "3"), ("[THINK]hm\nok[/THINK]\n12", ("hm", "ok"), "12"),
    ("<thinking>hm</thinking>12", ("hm",), "12"), ("Say <thinking> aloud.", (), "Say <thinking> aloud."),
    ("\n<|channel>thought\na\n#### b\n<think>\n<channel|> 2 ", ("a", "#### b", "<think>"), "2"),
    ("<|channel>thought\n<channel|>2", (), "2")])
def test_an_import_takes_the_answer_that_a_score_finds(text: str, steps: tuple[str, ...], answer: str) -> None:
    assert split_any(text) == (steps, answer)
    assert same_answer(final_answer(text.rpartition("THINK]")[2]), final_answer(answer)) or not marked_answer(text)


def test_thinking_that_is_broken_is_refused() -> None:
    for text in ("no</thinking>12", "a<thinking>b</thinking>c", "<thinking>a</thinking><thinking>b</thinking>c",
                 "<|channel>thought\nopen", "2<channel|>", "a<|channel>thought\nb\n<channel|>c"):
        with pytest.raises(ValueError, match="not one block of thinking"):
            split_any(text)


def test_a_line_with_words_beside_the_box_stays() -> None:
    assert before_box("a\nThus the answer is \\boxed{5}.") == "a"
    assert before_box("a\nShe has \\boxed{5} left.") == "a\nShe has \\boxed{5} left."


# --- pairs and verdicts -----------------------------------------------------------------------------------------------

def test_texts_that_begin_alike_part_between_words(tmp_path: Path) -> None:
    _, [pair] = imported(tmp_path, "chosen-rejected", {"chosen": "The sky is blue.", "rejected": "The sky is green."})
    assert (pair.prompt, pair.chosen, pair.rejected) == ("The sky is", "blue.", "green.")


def test_earlier_turns_of_pairs_become_history(tmp_path: Path) -> None:
    earlier = f"{DIALOGUE}{RIGHT}\n\nHuman: Why?\n\nAssistant: "
    _, [pair] = imported(tmp_path, "hh", {"chosen": f"{earlier}Rayleigh.", "rejected": f"{earlier}No idea."})
    earlier_turns = turns(("user", ASKED), ("assistant", RIGHT))
    assert (pair.history, pair.prompt, pair.chosen, pair.rejected) == (earlier_turns, "Why?", "Rayleigh.", "No idea.")
    conversation = [{"from": "human", "value": ASKED}, {"from": "gpt", "value": RIGHT},
                    {"from": "human", "value": "Why?"}]
    _, [pair] = imported(tmp_path, "llamafactory", {**SHAREGPT, "system": "Be short.", "conversations": conversation})
    assert (pair.history, pair.prompt) == ((*turns(("system", "Be short.")), *earlier_turns), "Why?")
    _, [pair] = imported(tmp_path, "preferences", pair.to_json())
    assert pair.history == (*turns(("system", "Be short.")), *earlier_turns)


def test_every_record_stands_alone(tmp_path: Path) -> None:
    _, verdicts = imported(
        tmp_path, "kto", {"messages": [user("a"), bot("b"), user("c"), bot("1")], "label": True},
        {"messages": [user("c"), bot("2")], "label": True}, {"messages": [user("c"), bot("3")], "label": False})
    assert [(one.prompt, one.completion, one.label, len(one.history)) for one in verdicts] == [
        ("c", "1", True, 2), ("c", "2", True, 0), ("c", "3", False, 0)]


@pytest.mark.parametrize(("line", "said"), [
    ('{"id": "a", "prompt": "1?", "completion": "2"}', "`label` is missing"),
    ('{"id": "a", "prompt": "1?", "completion": "2", "label": null}', "must be true or false, not null"),
    ('{"id": "a", "prompt": "1?", "completion": " ", "label": true}', "`completion` is empty"), ("", "is empty")])
def test_a_file_of_verdicts_that_is_none(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "verdicts.jsonl").write_text(line)
    with pytest.raises(RequestError) as caught:
        read_verdicts(tmp_path / "verdicts.jsonl")
    assert said in str(caught.value)
