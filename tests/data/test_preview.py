"""What the preview shows of rows, lengths and batches, against counts by hand."""

import pytest

from workings.config.data import DataConfig
from workings.data.batches import Batches
from workings.data.preview import marked, pieces, summarize
from workings.data.rows import RowSet, build_rows
from workings.data.traces import Trace
from workings.data.vocabulary import tokenizer_for
from workings.models.chat import ChatTemplate

TRACE = Trace(id="one", prompt="What is 1+1?", steps=("1+1=2",), answer="2")
TOKENIZER = tokenizer_for([TRACE], 320)
TEMPLATE = ChatTemplate.for_config("gemma", TOKENIZER)


def rows(*traces: Trace, **keys: object) -> RowSet:
    return build_rows(traces, TOKENIZER, TEMPLATE, DataConfig(traces="x", **({"max_length": 64} | keys)))


def test_learned_tokens_stand_between_marks_and_nothing_is_hidden() -> None:
    [row] = rows(TRACE).rows
    parts = pieces(row, TOKENIZER)
    assert marked(parts) == ("<bos><start_of_turn>user⏎What is 1+1?<end_of_turn>⏎<start_of_turn>model⏎"
                             "«<reasoning>1+1=2</reasoning><answer>2</answer><end_of_turn>»")
    assert len(parts) == len(row.tokens)
    assert [part.text for part in parts if part.control] == [
        "<bos>", "<start_of_turn>", "<end_of_turn>", "<start_of_turn>", "<end_of_turn>"]
    assert sum(part.learned for part in parts) == row.supervised_tokens


def test_bytes_of_a_character_keep_their_names() -> None:
    trace = Trace(id="x", prompt="ü?", steps=("ü",), answer="漢")
    [row] = rows(trace).rows
    assert "<0xC3><0xBC>" in marked(pieces(row, TOKENIZER))


def test_the_summary_counts_what_is_there() -> None:
    longer = [Trace(id=f"t{number}", prompt="What is 1+1?", steps=("1+1=2",) * (number + 1), answer="2")
              for number in range(6)]
    found = rows(TRACE, *longer, over_length="drop", max_length=48)
    lengths = sorted(len(row.tokens) for row in found.rows)
    config = DataConfig(traces="x", max_length=48, over_length="drop")
    batches = Batches(found, seed=0, rows_per_micro_batch=2, accumulation=2, data_config=config)
    summary = summarize(found, batches)
    assert summary.rows + summary.dropped == 7
    assert summary.dropped > 0
    assert (summary.shortest, summary.longest) == (lengths[0], lengths[-1])
    assert sum(count for *_, count in summary.histogram) == summary.rows
    for low, high, count in summary.histogram:
        assert count == sum(low <= length <= high for length in lengths)
    positions = summary.steps_an_epoch * 2 * 2 * 48
    assert summary.padding_share == pytest.approx(1 - sum(lengths) / positions)
    assert summary.to_json()["dropped_share"] == pytest.approx(summary.dropped / 7)
    assert f"dropped as too long: {summary.dropped} ({summary.dropped / 7:.1%})" in summary.text()


def test_rows_of_one_length_give_one_bar() -> None:
    found = rows(TRACE)
    config = DataConfig(traces="x", max_length=64)
    summary = summarize(found, Batches(found, seed=0, rows_per_micro_batch=1, accumulation=1, data_config=config))
    assert summary.histogram == ((len(found.rows[0].tokens), len(found.rows[0].tokens), 1),)
    assert summary.text().count("█") == 32
