"""Rows that are kept between runs are the rows that would be made, or are made again."""

from dataclasses import replace

import numpy as np
import pytest

from workings.config.data import DataConfig
from workings.data.render import completion_text
from workings.data.row_cache import MOST_SETS, cache_key, cached_rows
from workings.data.rows import build_rows
from workings.data.sets import make_kinds
from workings.models.chat import ChatTemplate
from workings.models.tokenizer_training import train_tokenizer

CONFIG = DataConfig(traces="", max_length=44, over_length="drop")


@pytest.fixture(scope="module")
def made():
    traces = make_kinds(["addition"], 60, 10, 1)[0]
    texts = (text for trace in traces for text in (trace.prompt, completion_text(trace, "tags")))
    tokenizer = train_tokenizer(texts, 400)
    template = ChatTemplate.for_config("gemma", tokenizer)
    return tokenizer, template, build_rows(traces, tokenizer, template, CONFIG)


def never():
    raise AssertionError("made again")


def test_second_time_gives_the_same_rows_without_making_them(made, tmp_path):
    assert made[2].dropped, "the case must hold a row that is too long"
    cached_rows(tmp_path, "k", lambda: made[2])
    found = cached_rows(tmp_path, "k", never)
    assert found.index == made[2].index
    assert found.digest == made[2].digest
    assert (found.pad_id, found.max_length) == (made[2].pad_id, made[2].max_length)
    for one, other in zip(found.rows, made[2].rows, strict=True):
        assert (one.tokens.dtype, one.loss_mask.dtype) == (np.int32, np.uint8)
        assert one.tokens.tobytes() + one.loss_mask.tobytes() == other.tokens.tobytes() + other.loss_mask.tobytes()


@pytest.mark.parametrize("name", ["tokens.npy", "masks.npy", "starts.npy", "prompt_digests.npy", "rest.json"])
def test_a_changed_byte_is_found_and_the_rows_are_made_again(made, tmp_path, name):
    cached_rows(tmp_path, "k", lambda: made[2])
    content = bytearray((tmp_path / "k" / name).read_bytes())
    content[-2] ^= 1
    (tmp_path / "k" / name).write_bytes(content)
    with pytest.raises(AssertionError, match="made again"):
        cached_rows(tmp_path, "k", never)
    cached_rows(tmp_path, "k", lambda: made[2])
    assert cached_rows(tmp_path, "k", never).digest == made[2].digest


def test_a_half_written_folder_is_made_again(made, tmp_path):
    cached_rows(tmp_path, "k", lambda: made[2])
    (tmp_path / "k" / "facts.json").unlink()
    assert cached_rows(tmp_path, "k", lambda: made[2]).digest == made[2].digest


def test_everything_that_decides_a_row_decides_the_key(made):
    tokenizer, template, _ = made
    other = train_tokenizer(["other texts 1+1"], 400)
    keys = [cache_key("a", tokenizer, template, CONFIG), cache_key("b", tokenizer, template, CONFIG),
            cache_key("a", other, template, CONFIG),
            cache_key("a", tokenizer, ChatTemplate.for_config("plain", tokenizer), CONFIG),
            *(cache_key("a", tokenizer, template, CONFIG.model_copy(update=change)) for change in (
                {"max_length": 45}, {"over_length": "error"}, {"reasoning": "answer_only"}))]
    assert len(set(keys)) == len(keys)
    assert cache_key("a", tokenizer, template, CONFIG.model_copy(update={"buckets": (8, 44)})) == keys[0]


def test_old_sets_go(made, tmp_path):
    small = replace(made[2], rows=made[2].rows[:2])
    for number in range(MOST_SETS + 2):
        cached_rows(tmp_path, f"k{number}", lambda: small)
    assert len(list(tmp_path.iterdir())) == MOST_SETS
    assert cached_rows(tmp_path, f"k{MOST_SETS + 1}", never).digest == small.digest
