"""Arithmetic in the steps, and the form of a completion."""

import json
from pathlib import Path

import pytest

from workings.evaluation.first_wrong_step import first_wrong_step
from workings.scoring.form import check_steps, checked_equations, keeps_form, reasoning_text


@pytest.mark.parametrize(("text", "checked", "valid"), [
    ("7+5=12", 1, 1), ("7+5=13", 1, 0), ("7+5=12, carry 1\n4+2+1=7", 2, 2), ("no sums here", 0, 0), ("x = 5", 0, 0),
    ("2+3+4 = 5+4 = 9", 2, 2), ("$<<80000+50000=130000>>130,000", 1, 1), ("10/3=3", 1, 0), ("", 0, 0)])
def test_equations_of_steps(text: str, checked: int, valid: int) -> None:
    found = check_steps(text)
    assert (found.checked, found.valid) == (checked, valid)
    assert len(checked_equations(text)) == checked
    # A quotient without its fraction counts for steps, and is not shown as an error: it may be rounded.
    assert (first_wrong_step(text) is None) is (checked == valid or text == "10/3=3")


def test_what_is_wrong_is_shown() -> None:
    assert check_steps("7+5=13; 1+1=3").wrong == ("7+5=13", "1+1=3")
    found = first_wrong_step("7+5=12, 8+9+1=17; 1+1=3")
    assert found is not None
    assert (found.start, found.end, found.written, found.expected) == (8, 16, "8+9+1=17", "18")


@pytest.mark.full
def test_gsm8k_solutions_are_nearly_all_valid(shared: Path) -> None:
    """People wrote them and a calculator checked them; those that fail round or mix units."""
    checked = valid = 0
    for line in (shared / "data/gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines():
        found = check_steps(json.loads(line)["answer"])
        checked, valid = checked + found.checked, valid + found.valid
    assert checked > 4_400  # 4,282 are marked as calculator steps
    assert checked - valid == 2


@pytest.mark.parametrize(("form", "text", "keeps"), [
    ("tags", "<reasoning>a\nb</reasoning><answer>1</answer>", True),
    ("tags", "<reasoning>a</reasoning><answer></answer>", False),
    ("tags", "<reasoning>a</reasoning><answer>1</answer> bye", False),
    ("tags", "<reasoning>a</reasoning><answer>1</answer><answer>2</answer>", False),
    ("tags", "1", False), ("think", "<think>\na\n</think>\n\n7", True), ("think", "<think>a", False),
    ("channel", "<|channel>thought\na\n#### b\n#### c\n<channel|>7", True), ("channel", "7", False),
    ("channel", "<|channel>thought\na\n<channel|>", False), ("channel", "<|channel>thought\nnever closed 7", False),
    ("channel", "<|channel>a<channel|>7", False), ("channel", "so <|channel>thought\na<channel|>7", False),
    ("channel", "<|channel>thought\na<channel|>7<channel|>8", False),
    ("channel", "<|channel>thought\na<|channel>thought\nb<channel|>7", False),
    ("channel", "<think>\na\n</think>\n\n7", False), ("think", "<|channel>thought\na\n<channel|>7", False),
    ("hashes", "a\n#### 7", True), ("hashes", "a\n#### 7\n#### 8", False), ("hashes", "7", False),
    ("answer_only", "72", True), ("answer_only", "7\n2", False), ("answer_only", "", False), ("any", "", True),
])
def test_forms(form: str, text: str, keeps: bool) -> None:
    assert keeps_form(text, form) is keeps


def test_reasoning_is_what_stands_before_the_answer() -> None:
    assert reasoning_text("<reasoning>7+5=12</reasoning><answer>2</answer>") == "7+5=12"
    assert reasoning_text("a\n#### 7") == "a\n"
    assert reasoning_text("<think>never closed") == "never closed"
    assert reasoning_text("<|channel>thought\n7+5=12\n<channel|>2+2=5") == "7+5=12\n"
