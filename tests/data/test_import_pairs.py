"""Every format of preference pairs and verdicts with records by hand: what comes out, and why a bad record does not."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.data.conversations import turns
from tests.data.making import imported
from workings.data.importing.formats import PAIR_FORMATS
from workings.data.importing.hints import looks_like
from workings.data.importing.run import ImportResult
from workings.data.preferences import PreferencePair, read_pairs, read_verdicts
from workings.data.row_fields import path_beside
from workings.errors import RequestError

run = partial(imported, read=read_pairs)


def rejected(result: ImportResult) -> list[tuple[int, str]]:
    lines = path_beside(result.out, "rejects.jsonl").read_text().splitlines() if result.rejects else []
    return [(line["line"], line["reason"]) for line in map(json.loads, lines)]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def bot(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


ASKED, GOOD, BAD = "What color is the sky?", "It is blue.", "It is green."
DIALOGUE = f"\n\nHuman: {ASKED}\n\nAssistant: "
BINARIZED = {"prompt": ASKED, "prompt_id": "3fb0", "chosen": [user(ASKED), bot(GOOD)],
             "rejected": [user(ASKED), bot(BAD)], "messages": [user(ASKED), bot(GOOD)],
             "score_chosen": 8.5, "score_rejected": 8}
SHAREGPT = {"conversations": [{"from": "human", "value": ASKED}],
            "chosen": {"from": "gpt", "value": GOOD}, "rejected": {"from": "gpt", "value": BAD}}
RECORDS: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("prompt-chosen-rejected", [{"prompt": ASKED, "chosen": f" {GOOD}", "rejected": f" {BAD}"}], {}),
    ("prompt-chosen-rejected", [{"prompt": [user(ASKED)], "chosen": [bot(GOOD)], "rejected": [bot(BAD)]}], {}),
    ("chosen-rejected", [{"chosen": [user(ASKED), bot(GOOD)], "rejected": [user(ASKED), bot(BAD)]}], {}),
    ("hh", [{"chosen": DIALOGUE + GOOD, "rejected": DIALOGUE + BAD}], {}),
    ("ultrafeedback", [BINARIZED], {"prompt_id": "3fb0", "score_chosen": 8.5, "score_rejected": 8}),
    ("llamafactory", [SHAREGPT], {}),
    ("llamafactory", [{"instruction": ASKED, "input": "", "chosen": GOOD, "rejected": BAD}], {}),
    ("preferences", [{"prompt": ASKED, "chosen": GOOD, "rejected": f"{BAD} "}], {}),
]


@pytest.mark.parametrize(("kind", "records", "metadata"), RECORDS)
def test_every_form_gives_the_same_pair(tmp_path: Path, kind: str, records: list[dict[str, Any]],
                                        metadata: dict[str, Any]) -> None:
    result, pairs = run(tmp_path, kind, *records)
    assert (result.read, result.written, result.rejected) == (len(records), 1, 0)
    assert pairs == [PreferencePair(id="file-0000001", prompt=ASKED, chosen=GOOD, rejected=BAD, metadata=metadata)]


def test_every_format_is_covered() -> None:
    assert {kind for kind, *_ in RECORDS} == set(PAIR_FORMATS)


UNCLEAR: list[tuple[str, Any, str]] = [
    ("prompt-chosen-rejected", {"prompt": "1?", "chosen": "2"}, "`rejected` is missing; the record has `prompt`"),
    ("prompt-chosen-rejected", {"prompt": "1?", "chosen": "2", "rejected": " "}, "`rejected` is empty"),
    ("prompt-chosen-rejected", {"prompt": "1?", "chosen": [bot("2")], "rejected": [bot("3")]}, "a list of turns"),
    ("prompt-chosen-rejected", {"prompt": "1?", "chosen": True, "rejected": "3"}, "`chosen` must be a text, not true"),
    ("prompt-chosen-rejected", {"prompt": [user("1?")], "chosen": [user("2")], "rejected": [bot("3")]}, "last turn"),
    ("prompt-chosen-rejected", {"prompt": [user("1?")], "rejected": [bot("3")],
                                "chosen": [{**bot("2"), "reasoning_content": "x"}]}, "reasoning in a separate field"),
    ("chosen-rejected", {"prompt": "1?", "chosen": "2", "rejected": "3"}, "try --format prompt-chosen-rejected"),
    ("chosen-rejected", {"chosen": [user("1?"), bot("2")], "rejected": [user("2?"), bot("3")]}, "before their last"),
    ("chosen-rejected", {"chosen": "The sky is bluer", "rejected": "The sky is blue now"}, "a word, after 'The"),
    ("chosen-rejected", {"chosen": "The sky", "rejected": "The sky is blue"}, "one text is the beginning of the other"),
    ("chosen-rejected", {"chosen": "A sky", "rejected": "The sky"}, "different beginnings"),
    ("chosen-rejected", {"chosen": "  2", "rejected": "  3"}, "`prompt` is empty"),
    ("hh", {"chosen": "Human: 1?\n\nAssistant: 2", "rejected": "1? 3"}, "`rejected` does not begin with `Human:`"),
    ("hh", {"chosen": DIALOGUE + GOOD, "rejected": DIALOGUE}, "`rejected` is empty"),
    ("hh", {"chosen": DIALOGUE + GOOD, "rejected": f"{DIALOGUE}{BAD}\n\nHuman: Why?"}, "last turn is not"),
    ("hh", {"chosen": DIALOGUE + GOOD, "rejected": f"{DIALOGUE}{BAD}\n\nHuman: No.\n\nAssistant: Oh."}, "before their"),
    ("hh", {"chosen": DIALOGUE + GOOD, "rejected": f"\n\nHuman: a\n\nHuman: b\n\nAssistant: {BAD}"}, "must alternate"),
    ("ultrafeedback", {**BINARIZED, "score_rejected": 8.5}, "score_chosen 8.5 is not above score_rejected 8.5"),
    ("ultrafeedback", {**BINARIZED, "score_rejected": True}, "`score_rejected` must be a number, not true or false"),
    ("ultrafeedback", {**BINARIZED, "prompt": "Another?"}, "`prompt` is not the last question"),
    ("llamafactory", {**SHAREGPT, "chosen": GOOD}, "`chosen` must be an object, not a text"),
    ("llamafactory", {**SHAREGPT, "instruction": ASKED}, "it is unclear which is the question"),
    ("llamafactory", {"instruction": ASKED, "output": GOOD}, "`chosen` is missing"),
    ("preferences", {"prompt": "1?", "chosen": "2", "rejected": "3", "history": [user("0?")], "id": [1]}, "`id` must"),
    ("preferences", {"prompt": "1?", "chosen": "half \ud800", "rejected": "3"}, "half a surrogate pair"),
]


@pytest.mark.parametrize(("kind", "record", "reason"), UNCLEAR)
def test_what_is_no_pair_or_unclear_is_rejected_with_its_reason(tmp_path: Path, kind: str, record: Any, reason: str
                                                                ) -> None:
    good = next(records for known, records, _ in RECORDS if known == kind)
    result, _ = run(tmp_path, kind, *good, record)
    assert (result.written, result.rejected) == (1, 1)
    [(line, said)] = rejected(result)
    assert line == len(good) + 1
    assert reason in said


def test_texts_that_begin_alike_part_between_words(tmp_path: Path) -> None:
    _, [pair] = run(tmp_path, "chosen-rejected", {"chosen": "The sky is blue.", "rejected": "The sky is green."})
    assert (pair.prompt, pair.chosen, pair.rejected) == ("The sky is", "blue.", "green.")


def test_earlier_turns_become_history(tmp_path: Path) -> None:
    earlier = f"{DIALOGUE}{GOOD}\n\nHuman: Why?\n\nAssistant: "
    _, [pair] = run(tmp_path, "hh", {"chosen": f"{earlier}Rayleigh.", "rejected": f"{earlier}No idea."})
    earlier_turns = turns(("user", ASKED), ("assistant", GOOD))
    assert (pair.history, pair.prompt, pair.chosen, pair.rejected) == (earlier_turns, "Why?", "Rayleigh.", "No idea.")
    conversation = [{"from": "human", "value": ASKED}, {"from": "gpt", "value": GOOD},
                    {"from": "human", "value": "Why?"}]
    _, [pair] = run(tmp_path, "llamafactory", {**SHAREGPT, "system": "Be short.", "conversations": conversation})
    assert (pair.history, pair.prompt) == ((*turns(("system", "Be short.")), *earlier_turns), "Why?")
    _, [pair] = run(tmp_path, "preferences", pair.to_json())
    assert pair.history == (*turns(("system", "Be short.")), *earlier_turns)


# --- verdicts of TRL's and LLaMA-Factory's forms, and what is no verdict -------------------------------------------

def verdicts_of(tmp_path: Path, *records: Any) -> tuple[ImportResult, list[Any]]:
    return imported(tmp_path, "kto", *records, read=read_verdicts)


@pytest.mark.parametrize("record", [
    {"prompt": ASKED, "completion": GOOD, "label": False},
    {"prompt": [user(ASKED)], "completion": [bot(GOOD)], "label": False},
    {"messages": [user(ASKED), bot(GOOD)], "label": False},
    {"instruction": ASKED, "output": GOOD, "kto_tag": False},
    {"conversations": [{"from": "human", "value": ASKED}, {"from": "gpt", "value": GOOD}], "kto_tag": False}])
def test_each_form_is_a_verdict(tmp_path: Path, record: dict[str, Any]) -> None:
    assert looks_like(record) == "kto"
    result, [verdict] = verdicts_of(tmp_path, record | {"note": "kept", "license": "MIT"})
    assert (verdict.prompt, verdict.completion, verdict.label) == (ASKED, GOOD, False)
    assert (verdict.licence, verdict.metadata["note"], verdict.id) == ("MIT", "kept", "file-0000001")
    assert (result.read, result.written, result.rejected) == (1, 1, 0)


def test_every_record_stands_alone(tmp_path: Path) -> None:
    """Two completions of one prompt are two verdicts, and earlier turns are kept."""
    result, verdicts = verdicts_of(
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
    result, _ = verdicts_of(tmp_path, {"prompt": ASKED, "completion": GOOD, "label": True}, record)
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
