"""Answers as models write them, labelled by hand: every one is scored as a careful reader does."""

import json
import re
from pathlib import Path

from workings.scoring.items import Item
from workings.scoring.judge import judge, score_answer
from workings.scoring.scorers import get_scorer
from workings.scoring.settings import ScoringSettings

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
