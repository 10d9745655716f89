"""No run is called better or worse for answers that no rule found, or for one answer to everything."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evaluation.making import write_lines
from workings.evaluation.answer_counts import AnswerCounter, names_expected
from workings.evaluation.comparison.compare import compare, compare_records
from workings.evaluation.comparison.gate import gate, set_baseline
from workings.evaluation.comparison.several_runs import compare_seeds, rank
from workings.evaluation.predictions import form_free_accuracy
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.unit import EvaluationRecord
from workings.scoring.items import Item

COUNT = 100
# Three of four expected answers are one number, as in real questions about letters.
ITEMS = [Item(id=f"i{n}", prompt=f"How many times does the letter a occur in word {n}?",
              expected_answer="1" if n % 4 else str(2 + n % 7)) for n in range(COUNT)]
Writes = Callable[[int, Item], str]


def right(n: int, item: Item) -> str:
    return f"#### {item.expected_answer}"


def wrong(n: int, item: Item) -> str:
    return f"#### {int(item.expected_answer) + 1 + n % 5}"


def one(n: int, item: Item) -> str:
    return "#### 1"


def silent(n: int, item: Item) -> str:
    return ""


def mostly(good: Writes, share: float, other: Writes) -> Writes:
    return lambda n, item: (good if n < share * COUNT else other)(n, item)


@pytest.fixture
def unit(tmp_path: Path) -> Callable[[str, Writes], Path]:
    def make(name: str, writes: Writes) -> Path:
        lines = write_lines(tmp_path / f"{name}.jsonl", [{"id": item.id, "completion": writes(n, item)}
                                                         for n, item in enumerate(ITEMS)])
        evaluate_predictions(lines, ITEMS, tmp_path / name)
        return tmp_path / name
    return make


def unread(unit: Path, share: float) -> None:
    """As if no rule had found the first answers of a unit: a text of their form is never read."""
    path = unit / "predictions.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines[:round(share * COUNT)]:
        line |= {"extracted": {"absent": "no rule found an answer"}, "rule": "none", "score": 0.0}
    write_lines(path, lines)


def verdict(a: Path, b: Path) -> tuple[str, str]:
    # Units are changed behind their seals here, so the sums are not asked.
    records = [EvaluationRecord(path) for path in (a, b)]
    for record in records:
        object.__setattr__(record, "results", lambda own=record: own.reading[0])
    comparison = compare_records(*records)
    return comparison.verdict, comparison.sentence


def test_a_fluent_wrong_model_still_loses(unit: Callable[[str, Writes], Path]) -> None:
    a, b = unit("untrained", wrong), unit("trained", mostly(right, 0.74, wrong))
    comparison = compare(a, b)
    assert (comparison.verdict, comparison.refused, comparison.warnings) == ("better", False, [])
    assert compare(b, a).verdict == "worse"


def test_one_answer_to_everything_is_not_better(unit: Callable[[str, Writes], Path]) -> None:
    comparison = compare(unit("untrained", wrong), unit("trained", one))
    assert comparison.difference is not None
    assert comparison.difference.verdict == "better"  # the statistics stay
    assert (comparison.verdict, comparison.refused) == ("inconclusive", True)
    assert "trained gives one answer to 100.0 % of the items" in comparison.sentence
    assert comparison.sentence.startswith("No verdict on trained against untrained")
    assert "is better than" not in comparison.sentence
    assert comparison.to_json()["answers"]["b"] == {
        "no_answer": 0.0, "unread": 0.0, "distinct_answers": 1, "same_answer": 1.0, "majority_accuracy": 0.75}


def test_whoever_is_better_than_any_one_answer_beats_it(unit: Callable[[str, Writes], Path]) -> None:
    always = unit("always", one)
    assert compare(always, unit("good", mostly(right, 0.98, wrong))).verdict == "better"
    zero = unit("zero", lambda n, item: "#### 0")
    # Above it by the statistics, and below what one answer would reach.
    assert compare(zero, unit("weak", mostly(right, 0.4, wrong))).refused


def test_answers_that_were_not_found_may_be_right(unit: Callable[[str, Writes], Path]) -> None:
    plain, good = unit("sentences", right), unit("good", mostly(right, 0.9, wrong))
    unread(plain, 0.5)
    said, sentence = verdict(plain, good)
    assert said == "inconclusive"
    assert "no answer was found in 0.0 % of the completions of good and 50.0 % of sentences" in sentence
    assert "100.0 % of sentences would be correct" in sentence
    assert "--scorer judge" in sentence
    assert verdict(good, plain)[0] == "inconclusive"


def test_a_model_that_names_no_answer_at_all_loses(unit: Callable[[str, Writes], Path]) -> None:
    said, sentence = verdict(unit("noise", silent), unit("good", mostly(right, 0.9, wrong)))
    assert said == "better"
    assert "part of the difference may be how they write" in sentence


@pytest.mark.parametrize(("share", "warned"), [(0.0, False), (0.02, False), (0.08, True)])
def test_a_difference_in_answers_found_is_said(unit: Callable[[str, Writes], Path], share: float, warned: bool) -> None:
    a, b = unit("a", wrong), unit("b", mostly(right, 0.9, wrong))
    unread(a, share)
    said, sentence = verdict(a, b)
    assert said == "better"
    assert ("how they write" in sentence) == warned


def test_the_gate_and_seeds_refuse_as_well(unit: Callable[[str, Writes], Path], tmp_path: Path) -> None:
    low, constant = unit("low", wrong), unit("constant", one)
    set_baseline(tmp_path / "kept", "main", EvaluationRecord(low))
    result = gate(constant, baseline="main", folder=tmp_path / "kept", max_drop=0.02)
    assert result["verdict"] == "inconclusive"
    assert "gives one answer" in result["sentence"]
    set_baseline(tmp_path / "kept", "good", EvaluationRecord(unit("good", right)))
    # One that fell to a single answer did drop.
    assert gate(constant, baseline="good", folder=tmp_path / "kept", max_drop=0.02)["verdict"] == "fail"
    seeds = compare_seeds([low], [constant])
    assert seeds["verdict"] == "inconclusive"
    assert "gives one answer" in seeds["sentence"]


@pytest.mark.parametrize(("text", "gold", "named"), [
    ("The letter occurs twice in it.", "2", True), ("It occurs 1 time.", "1", True), ("It occurs 1 time.", "11", False),
    ("No one knows.", "2", False), ("Her name was Ada Lovelace, I think", "Ada Lovelace", True),
    ("Adamant", "Ada", False)])
def test_the_most_generous_reading(text: str, gold: str, named: bool) -> None:
    sample = {"completion": text, "gold": gold, "extracted": {"absent": "no rule found an answer"}}
    assert names_expected(sample) is named
    assert not names_expected({**sample, "extracted": "7"})


def test_a_form_that_was_never_taught_costs_nothing(unit: Callable[[str, Writes], Path]) -> None:
    sentences = unit("sentences", right)
    unread(sentences, 0.4)
    assert form_free_accuracy(sentences / "predictions.jsonl") == 1.0
    counter = AnswerCounter()
    for line in (sentences / "predictions.jsonl").read_text().splitlines():
        counter.add(json.loads(line))
    assert "no answer found in 40.0 % (40.0 % contain the expected one)" in counter.counts().text()


@pytest.mark.parametrize(("cut", "count", "said"), [
    (3, 20, ""), (9, 9, ""), (20, 20, "u says little about a model: all 20 completions were cut off"),
    (4, 20, "u says little about a model: 4 of 20 completions were cut off at the limit on new tokens.")])
def test_answers_that_were_cut_off_are_named(cut: int, count: int, said: str) -> None:
    counter = AnswerCounter()
    for n in range(count):
        counter.add({"completion": str(n), "extracted": str(n), "gold": str(n), "truncated": n < cut})
    assert counter.warning("u").startswith(said)
    assert bool(counter.warning("u")) == bool(said)


def test_a_warning_is_in_every_sentence(unit: Callable[[str, Writes], Path], tmp_path: Path) -> None:
    good, bad = unit("good", mostly(right, 0.99, wrong)), tmp_path / "bad"
    lines = [{"id": item.id, "completion": wrong(n, item), "finish_reason": "length"} for n, item in enumerate(ITEMS)]
    evaluate_predictions(write_lines(tmp_path / "bad.jsonl", lines), ITEMS, bad)
    warned = "bad says little about a model: all 100 completions were cut off"
    found = compare(bad, good)
    assert (found.verdict, EvaluationRecord(good).warning) == ("better", "")
    assert found.to_json()["warnings"][0] == EvaluationRecord(bad).warning
    assert "warnings" not in compare(good, good).to_json()
    set_baseline(tmp_path / "kept", "main", EvaluationRecord(good))
    assert warned in found.sentence
    for answer in (rank([bad, good]), compare_seeds([bad], [good]),
                   gate(bad, baseline="main", folder=tmp_path / "kept", max_drop=0.1)):
        assert warned in answer["sentence"]
