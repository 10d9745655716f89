"""Which samples are kept and paired, from lines of predictions written by hand."""

import json
from typing import Any

import pytest

from workings.data.traces import STYLES, Trace, completion_text, split_completion
from workings.errors import RecordError, RequestError
from workings.models.turns import Turn
from workings.samples.selection import PairRule, SampleOrigin, Selection, make_pairs, select

ORIGIN = SampleOrigin(form="tags", source="samples of a 0123", drawn_from="0123")


def row(name: str, number: int, steps: str = "1+1=2", answer: str = "2", *, score: float = 1,
        **more: Any) -> dict[str, Any]:
    text = f"<reasoning>{steps}</reasoning><answer>{answer}</answer>"
    return {"id": name, "sample": number, "prompt": f"q {name}", "gold": "2", "completion": text, "score": score,
            "seed": 7 + number, "finish_reason": "stop", "format_ok": True,
            "completion_tokens": len(steps), "steps_checked": 1,
            "steps_valid": 1, "section": "unspecified",
            "category": "sums", "difficulty": "unspecified", **more}


def kept(prompts: list[list[dict[str, Any]]], **rules: Any) -> list[str]:
    return [trace.id for trace in select(prompts, Selection(**rules), ORIGIN)[0]]


def test_a_kept_sample_is_a_trace_that_says_where_it_comes_from() -> None:
    [trace], _ = select([[row("a/b", 3, "one\ntwo", "2")]], Selection(), ORIGIN)
    assert trace == Trace(id="a/b/3", prompt="q a/b", steps=("one", "two"), answer="2", category="sums",
                          source="samples of a 0123",
                          metadata={"sample": 3, "seed": 10, "score": 1, "drawn_from": "0123"})
    assert completion_text(trace, "tags") == row("a/b", 3, "one\ntwo", "2")["completion"]


def test_earlier_turns_of_a_prompt_go_with_what_is_learned_from_it() -> None:
    extra = json.dumps({"history": [{"role": "system", "content": "Be brief."}], "more": None})
    rows = [row("a", 0, item_extra=extra), row("a", 1, answer="3", score=0, item_extra=extra)]
    assert select([rows], Selection(), ORIGIN)[0][0].history == (Turn("system", "Be brief."),)
    assert make_pairs([rows], PairRule(), ORIGIN)[0].history == (Turn("system", "Be brief."),)
    for wrong in ('{"history": "before"}', "[]"):
        with pytest.raises(RecordError, match="prediction 'a' describes no item"):
            select([[row("a", 0, item_extra=wrong)]], Selection(), ORIGIN)


def test_each_sample_that_is_left_out_has_its_reason() -> None:
    prompt = [row("a", 0), row("a", 1), row("a", 2, score=0), row("a", 3, finish_reason="length"),
              row("a", 4, format_ok=False), row("a", 5, completion={"absent": "too long"}), row("a", 6, "x\n1+1=2"),
              row("a", 7, "y\n1+1=2"), row("a", 8, "z<bos>", control_tokens=True), row("a", 9, "z", answer="2 ")]
    prompt[9]["completion"] += "\n"
    traces, counts = select([prompt], Selection(most_per_prompt=2), ORIGIN)
    assert [trace.id for trace in traces] == ["a/0", "a/6"]
    assert (counts.kept, counts.samples, counts.with_kept) == (2, 10, 1)
    assert counts.left_out == {"same text": 1, "wrong": 1, "cut off": 1, "another form": 1, "no text": 1,
                               "enough of its prompt": 1, "control tokens": 1, "white space at its ends": 1}
    reasons = {number: [*select([[sample]], Selection(), ORIGIN)[1].left_out] for number, sample in enumerate(prompt)}
    assert {number: reason for number, reason in reasons.items() if reason} == {
        2: ["wrong"], 3: ["cut off"], 4: ["another form"], 5: ["no text"], 8: ["control tokens"],
        9: ["white space at its ends"]}


def test_prompts_are_solved_never_sometimes_or_always() -> None:
    _, counts = select([[row("a", 0, score=0), row("a", 1, score=0.9)], [row("b", 0), row("b", 1, score=0)],
                       [row("c", 0), row("c", 1)], [row("d", 0)]], Selection(), ORIGIN)
    assert (counts.prompts, counts.never, counts.sometimes, counts.always) == (4, 1, 1, 2)


def test_the_best_of_a_prompt_are_kept_where_they_earned_something() -> None:
    prompts = [[row("a", 0, score=0.2), row("a", 1, "x", score=0.5), row("a", 2, "y", score=0.5)],
               [row("b", 0, score=0), row("b", 1, "x", score=0)],
               # The best text is no candidate, so the next one is.
               [row("c", 0, score=1, format_ok=False), row("c", 1, score=0.1)]]
    assert kept(prompts, keep="best") == ["a/1", "a/2", "c/1"]
    assert kept(prompts, keep="all") == ["a/0", "a/1", "a/2", "b/0", "b/1", "c/1"]
    assert kept(prompts) == []


def test_a_right_answer_for_a_wrong_reason() -> None:
    prompt = [row("a", 0, "1+1=3", steps_valid=0), row("a", 1, "1+1=2"), row("a", 2, "1+1=4", steps_valid=0, score=0)]
    assert kept([prompt]) == ["a/0", "a/1"]
    traces, counts = select([prompt], Selection(valid_steps=True), ORIGIN)
    assert ([trace.id for trace in traces], counts.left_out) == (["a/1"], {"wrong step": 1, "wrong": 1})


def test_the_first_that_were_drawn_are_kept() -> None:
    prompt = [row("a", number, text) for number, text in enumerate(("123", "123", "1", "12345"))]
    assert kept([prompt], most_per_prompt=2) == ["a/0", "a/2"]


def test_wrong_rules_are_refused() -> None:
    for rules, text in (({"keep": "good"}, "keep: good"), ({"most_per_prompt": -1}, "most_per_prompt")):
        with pytest.raises(RequestError, match=text):
            Selection(**rules)
    with pytest.raises(RequestError, match="rule all of pairs is unknown"):
        PairRule(rule="all")
    with pytest.raises(RequestError, match="most_per_prompt is 0"):
        PairRule(most_per_prompt=0)


@pytest.mark.parametrize("form", STYLES)
def test_a_text_comes_back_from_its_parts_to_the_letter(form: str) -> None:
    trace = Trace(id="x", prompt="p", steps=("a", "", " b "), answer=" 4 ")
    text = completion_text(trace, form)
    expected = ((), " 4 ") if form == "answer_only" else (trace.steps, " 4 ")
    assert split_completion(text, form) == expected


@pytest.mark.parametrize(("form", "text"), [
    ("tags", "<reasoning>a</reasoning> <answer>1</answer>"), ("tags", "<reasoning>a</reasoning><answer>1</answer>\n"),
    ("tags", "<reasoning> </reasoning><answer>1</answer>"), ("tags", "<reasoning>a</reasoning><answer></answer>"),
    ("think", "<think>a</think>\n\n1"), ("think", "<think>\na\n</think>\n1"), ("hashes", "a #### 1"),
    ("hashes", "#### 1"), ("answer_only", " \n")])
def test_a_text_of_another_form_has_no_parts(form: str, text: str) -> None:
    assert split_completion(text, form) is None


def pair_numbers(prompt: list[dict[str, Any]], rule: str, most: int) -> list[str]:
    return [pair.id for pair in make_pairs([prompt], PairRule(rule=rule, most_per_prompt=most), ORIGIN)]


def test_right_against_wrong() -> None:
    prompt = [row("a", 0, score=0), row("a", 1, "x"), row("a", 2, "x"), row("a", 3, "y"),
              row("a", 4, "z", score=0, format_ok=False), row("a", 5, "w", score=0, finish_reason="length"),
              row("a", 6, "v", format_ok=False)]
    # 2 has the text of 1; 5 was cut off; 6 is right and not in the form, so it is on neither side.
    assert pair_numbers(prompt, "right-wrong", 1) == ["a/1-0"]
    assert pair_numbers(prompt, "right-wrong", 9) == ["a/1-0", "a/3-4"]
    pair, = make_pairs([prompt], PairRule(rule="right-wrong"), ORIGIN)
    assert (pair.prompt, pair.chosen, pair.rejected) == ("q a", prompt[1]["completion"], prompt[0]["completion"])
    assert (pair.category, pair.section, pair.source) == ("sums", "", ORIGIN.source)
    assert pair.metadata == {"chosen_sample": 1, "chosen_seed": 8, "chosen_score": 1, "rejected_sample": 0,
                             "rejected_seed": 7, "rejected_score": 0, "drawn_from": "0123"}


def test_best_against_worst_as_long_as_scores_differ() -> None:
    prompt = [row("a", number, f"text {number}", score=score) for number, score in enumerate((0.5, 0.1, 0.9, 0.5, 0.1))]
    # In falling order 2, 0, 3, 1, 4, in rising order 1, 4, 0, 3, 2: the third pair would have equal scores.
    assert pair_numbers(prompt, "best-worst", 5) == ["a/2-1", "a/0-4"]
    assert pair_numbers(prompt, "best-worst", 1) == ["a/2-1"]
    assert pair_numbers([row("a", 0), row("a", 1, "x")], "best-worst", 5) == []
