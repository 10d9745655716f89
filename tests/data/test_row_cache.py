"""Rows that are kept between runs are the rows that would be made, or are rebuilt."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from workings.config.data import DataConfig
from workings.data import named_sets, row_cache
from workings.data.named_sets import TraceFile, make_kind
from workings.data.row_cache import MAX_CACHED_SETS, cache_key, cached_rows
from workings.data.rows import build_rows
from workings.data.traces import completion_text, write_traces
from workings.models.chat import ChatTemplate
from workings.models.tokenizer_training import train_tokenizer
from workings.record.canonical import line
from workings.record.redact import REDACTED, cleaned

CONFIG = DataConfig(traces="", max_length=44, over_length="drop")


@pytest.fixture(scope="module")
def made():
    traces = make_kind("addition", 60, 10, 1)[0]
    texts = (text for trace in traces for text in (trace.prompt, completion_text(trace, "tags")))
    tokenizer = train_tokenizer(texts, 400)
    template = ChatTemplate.for_config("gemma", tokenizer)
    return tokenizer, template, build_rows(traces, tokenizer, template, CONFIG)


def never(*_):
    raise AssertionError("rebuilt")


def test_second_time_gives_the_same_rows_without_making_them(made, tmp_path):
    assert made[2].dropped, "the case must hold a row that is too long"
    cached_rows(tmp_path, "k", lambda: made[2])
    found = cached_rows(tmp_path, "k", never)
    assert found.index == made[2].index
    assert found.digest == made[2].digest
    assert (found.pad_id, found.max_length) == (made[2].pad_id, made[2].max_length)
    assert bytes(found.index_bytes) == made[2].index_bytes
    assert (found.total_tokens, found.supervised_tokens) == (made[2].total_tokens, made[2].supervised_tokens)
    assert (found.ids, found.lengths.tolist()) == (made[2].ids, made[2].lengths.tolist())
    assert found.supervised.tolist() == made[2].supervised.tolist()
    assert [row.id for row in found.rows[3:5]] + [found.rows[-1].id] == [*made[2].ids[3:5], made[2].ids[-1]]
    for one, other in zip(found.rows, made[2].rows, strict=True):
        assert (one.tokens.dtype, one.loss_mask.dtype) == (np.int32, np.uint8)
        assert one.tokens.tobytes() + one.loss_mask.tobytes() == other.tokens.tobytes() + other.loss_mask.tobytes()
    assert found.shared_prefix == made[2].shared_prefix > 0


def test_traces_are_not_read_where_their_rows_are_kept(made, tmp_path, monkeypatch):
    tokenizer, template, _ = made
    write_traces(tmp_path / "traces.jsonl", make_kind("addition", 60, 10, 1)[0])

    def rows():
        file = TraceFile(tmp_path / "traces.jsonl")
        key = cache_key(file.sha256, tokenizer, template, CONFIG)
        return cached_rows(tmp_path / "rows", key, partial(build_rows, file, tokenizer, template, CONFIG))

    assert rows().digest == made[2].digest
    monkeypatch.setattr(named_sets, "read_traces", never)
    assert rows().digest == made[2].digest
    with (tmp_path / "traces.jsonl").open("a") as file:
        file.write("no trace")
    with pytest.raises(AssertionError, match="rebuilt"):
        rows()


def test_the_index_is_kept_as_the_recorder_would_write_it(made, tmp_path):
    names = (f"hf_{'a' * 30}", f"{Path.home()}/x", "ü")
    rows = replace(made[2], rows=tuple(replace(row, id=name) for row, name in zip(made[2].rows, names, strict=False)))
    kept = bytes(cached_rows(tmp_path, "k", lambda: rows).index_bytes)
    assert kept.decode() == cleaned("".join(line(row).decode() for row in rows.index))
    assert names[0].encode() not in kept
    assert names[1].encode() not in kept
    assert f'"id":"{REDACTED}"'.encode() in kept
    assert kept == bytes(cached_rows(tmp_path, "k", never).index_bytes)


@pytest.mark.parametrize("name", ["tokens.npy", "masks.npy", "starts.npy", "prompt_digests.npy", "rest.json",
                                  "index.jsonl"])
def test_a_changed_byte_is_found_and_the_rows_are_made_again(made, tmp_path, name):
    cached_rows(tmp_path, "k", lambda: made[2])
    content = bytearray((tmp_path / "k" / name).read_bytes())
    content[-2] ^= 1
    (tmp_path / "k" / name).write_bytes(content)
    with pytest.raises(AssertionError, match="rebuilt"):
        cached_rows(tmp_path, "k", never)
    cached_rows(tmp_path, "k", lambda: made[2])
    assert cached_rows(tmp_path, "k", never).digest == made[2].digest


def test_a_half_written_folder_is_made_again(made, tmp_path):
    cached_rows(tmp_path, "k", lambda: made[2])
    (tmp_path / "k" / "facts.json").unlink()
    assert cached_rows(tmp_path, "k", lambda: made[2]).digest == made[2].digest


def test_everything_that_decides_a_row_decides_the_key(made, monkeypatch):
    tokenizer, template, _ = made
    other = train_tokenizer(["other texts 1+1"], 400)
    keys = [cache_key("a", tokenizer, template, CONFIG), cache_key("b", tokenizer, template, CONFIG),
            cache_key("a", other, template, CONFIG),
            cache_key("a", tokenizer, ChatTemplate.for_config("plain", tokenizer), CONFIG),
            *(cache_key("a", tokenizer, template, CONFIG.model_copy(update=change)) for change in (
                {"max_length": 45}, {"over_length": "error"}, {"reasoning": "answer_only"}))]
    monkeypatch.setenv("HOME", "/someone/else")
    keys.append(cache_key("a", tokenizer, template, CONFIG))
    assert len(set(keys)) == len(keys)
    monkeypatch.undo()
    for module in row_cache.CODE_MODULES:
        with monkeypatch.context() as patched:
            patched.setattr(row_cache.inspect, "getsource", lambda other, module=module: str(other is module))
            keys.append(cache_key("a", tokenizer, template, CONFIG))
    assert len(set(keys)) == len(keys)
    assert cache_key("a", tokenizer, template, CONFIG.model_copy(update={"buckets": (8, 44)})) == keys[0]


def test_old_sets_go(made, tmp_path):
    small = replace(made[2], rows=made[2].rows[:2])
    for number in range(MAX_CACHED_SETS + 2):
        cached_rows(tmp_path, f"k{number}", lambda: small)
    assert len(list(tmp_path.iterdir())) == MAX_CACHED_SETS
    assert cached_rows(tmp_path, f"k{MAX_CACHED_SETS + 1}", never).digest == small.digest
