"""The first wrong equation: where it is in a completion, how items are counted by it, and how it is shown."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.making import items, write_lines
from workings.evaluation.comparison.compare import compare
from workings.evaluation.first_wrong_step import count_first_wrong_steps, kind_of_item, wrong_place
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.unit import EvaluationRecord
from workings.reports.figures import first_wrong_steps_table, marked
from workings.reports.html import write_report

WRONG = "<reasoning>8+9+0=17, write 7 carry 1\n\n8+9+1=17, write 7 carry 1\n1+2=4</reasoning><answer>177</answer>"


def test_the_place_is_that_in_the_whole_completion() -> None:
    place = wrong_place(WRONG)
    assert place is not None
    assert WRONG[place.start:place.end] == place.written == "8+9+1=17"
    assert (place.expected, place.line, place.lines) == ("18", 2, 3)
    assert place.text() == "first wrong equation, line 2 of 3: 8+9+1=17 (correct: 18)"


@pytest.mark.parametrize("text", ["", "7", "<reasoning>8+9=17</reasoning><answer>7+1=9</answer>", "no equation at all"])
def test_nothing_is_marked_where_no_step_is_wrong(text: str) -> None:
    assert wrong_place(text) is None
    assert re.sub("&lt;", "<", re.sub("&gt;", ">", marked(text))) == text


def line(score: float, completion: Any, **more: Any) -> dict[str, Any]:
    return {"id": "i", "score": score, "completion": completion, **more}


def test_each_item_is_of_one_kind() -> None:
    deep = "\n".join(["1+1=2"] * 7 + ["1+1=3"])
    lines = [line(1, "1+1=2"), line(1, "1+1=3"), line(0, "1+1=3"), line(0, "1+1=2\n2+2=5\n1+1=3"), line(0, deep),
             line(0, "1+1=2"), line(0, {"absent": "missing"}, error="missing"), line(0.5, "1+1=2")]
    assert [kind_of_item(each) for each in lines] == [
        "right, no wrong equation", "right, a wrong equation", "wrong from line 1 on", "wrong from line 2 on",
        "wrong from line 6+", "wrong, no wrong equation", "could not be scored", "wrong, no wrong equation"]


def unit(folder: Path, name: str, wrong: int) -> Path:
    """Twenty additions, the first ``wrong`` of them with a wrong second step and a wrong answer."""
    asked = items(20)
    texts = [f"<reasoning>1+1=2\n{k}+7={k + 7 + (k < wrong)}</reasoning><answer>{k + 7 + (k < wrong)}</answer>"
             for k in range(20)]
    file = write_lines(folder / f"{name}.jsonl", [{"id": item.id, "completion": text}
                                                  for item, text in zip(asked, texts, strict=True)])
    evaluate_predictions(file, asked, folder / name)
    return folder / name


def test_the_report_is_of_the_sealed_texts(tmp_path: Path) -> None:
    a, b = unit(tmp_path, "a", 12), unit(tmp_path, "b", 3)
    counts = [count_first_wrong_steps(EvaluationRecord(path)) for path in (a, b)]
    assert counts == [{"right, no wrong equation": 8, "wrong from line 2 on": 12},
                      {"right, no wrong equation": 17, "wrong from line 2 on": 3}]
    assert first_wrong_steps_table([("b", {"right, no wrong equation": 1, "wrong, no wrong equation": 1})]) is None
    page = write_report(tmp_path / "page.html", [a, b], compare(a, b)).read_text()
    assert "Where reasoning breaks" in page
    assert '<th scope="row">wrong from line 2 on</th><td class="n">12</td><td class="n">3</td>' in page
    # Item 3 is newly right.
    assert page.count('<span class="wrong-step">3+7=11</span><span class="right-value">') == 1
