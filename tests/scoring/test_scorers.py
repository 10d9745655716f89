"""Scorers: numbers by value, texts by normalised match, aliases, tolerance; and answers that are labelled by hand."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from workings.answers.extract import answer_kind, extract
from workings.scoring.items import Item, read_items
from workings.scoring.judge import judge, score_answer
from workings.scoring.scorers import ScoreFunction, answer, exact, get_scorer
from workings.scoring.settings import ScoringSettings


@pytest.mark.parametrize(("scorer", "given", "gold", "more", "right"), [
    (answer, "the big apple", "New York", {"aliases": ("Big Apple",)}, 1),
    (answer, "a dozen", "12", {"aliases": ("dozen",)}, 1), (answer, "3.14", "3.14159", {"tolerance": 0.01}, 1),
    (answer, "3.1", "3.14159", {"tolerance": 0.01}, 0), (exact, " 7 ", "7", {}, 1), (exact, "7.0", "7", {}, 0),
    (exact, "sept", "7", {"aliases": ("sept",)}, 1)])
def test_aliases_tolerance_and_the_same_characters(scorer: ScoreFunction, given: str, gold: str, more: dict[str, Any],
                                                   right: int) -> None:
    assert scorer(given, Item(id="a", prompt="p", expected_answer=gold, **more)) == right


FORMS = {
    "hashes": "{steps}#### {gold}", "answer_tag": "<reasoning>{steps}</reasoning><answer>{gold}</answer>",
    "boxed": "{steps} so \\boxed{{{gold}}}.", "answer_phrase": "{steps}The final answer is ${gold}.",
    "final_sentence": "{steps}So in the end she has {gold} apples.",
}


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.full), 10])
@pytest.mark.parametrize("rule", FORMS)
def test_every_gsm8k_solution_is_right_in_every_form(shared: Path, rule: str, every: int) -> None:
    path = shared / "data/gsm8k/test.jsonl"
    solutions = [json.loads(line)["answer"].rsplit("####", 1)[0] for line in path.read_text("utf-8").splitlines()]
    for one, steps in [*zip(read_items(path), solutions, strict=True)][::every]:
        found = extract(FORMS[rule].format(steps=steps, gold=one.expected_answer), answer_kind(one.expected_answer))
        assert (found.rule, answer(found.text, one)) == (rule, 1), one.id


def test_a_list_is_compared_in_its_order_where_the_question_asks_for_one_and_by_scorers_that_compare() -> None:
    asked = Item(id="a", prompt="Sort 0.5, 1/3 and 0.45 from smallest to largest.", expected_answer="1/3, 0.45, 0.5")
    text, settings = "Sorted: **0.5, 0.45, 1/3**", ScoringSettings()
    assert get_scorer("answer").score("1/3, 0.45, 0.5", asked) == 1
    assert judge(asked, text, get_scorer("answer").score, settings).score == 0
    assert judge(asked, text, lambda given, item: 1.0, settings).score == 1, "the user's own function decides itself"


ROWS = [json.loads(line) for line in Path(__file__).with_name("answers.jsonl").read_text("utf-8").splitlines()]


def test_labelled_answers_are_judged_as_labelled() -> None:
    wrong = []
    for row in ROWS:
        item = Item(id="a", prompt=row.get("asked", "p"), expected_answer=row["expected"])
        found, score = score_answer(item, row["completion"], get_scorer("answer").score, ScoringSettings(),
                                    truncated=row.get("truncated", False))
        if (score == 1) != row["right"]:
            wrong.append(f"{row}: found {found.text!r} by {found.rule}, score {score:g}")
    assert wrong == [], "\n".join(wrong)
    assert min(sum(row["right"] for row in ROWS), sum(not row["right"] for row in ROWS)) > 300


def test_what_could_be_argued_is_judged_as_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text("utf-8")
    rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (correct|wrong) \|$", page, re.MULTILINE)
    assert len(rows) >= 8
    for completion, expected, label in rows:
        item = Item(id="a", prompt="p", expected_answer=expected)
        found = judge(item, completion, get_scorer("answer").score, ScoringSettings())
        assert (found.score == 1) == (label == "correct"), (completion, expected, found)
