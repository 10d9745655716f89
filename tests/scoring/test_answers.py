"""Answers as models write them, labelled by hand: every one is judged as a careful reader does."""

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from workings.answers.extract import answer_kind, extract
from workings.scoring.items import Item
from workings.scoring.judge import judge, score_answer
from workings.scoring.scorers import get_scorer
from workings.scoring.settings import ScoringSettings

ROWS, HELD_OUT = ([json.loads(line) for line in Path(__file__).with_name(name).read_text("utf-8").splitlines()]
                  for name in ("answers.jsonl", "held_out.jsonl"))


MISSED = {"sixth": 2, "seventh": 4, "eighth": 5, "ninth": 2, "tenth": 7, "eleventh": 12, "twelfth": 13,
          "thirteenth": 26, "fifteenth": 3, "seventeenth": 3, "nineteenth": 1, "twentieth": 4, "twenty-first": 1,
          "twenty-second": 2, "twenty-fifth": 2, "twenty-sixth": 7, "twenty-ninth": 2, "thirty-eighth": 1,
          "thirty-ninth": 4,
          "forty-second": 8, "forty-third": 5, "forty-fourth": 6, "forty-fifth": 4, "fifty-first": 1, "fifty-second": 1}
"""Right answers in wordings of their own, by set, that are not seen to be right without a question: no rule was made
for a single one."""


def test_labelled_answers_are_judged_as_labelled() -> None:
    wrong, missed = [], Counter[str]()
    for row in (*ROWS, *(row for row in HELD_OUT if "scorer" not in row)):
        item = Item(id="a", prompt=row.get("asked", "p"), expected_answer=row["expected"])
        found, score = score_answer(item, row["completion"], get_scorer("answer").score, ScoringSettings(),
                                    truncated=row.get("truncated", False))
        if row["right"] and score != 1 and row.get("set") in MISSED:
            missed[row["set"]] += 1
        elif (score == 1) != row["right"]:
            label = "right" if row["right"] else "wrong"
            wrong.append(f"{row['kind']}: {row['completion']!r}, expected {row['expected']!r}, is {label}; found "
                         f"{found.text!r} by {found.rule}, score {score:g}")
    assert wrong == [], "\n".join(wrong)
    assert missed == MISSED


def test_what_could_be_argued_is_judged_as_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text("utf-8")
    rows = re.findall(r"^\| `(.+?)` \| `(.+?)` \| (right|wrong) \|$", page, re.MULTILINE)
    assert len(rows) >= 10
    for completion, expected, label in rows:
        item = Item(id="a", prompt="p", expected_answer=expected)
        found = judge(item, completion, get_scorer("answer").score, ScoringSettings())
        assert (found.score == 1) == (label == "right"), (completion, expected, found)


def test_version_1_judges_as_it_did() -> None:
    item = Item(id="a", prompt="p", expected_answer="15")
    text = "<think>The answer is 15.</think>\n14 apples, 6x"
    scores = [judge(item, text, get_scorer("answer", version).score, ScoringSettings(extraction_version=version)).score
              for version in (1, 2)]
    assert scores == [1, 0]


def test_there_are_enough_of_both_labels() -> None:
    assert len(ROWS) >= 400
    assert sum(not row["right"] for row in ROWS) >= 150


HANGS = 10
"""Seconds of processor time: a hundred times what a text below takes, and less than what its square would."""


@pytest.fixture
def ends_what_hangs() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        pytest.fail("a rule takes the square of a text's length, or more")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANGS)
    yield
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.slow
@pytest.mark.usefixtures("ends_what_hangs")
@pytest.mark.parametrize("piece", [
    "answer is ", "<think>", "</think>", "<answer>", "\\boxed{", "\\boxed{}", "1, ", "1 000 ", "(1, ", "a_1",
    "- 1", "**", "**1",
    "= ", "x = 1 ", "and 5 ", "\\text{", "$1 ", "a-b_", "1:", "####", "#### 1\n", "so 1, ", "word ", ". A", "(B) ",
    "yes ", "\n",
    "\\frac{", "is not ", "'", "need to ", "needs at least 5 ", "He sold, or 5 ", "deadbeef", "1.1", "\t", "{",
    "every ", "$1$", "to aa 1 ", "1 + 1 = ", "5 m or ",
    "1 < ", "± 1", "3,5 m ", "Ben of Mia ", "145 minutes ", "10-14 ", "→ ", "\nQ: ", "a dozen ", "either 1 or ",
    "answer ", "1,", "1", "9/", "final answer is ", " ", "$-", ".", "the number of ",
    "😄 A", "\\boldsymbol{", "\\boldsymbol{{", "{\"", "{\"a\": ", "print(", "print() # ",
    "answer is 1\n\nA of b. How many ", "[\\begin{array}{c}", "if a, would ", "six 1-hour ", "± 1, ",
    "a - if b would, ", "**B. a**", "cos(", "cos(a)", "3/4", "(a+b", "off a b by ",
    "x < 1 or ", "(1, 2) \\cup ", "all real numbers except 1, ", "A. a ✅\n", "A. a\n", "\\boxed{1}_{1}", "only C, ",
    "while a, ", "3x(", "(a)(b)", "question asks how ", "2:00 ", "1. a\n", "**1. "])
def test_no_text_makes_the_rules_slow(piece: str) -> None:
    """Of a hundred thousand characters none is read as often as there are others."""
    text = piece * (100_000 // len(piece))
    for expected in ("12", "B", "yes", "(1,2)", "(1, 2) \\cup (3, 4)"):
        found = extract(text, answer_kind(expected), question="How many of 1 more or so are left each?")
        get_scorer("answer").score(found.text, Item(id="a", prompt="p", expected_answer=expected))
