"""Raw texts: read from JSON lines and text files, learned whole, and measured by nothing but a loss."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.data.making import imported_file, rejection, tokenizer_for
from workings.config.data import DataConfig
from workings.config.load import load_recipe
from workings.data.checking.findings import ReadFile
from workings.data.checking.run import check
from workings.data.importing.sources import END_OF_TEXT
from workings.data.preview import Turn, entries_by_row, marked, pieces, turns_of
from workings.data.rows import RowSet, build_rows, example_id
from workings.data.traces import Trace, trace_from_json, write_traces
from workings.errors import RequestError
from workings.evidence.verify import verify
from workings.inputs.datasets import find_data
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record.reader import RunRecord
from workings.runs.train import train

TEXTS = [Trace(id=f"t{i}", prompt="", steps=(), answer=f"The {i}th day was  colder\nthan day {i - 1}.")
         for i in range(24)]
TOKENIZER = tokenizer_for(TEXTS, 300)


def rows_of(*texts: Trace, template: str = "plain", reasoning: str = "answer_only", max_length: int = 64,
            over_length: str = "error") -> RowSet:
    config = DataConfig(traces="x", template=template, reasoning=reasoning, max_length=max_length,
                        over_length=over_length)
    return build_rows(texts, TOKENIZER, ChatTemplate.for_config(template, TOKENIZER, reasoning), config)


def test_rows_of_json_lines_are_found_by_their_key_and_keep_their_text(tmp_path: Path) -> None:
    file = tmp_path / "web.jsonl"
    file.write_text(json.dumps({"text": "  Two\n\nparts. ", "url": "u"}) + "\n")
    result, [text] = imported_file(file, "")
    assert (result.format, dict(result.kept)) == ("text", {"url": 1})
    assert (text.answer, text.is_text, text.id) == ("  Two\n\nparts. ", True, "web-0000001")
    assert trace_from_json(text.to_json()) == text


@pytest.mark.parametrize(("record", "reason"), [
    ({"text": "a", "question": "b"}, "`question` next to `text`"),
    ({"text": "a", "messages": [{"role": "user", "content": "b"}]}, "`messages` next to `text`"),
    ({"text": " "}, "`text` is empty"), ({"text": ["a"]}, "must be a text"),
    ({"text": "a", "image": "x.png"}, "an image (`image`) in the record: only text can be learned from"),
    ({"text": "a", "context": "A long winter."}, "`context` looks like what the answer depends on")])
def test_a_record_that_is_more_or_less_than_a_text_is_refused(tmp_path: Path, record: object, reason: str) -> None:
    assert reason in rejection(tmp_path, "text", record)


def test_a_text_file_is_one_text_or_several_with_a_mark_between_them(tmp_path: Path) -> None:
    file = tmp_path / "book.txt"
    file.write_bytes("\ufeffOne,\r\nlong.\r\n".encode() + f"{END_OF_TEXT}\n\n{END_OF_TEXT}\n[Two] ü".encode())
    assert [(text.id, text.answer) for text in imported_file(file, "text")[1]] == [
        ("book-0000001", "One,\nlong."), ("book-0000003", "[Two] ü")]
    file.write_text("Alone.\nAll of it.")
    assert [text.answer for text in imported_file(file, "text")[1]] == ["Alone.\nAll of it."]
    file.write_bytes(b"Alone \xff")
    with pytest.raises(RequestError, match="not UTF-8 at byte 7"):
        imported_file(file, "text", on_error="fail")
    file.write_text("Alone.")
    with pytest.raises(RequestError, match="--hold-out does not work with --format text"):
        imported_file(file, "text", hold_out=1)


def test_every_token_behind_bos_is_learned_to_the_end_of_text() -> None:
    rows = rows_of(*TEXTS)
    for text, row in zip(TEXTS, rows.rows, strict=True):
        assert row.tokens.tolist() == [TOKENIZER.bos_id, *TOKENIZER.encode(text.answer), TOKENIZER.eos_id]
        assert row.loss_mask.tolist() == [0] + [1] * (len(row.tokens) - 1)
        assert marked(pieces(row, TOKENIZER)).startswith("<bos>«")
        assert turns_of(text, row) == [Turn("text", len(row.tokens) - 1)]
    assert rows.whole == len({row.prompt_digest for row in rows.rows}) == 24
    assert "learned_turns" not in rows.index[0]


def test_a_model_without_bos_learns_all_that_something_predicts() -> None:
    without = Tokenizer(TOKENIZER.backend, {**TOKENIZER.settings, "bos_token": None})
    template = ChatTemplate.for_config("plain", without)
    config = DataConfig(traces="x", template="plain", reasoning="answer_only", max_length=64)
    [row] = build_rows(TEXTS[:1], without, template, config).rows
    assert row.tokens.tolist() == [*TOKENIZER.encode(TEXTS[0].answer), TOKENIZER.eos_id]
    assert row.loss_mask.tolist() == [0] + [1] * (len(row.tokens) - 1)


def test_a_long_text_is_split_so_that_each_token_is_learned_once() -> None:
    long = replace(TEXTS[0], answer=" ".join(text.answer for text in TEXTS))
    [whole] = rows_of(long, max_length=4096).rows
    for limit in (8, 64, len(whole.tokens) - 1, len(whole.tokens)):
        rows = rows_of(*([long, TEXTS[1]] if limit == 64 else [long]), max_length=limit, over_length="split")
        parts = [row for row in rows.rows if example_id(row.id) == "t0"]
        assert max(len(row.tokens) for row in parts) <= limit
        learned = [token for row in parts for token in row.tokens[row.loss_mask == 1].tolist()]
        assert learned == whole.tokens[1:].tolist()
        assert all(row.tokens[0] == before.tokens[-1] for before, row in pairwise(parts))
        assert [row.id for row in parts] == (["t0"] if limit == len(whole.tokens) else [
            f"t0/part-{number}" for number in range(1, len(parts) + 1)])
        assert rows.whole == len(rows.rows)
        assert list(entries_by_row([long, TEXTS[1]], rows)) == rows.ids
    with pytest.raises(RequestError, match=r"for raw texts, data\.over_length=split"):
        rows_of(long)
    question = Trace(id="q", prompt="1+1?" * 40, steps=(), answer="2")
    with pytest.raises(RequestError, match="trace q: "):
        rows_of(question, over_length="split")


def test_turns_and_steps_are_no_form_of_a_raw_text() -> None:
    for keys in ({"template": "gemma"}, {"reasoning": "tags"}):
        with pytest.raises(RequestError, match="t0 is a raw text, and the recipe has"):
            rows_of(TEXTS[0], **keys)
    forged = replace(TEXTS[0], answer="stop here<eos>and go on")
    with pytest.raises(RequestError, match="its text has control tokens: <eos>"):
        rows_of(forged)


def test_the_check_finds_a_text_twice_and_calls_none_a_contradiction() -> None:
    again = replace(TEXTS[0], id="again")
    report = check(ReadFile(list(enumerate([*TEXTS, again])), [], 25))
    assert report.counts["duplicate"] == 1
    assert not {"conflict", "no_steps"} & report.counts.keys()


def overrides_in(folder: Path) -> list[str]:
    """For `smoke-tiny`: raw texts in both kinds of file."""
    write_traces(folder / "texts.jsonl", TEXTS[:20])
    (folder / "held_out.txt").write_text(f"\n{END_OF_TEXT}\n".join(text.answer for text in TEXTS[20:]))
    return [f"data.traces={folder / 'texts.jsonl'}", "data.template=plain", "engine=torch",
            f"evaluation={{traces: {folder / 'held_out.txt'}, items: none, every_steps: 2}}", "training.steps=4",
            "data.reasoning=answer_only"]


def test_recipes_read_both_kinds_of_file_and_ask_no_question_of_a_text(tmp_path: Path) -> None:
    words = overrides_in(tmp_path)
    data = find_data(load_recipe("smoke-tiny", words))
    assert list(data.examples) == TEXTS[:20]
    assert [text.answer for text in data.held_out] == [text.answer for text in TEXTS[20:]]
    with pytest.raises(RequestError, match="prompt"):
        find_data(load_recipe("smoke-tiny", [*words, f"evaluation.items={tmp_path / 'texts.jsonl'}"]))


@pytest.mark.slow
def test_a_run_says_that_every_token_is_learned_and_claims_no_skill(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train("smoke-tiny", tmp_path / "run", overrides_in(tmp_path))
    assert "every token of 20 rows learned" in (said := capsys.readouterr().err)
    assert "held-out texts (`evaluation.traces`)" in said
    losses = [line.get("evaluation_loss", 0) for line in RunRecord.open(tmp_path / "run").metrics()]
    assert [loss > 0 for loss in losses] == [False, True, False, True]
    found = verify(tmp_path / "run")
    assert found.level == 1
    [rows] = [check.text for check in found.checks if check.id == "consistency.rows"]
    assert "20 rows, 20 of these learned whole" in rows
    assert not [check for check in found.checks if check.verdict == "failed"]
    assert "accuracy" not in (tmp_path / "run" / "README.md").read_text()
