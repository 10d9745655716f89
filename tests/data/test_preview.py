"""What the preview shows of rows, lengths and batches, against counts by hand."""

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from tests.data.making import metaspace_tokenizer, tokenizer_for
from workings.config.data import DataConfig
from workings.data.batches import Batches
from workings.data.preview import marked, pieces, summarize
from workings.data.rows import RowSet, build_rows
from workings.data.traces import Trace
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer

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


@pytest.mark.parametrize("kind", ["byte level", "metaspace"])
def test_tokenizers_of_other_families(kind: str) -> None:
    tokens = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}
    said = ["What is 1+1?", "so the sum is 2"]
    if kind == "metaspace":
        tokenizer = metaspace_tokenizer(said, tokens)
    else:  # as GPT-2, Llama 3 and Qwen have it
        backend = tokenizers.Tokenizer(models.BPE())
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        backend.train_from_iterator(said * 9, trainers.BpeTrainer(
            vocab_size=400, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False))
        tokenizer = Tokenizer(backend, tokens)
    trace = Trace(id="x", prompt="What is 1+1?", steps=("so the sum is 2",), answer="2")
    [row] = build_rows([trace], tokenizer, ChatTemplate.for_config("plain", tokenizer),
                       DataConfig(traces="x", max_length=64, reasoning="hashes")).rows
    shown = marked(pieces(row, tokenizer))
    assert shown.replace("« ", "«").replace("> W", ">W") == (
        "<|endoftext|>What is 1+1?⏎«so the sum is 2⏎#### 2<|endoftext|>»")
    assert row.tokens[0] == row.tokens[-1] == tokenizer.bos_id


def test_the_summary_counts_what_is_there() -> None:
    longer = [Trace(id=f"t{number}", prompt="What is 1+1?", steps=("1+1=2",) * (number + 1), answer="2")
              for number in range(6)]
    found = rows(TRACE, *longer, over_length="drop", max_length=48)
    lengths = sorted(len(row.tokens) for row in found.rows)
    config = DataConfig(traces="x", max_length=48, over_length="drop", buckets=())
    batches = Batches(found, seed=0, rows_per_micro_batch=2, accumulation=2, data_config=config)
    summary = summarize(found, batches, [TRACE, *longer], "last")
    assert summary.rows + summary.dropped == 7
    assert summary.dropped > 0
    assert (summary.shortest, summary.longest) == (lengths[0], lengths[-1])
    assert sum(count for *_, count in summary.histogram) == summary.rows
    for low, high, count in summary.histogram:
        assert count == sum(low <= length <= high for length in lengths)
    positions = summary.steps_an_epoch * 2 * 2 * 48
    assert summary.padding_share == pytest.approx(1 - sum(lengths) / positions)
    assert summary.shared_prefix == summary.to_json()["shared_prefix"] == found.shared_prefix > 0
    assert summary.to_json()["dropped_share"] == pytest.approx(summary.dropped / 7)
    assert f"dropped as too long: {summary.dropped} ({100 * summary.dropped / 7:.1f} %)" in summary.text()
