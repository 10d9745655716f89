"""Answers that a text marks, as an import takes them and as they are scored."""

import pytest

from workings.answers.texts import same_answer
from workings.data.importing.completion import before_box, final_answer, marked_answer, split_any


@pytest.mark.parametrize(("text", "answer"), [
    (r"3+4=7, so \boxed{7}.", "7"), (r"\boxed{1} no, \boxed{\frac{1}{2}}", r"\frac{1}{2}"), ("<answer>4</answer>", "4"),
    ("2+2\n#### 4", "4"), ("#### One\ntext\n#### Two", ""), ("#### Notes\nHello", ""), ("It is 7.", ""), ("", ""),
    (r"cut off \boxed{", ""), (r"<think>\boxed{5}</think>\boxed{6}", "6"), (r"<think>\boxed{5}", "")])
def test_marked(text: str, answer: str) -> None:
    assert marked_answer(text) == answer
    assert final_answer(text) == (answer or text)


@pytest.mark.parametrize(("text", "steps", "answer"), [
    ("Two plus two.\nSo \\boxed{4}.", ("Two plus two.",), "4"),
    ("Two plus two.\nThat makes \\boxed{4} apples.", ("Two plus two.", "That makes \\boxed{4} apples."), "4"),
    ("a=1\n\\[\\boxed{\\frac{1}{2}}\\]", ("a=1",), "\\frac{1}{2}"), ("The final answer is: $\\boxed{5}$.", (), "5"),
    ("<think>x</think>\\boxed{7}", ("x",), "7"), ("<think>x</think>It is \\boxed{7} then.", ("x",),
                                                   "It is \\boxed{7} then."),
    ("x\n#### \\boxed{3}", ("x",), "3"), ("[THINK]hm\nok[/THINK]\n12", ("hm", "ok"), "12"),
    ("<thinking>hm</thinking>12", ("hm",), "12"), ("Say <thinking> aloud.", (), "Say <thinking> aloud.")])
def test_an_import_takes_the_answer_that_a_score_finds(text: str, steps: tuple[str, ...], answer: str) -> None:
    assert split_any(text) == (steps, answer)
    assert same_answer(final_answer(text.rpartition("THINK]")[2]), final_answer(answer)) or not marked_answer(text)


def test_thinking_that_is_broken_is_refused() -> None:
    for text in ("no</thinking>12", "a<thinking>b</thinking>c", "<thinking>a</thinking><thinking>b</thinking>c"):
        with pytest.raises(ValueError, match="not one block of thinking"):
            split_any(text)


def test_a_line_with_words_beside_the_box_stays() -> None:
    assert before_box("a\nThus the answer is \\boxed{5}.") == "a"
    assert before_box("a\nShe has \\boxed{5} left.") == "a\nShe has \\boxed{5} left."
