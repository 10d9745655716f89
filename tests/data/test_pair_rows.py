"""Rows of pairs against arrays written out by hand, and what a pair must hold to give them."""

import hashlib
from dataclasses import replace

import pytest

from tests.data.making import config, tokenizer_for
from workings.data.generators import addition
from workings.data.pair_rows import PairRows, build_pair_rows, pair_ids, pair_problems
from workings.data.preferences import PreferencePair
from workings.data.rows import build_rows
from workings.data.traces import Trace
from workings.errors import RecordError, RequestError
from workings.models.chat import ChatTemplate

TRACES, _ = addition.make(200, 10, seed=0)
TOKENIZER = tokenizer_for(TRACES, 384)
TEMPLATE = ChatTemplate.for_config("gemma", TOKENIZER)
PAIR = PreferencePair(id="p", prompt="What is 4+2?", chosen="4+2=6", rejected="7")


def rows_of(*pairs: PreferencePair, **keys: object) -> PairRows:
    return build_pair_rows(pairs, TOKENIZER, TEMPLATE, config(**keys))


def test_a_pair_by_hand() -> None:
    made = rows_of(PAIR)
    prompt = ["<bos>", "<start_of_turn>", "user", "\n", "What▁", "is▁", "4", "+", "2", "?", "<end_of_turn>", "\n",
              "<start_of_turn>", "model", "\n"]
    completions = [["4", "+", "2", "=", "6", "<end_of_turn>"], ["7", "<end_of_turn>"]]
    for row, completion in zip(made.rows.rows[:2], completions, strict=True):
        assert [TOKENIZER.token(token) for token in row.tokens] == prompt + completion
        assert row.loss_mask.tolist() == [0] * 15 + [1] * len(completion)
    asked = hashlib.sha256(b"what is 4+2?").hexdigest()
    assert [(line["id"], line["status"], line["tokens"], line["supervised_tokens"], line["prompt_digest"])
            for line in made.rows.index] == [("p/chosen", "kept", 21, 6, asked), ("p/rejected", "kept", 17, 2, asked)]
    assert (made.ids, made.lengths.tolist()) == (["p"], [21])


def test_a_completion_gives_the_row_that_a_trace_with_this_answer_gives() -> None:
    turns = (("user", "What is 1+1?"), ("assistant", "2"))
    trace = Trace(id="p/chosen", prompt=PAIR.prompt, steps=(), answer=PAIR.chosen, history=turns)
    expected = build_rows([trace], TOKENIZER, TEMPLATE, config(reasoning="answer_only")).rows[0]
    assert rows_of(replace(PAIR, history=turns), reasoning="think").rows.rows[0].digest == expected.digest


def test_pairs_stay_in_their_order_side_by_side() -> None:
    made = rows_of(replace(PAIR, id="b"), replace(PAIR, id="a", chosen="6", rejected="4+2=7"))
    assert made.rows.ids == ["b/chosen", "b/rejected", "a/chosen", "a/rejected"]
    assert (made.ids, made.lengths.tolist()) == (["b", "a"], [21, 21])
    assert made.rows.lengths.tolist() == [21, 17, 17, 21]
    assert pair_ids(made.rows.ids) == ["b", "a"]


@pytest.mark.parametrize("ids", [["a/chosen"], ["a/rejected", "a/chosen"], ["a/chosen", "b/rejected"], ["a", "b"]])
def test_rows_that_are_not_in_pairs_are_refused(ids: list[str]) -> None:
    with pytest.raises(RecordError, match="not in pairs"):
        pair_ids(ids)


def test_a_pair_is_kept_whole_or_dropped_whole() -> None:
    long = replace(PAIR, id="long", rejected="1+1=2 " * 12 + "6")
    with pytest.raises(RequestError, match=r"pair long: \d+ tokens in its longer row, and data.max_length is 48"):
        rows_of(PAIR, long)
    made = rows_of(PAIR, long, over_length="drop")
    assert made.ids == ["p"]
    assert [(gone["id"], gone["status"]) for gone in made.rows.index[2:]] == [
        ("long/chosen", "dropped"), ("long/rejected", "dropped")]
    assert made.rows.index[2]["tokens"] == 21
    assert "its pair has" in made.rows.index[2]["reason"]
    with pytest.raises(RequestError, match="no pair of 1 gives rows"):
        rows_of(long, over_length="drop")


@pytest.mark.parametrize(("changed", "reason"), [
    ({"rejected": PAIR.chosen}, "pair p: both completions are the same 6 tokens"),
    ({"rejected": "7<end_of_turn>"}, "pair p: rejected: its text has control tokens: <end_of_turn>"),
    ({"chosen": "<bos>6"}, "pair p: chosen: its text has control tokens: <bos>"),
    ({"prompt": "x<eos>"}, "pair p: chosen: its text has control tokens: <eos>"),
    ({"rejected": "7\n"}, "pair p: rejected: its completion has white space around it"),
])
def test_what_must_not_be_learned_from(changed: dict[str, str], reason: str) -> None:
    wrong = replace(PAIR, **changed)
    with pytest.raises(RequestError, match=reason):
        rows_of(wrong)
    fine = replace(PAIR, id="fine")
    [(name, said)] = pair_problems([fine, wrong], TOKENIZER, TEMPLATE, config())
    assert (name, f"pair p: {said}".startswith(reason)) == ("p", True)

