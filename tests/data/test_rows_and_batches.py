"""Rows and batches against arrays written out by hand, and the proofs that each row must pass."""

import hashlib
import re
import struct
from dataclasses import replace

import numpy as np
import pytest

from tests.data.making import batches, config, row, row_set, tokenizer_for
from workings.data.batches import Batches, Position, fixed_batches, make_batch
from workings.data.generators import addition
from workings.data.rows import RowSet, build_rows
from workings.data.traces import Trace, completion_text
from workings.errors import RecordError, RequestError
from workings.models.chat import ChatTemplate
from workings.models.turns import Asked, Turn

TRACES, _ = addition.make(200, 10, seed=0)
TOKENIZER = tokenizer_for(TRACES, 384)
TEMPLATE = ChatTemplate.for_config("gemma", TOKENIZER)


# --- rows ---------------------------------------------------------------------------------------------------------

def test_a_row_by_hand() -> None:
    trace = Trace(id="add-47-25", prompt="What is 47+25?", steps=addition.worked_steps(47, 25), answer="72")
    rows = build_rows([trace], TOKENIZER, TEMPLATE, config())
    only = rows.rows[0]
    spelled = [TOKENIZER.token(token) for token in only.tokens]
    prompt = ["<bos>", "<start_of_turn>", "user", "\n", "What▁", "is▁", "4", "7", "+", "2", "5", "?", "<end_of_turn>",
              "\n", "<start_of_turn>", "model", "\n"]
    completion = ["<reasoning>", "7", "+", "5", "=", "1", "2", ",▁", "write▁", "2", "▁", "carry▁", "1", "\n",
                  "4", "+", "2", "+", "1", "=", "7", "</reasoning>", "<answer>", "7", "2", "</answer>",
                  "<end_of_turn>"]
    assert spelled == prompt + completion
    assert only.loss_mask.tolist() == [0] * len(prompt) + [1] * len(completion)
    assert (only.supervised_tokens, rows.total_tokens, rows.supervised_tokens) == (27, 44, 27)
    expected = hashlib.sha256(struct.pack("<44i", *only.tokens) + bytes([0] * 17 + [1] * 27)).hexdigest()
    assert only.digest == expected
    assert rows.index == [{"id": "add-47-25", "status": "kept", "digest": expected, "tokens": 44,
                           "supervised_tokens": 27,
                           "prompt_digest": hashlib.sha256(b"what is 47+25?").hexdigest()}]


@pytest.mark.parametrize(("style", "text"), [
    ("tags", "<reasoning>7+5=12\n4+2+1=7</reasoning><answer>72</answer>"),
    ("think", "<think>\n7+5=12\n4+2+1=7\n</think>\n\n72"),
    ("hashes", "7+5=12\n4+2+1=7\n#### 72"),
    ("answer_only", "72"),
])
def test_renderings(style: str, text: str) -> None:
    trace = Trace(id="x", prompt="What is 47+25?", steps=("7+5=12", "4+2+1=7"), answer="72")
    assert completion_text(trace, style) == text
    rows = build_rows([trace], TOKENIZER, TEMPLATE, config(reasoning=style))
    learned = rows.rows[0].tokens[rows.rows[0].loss_mask == 1]
    assert TOKENIZER.decode(learned.tolist()) == text + "<end_of_turn>"


def test_a_style_that_shows_steps_needs_steps() -> None:
    trace = Trace(id="x", prompt="p", steps=(" ",), answer="2")
    assert completion_text(trace, "answer_only") == "2"
    with pytest.raises(RequestError, match="trace x has no steps"):
        completion_text(trace, "tags")
    with pytest.raises(RequestError, match="one of tags, think"):
        completion_text(TRACES[0], "tag")


@pytest.mark.parametrize("completion", ["4", " 4", "<think>\n4", "", "4<end_of_turn>"])
def test_a_filled_example_is_what_the_template_renders(completion: str) -> None:
    for asked in (Asked.of("2+2?\n"), Asked.of("a", [("system", " b "), ("user", "c"), ("assistant", "d")])):
        read = TEMPLATE.read_text(asked)
        try:
            expected = TEMPLATE.learned_text(asked, Turn("assistant", completion), read)
        except RequestError as error:
            with pytest.raises(RequestError, match=re.escape(error.given)):
                TEMPLATE.read_and_learned(asked, completion)
        else:
            assert TEMPLATE.read_and_learned(asked, completion) == (read, expected)


def test_the_row_sets_digest_does_not_depend_on_the_files_order() -> None:
    forwards = build_rows(TRACES, TOKENIZER, TEMPLATE, config())
    backwards = build_rows(TRACES[::-1], TOKENIZER, TEMPLATE, config())
    assert forwards.digest == backwards.digest
    assert build_rows(TRACES[1:], TOKENIZER, TEMPLATE, config()).digest != forwards.digest


def test_a_long_row_is_an_error_or_a_listed_drop() -> None:
    long = Trace(id="long", prompt="What is 1+1?", steps=("1+1=2 " * 20,), answer="2")
    with pytest.raises(RequestError, match=r"trace long: \d+ tokens, and data.max_length is 48"):
        build_rows([TRACES[0], long], TOKENIZER, TEMPLATE, config())
    # Of several the longest: the limit that it asks for takes all of them.
    longer = Trace(id="longer", prompt="What is 1+1?", steps=("1+1=2 " * 25,), answer="2")
    with pytest.raises(RequestError, match=r"trace longer: (\d+) tokens.*; 2 of 3 are too long(?s:.*)max_length=\1 "):
        build_rows([long, longer, TRACES[0]], TOKENIZER, TEMPLATE, config())
    rows = build_rows([TRACES[0], long], TOKENIZER, TEMPLATE, config(over_length="drop"))
    assert [kept.id for kept in rows.rows] == [TRACES[0].id]
    assert [(gone["id"], gone["status"]) for gone in rows.index[1:]] == [("long", "dropped")]
    with pytest.raises(RequestError, match="no trace of"):
        build_rows([long], TOKENIZER, TEMPLATE, config(over_length="drop"))


@pytest.mark.parametrize("field", ["prompt", "answer", "steps"])
@pytest.mark.parametrize("token", ["<end_of_turn>", "<bos>", "<eos>"])
def test_text_cannot_forge_a_turn(field: str, token: str) -> None:
    texts = {"prompt": "p", "answer": "2", "steps": ("s",)}
    texts[field] = (f"s{token}",) if field == "steps" else f"x{token}y"
    with pytest.raises(RequestError, match=f"trace bad: .*{token}"):
        build_rows([Trace(id="bad", **texts)], TOKENIZER, TEMPLATE, config())


def test_repeated_ids_are_refused() -> None:
    with pytest.raises(RequestError, match="twice"):
        build_rows([TRACES[0], TRACES[0]], TOKENIZER, TEMPLATE, config())


# --- batches ------------------------------------------------------------------------------------------------------

def test_arrays_by_hand() -> None:
    batch = make_batch([[row("a", [5, 6, 7, 8], 2), row("b", [9, 10], 1)], []], (1, 2), 8, 99)
    assert batch.tokens.tolist() == [[[5, 6, 7, 8, 9, 10, 99, 99], [99] * 8]]
    assert batch.targets.tolist() == [[[0, 7, 8, 0, 10, 0, 0, 0], [0] * 8]]
    assert batch.loss_mask.tolist() == [[[0, 1, 1, 0, 1, 0, 0, 0], [0] * 8]]
    assert batch.positions.tolist() == [[[0, 1, 2, 3, 0, 1, 0, 0], [0] * 8]]
    assert batch.segment_ids.tolist() == [[[1, 1, 1, 1, 2, 2, 0, 0], [0] * 8]]
    assert (batch.supervised_tokens, batch.real_tokens) == (3, 6)
    whole = (batch.tokens, batch.targets, batch.positions, batch.segment_ids)
    assert {array.dtype.name for array in whole} == {"int32"}
    assert batch.loss_mask.dtype == np.float32


def test_the_digest_of_a_batch_by_hand() -> None:
    batch = make_batch([[row("a", [5, 6], 1), row("b", [7, 8, 9], 2)], []], (1, 2), 6, 0)
    one = hashlib.sha256(struct.pack("<2i", 5, 6) + bytes([0, 1])).hexdigest()
    other = hashlib.sha256(struct.pack("<3i", 7, 8, 9) + bytes([0, 0, 1])).hexdigest()
    assert Batches.digest(batch) == hashlib.sha256(f"1,2,6\n{one} {other}\n\n".encode()).hexdigest()
    tampered = replace(batch, tokens=np.where(batch.tokens == 8, 4, batch.tokens))
    assert Batches.digest(tampered) != Batches.digest(batch)


@pytest.mark.parametrize("keys", [{}, {"buckets": ()}, {"buckets": (6, 9)}, {"packing": "first_fit"},
                                  {"packing": "best_fit"}])
def test_every_row_once_an_epoch_all_shapes_announced_and_all_supervised_positions_kept(keys: dict[str, object]
                                                                                        ) -> None:
    lengths = [3 + number * 7 % 12 for number in range(45)]
    source = batches(lengths, b=3, a=2, **keys)
    row_digests = {one.id: one.digest for one in row_set(lengths).rows}
    found: dict[int, int] = {}
    position = Position()
    for epoch in range(3):
        seen, supervised = [], 0
        while position.epoch == epoch:
            seen += [row_id for sequence in source.row_ids(position) for row_id in sequence]
            expected = source.digest_at(position, row_digests)
            batch, position = source.at(position)
            assert Batches.digest(batch) == expected, "it follows from the row index"
            supervised += batch.supervised_tokens
            assert batch.tokens.shape in source.shapes()
            length = batch.tokens.shape[2]
            most = int(np.count_nonzero(batch.loss_mask, axis=-1).max())
            assert most <= source.most_supervised(length) <= length
            if source.most_supervised(length) == length:
                assert batch.loss_positions is None
            else:
                assert batch.loss_positions is not None
                assert batch.loss_positions.shape == (2, 3, source.most_supervised(length))
                kept = np.take_along_axis(batch.loss_mask, batch.loss_positions, axis=-1)
                assert (kept.sum(-1) == batch.loss_mask.sum(-1)).all()
            found[length] = max(most, found.get(length, 0))
        assert sorted(seen) == sorted(f"r{number}" for number in range(45))
        assert supervised == sum(length - 2 for length in lengths)
    assert source.shapes() == sorted(source.shapes(), reverse=True)
    # The bound is reached where a sequence is a row.
    if "packing" not in keys:
        assert found == {length: source.most_supervised(length) for length in found}


@pytest.mark.parametrize(("rows", "shared"), [
    ([([5, 6, 7, 8, 9], 4), ([5, 6, 7, 1, 2], 4)], 3),  # a question differs
    ([([5, 6, 7, 8, 9], 4), ([5, 6, 7, 8, 2], 4)], 3),  # the last of the prompt predicts a learned token
    ([([5, 6, 7, 8, 9], 4), ([5, 6, 7, 8, 9], 2)], 1),
    ([([5, 6], 1), ([5, 6, 7, 8, 9], 4)], 0),
    ([([5, 6, 7, 8, 9], 4), ([1, 6, 7, 8, 9], 4)], 0),
    ([([5, 6, 7, 8, 9], 4)], 3),
    ([], 0),
])
def test_the_prefix_that_rows_share_ends_before_what_is_learned(rows: list[tuple[list[int], int]], shared: int) -> None:
    made = RowSet(tuple(row(f"r{number}", *each) for number, each in enumerate(rows)), (), 0, 16)
    assert made.shared_prefix == shared


def test_buckets_keep_lengths_together() -> None:
    source = batches([4, 4, 4, 4, 15, 15, 15, 15], b=4, buckets=(4,))
    assert source.shapes() == [(1, 4, 16), (1, 4, 4)]
    assert sorted(source.at(Position(0, number))[0].tokens.shape[2] for number in range(2)) == [4, 16]
    assert source.padding_share() == pytest.approx(1 - 76 / 80)


def test_the_split_into_micro_batches_does_not_change_the_rows() -> None:
    lengths = [3 + number % 9 for number in range(40)]
    wide, deep = batches(lengths, b=8), batches(lengths, b=2, a=4)
    assert len(wide.shapes()) == 2
    for number in range(wide.batches_in_epoch(0)):
        one, _ = wide.at(Position(0, number))
        four, _ = deep.at(Position(0, number))
        assert np.array_equal(one.tokens.reshape(8, -1), four.tokens.reshape(8, -1))


def test_a_position_goes_through_a_checkpoint() -> None:
    source = batches([5] * 10, b=4)
    _, second = source.at(Position())
    again = Position.from_json(second.to_json())
    assert Batches.digest(source.at(again)[0]) == Batches.digest(batches([5] * 10, b=4).at(Position(0, 1))[0])
    for wrong in ({}, {"epoch": -1, "batch": 0}, {"epoch": 0, "batch": True}, {"epoch": 0, "batch": "1"}):
        with pytest.raises(RecordError, match="data position"):
            Position.from_json(wrong)
    with pytest.raises(RecordError, match="belongs to other data"):
        source.at(Position(0, 3))


def test_evaluation_batches_keep_the_files_order() -> None:
    rows = row_set([5, 3, 9, 4, 12])
    found = fixed_batches(rows, 2, config(max_length=16, buckets=(6, 10)))
    assert [batch.tokens.shape for batch in found] == [(1, 2, 6), (1, 2, 10), (1, 2, 16)]
    assert [(batch.segment_ids[0].max(axis=1) > 0).tolist() for batch in found] == [[True, True], [True, True],
                                                                                    [True, False]]
    assert sum(batch.supervised_tokens for batch in found) == sum(length - 2 for length in (5, 3, 9, 4, 12))


@pytest.mark.parametrize("keys", [{"buckets": (8, 4)}, {"buckets": (4, 4)}, {"buckets": (0,)}, {"buckets": (17,)},
                                  {"buckets": (8,), "packing": "first_fit"}])
def test_buckets_that_promise_nothing_are_refused(keys: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="buckets"):
        config(**({"max_length": 16} | keys))
