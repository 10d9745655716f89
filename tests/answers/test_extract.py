"""Extraction rules, their order, and that no text makes them slow."""

import pytest

from workings.answers.extract import RULES, Extraction, check_rules, extract
from workings.answers.numbers_in_sentence import NO_NUMBER
from workings.answers.sentences import without_reason
from workings.errors import RequestError


@pytest.mark.parametrize(("text", "found", "rule"), [
    ("<reasoning>7+5=12</reasoning><answer>72</answer>", "72", "answer_tag"),
    ("<answer>1</answer> no: <answer> 2 </answer>", "2", "answer_tag"),
    ("<answer></answer>\n#### 9", "9", "hashes"),
    ("steps\n#### 1,234\nmore", "1,234", "hashes"),
    ("so \\boxed{\\frac{1}{2}} is it", "\\frac{1}{2}", "boxed"),
    ("so \\boxed 7.", "7", "boxed"),
    ("The answer is 3.14. Bye", "3.14", "answer_phrase"),
    ("Final answer: **42**", "42", "answer_phrase"),
    ("Answer: 5\nAnswer: 6", "6", "answer_phrase"),
    ("<think>1+1=2</think>\n\n2", "2", "after_think"),
    ("<think>1+1=2</think> it is the 3rd", "3", "last_number"),
    ("we get 47+25=72", "72", "last_number"), ("5-3", "", "none"), ("so it is -3", "-3", "last_number"),
    ("costs $1,200.50 in all", "$1,200.50", "last_number"), ("half is 1/2", "1/2", "last_number"),
    ("3 × 4 = 12, plus 5 is 17.", "17", "last_number"), ("It sank in 1912.", "1912", "last_number"),
    ("He has 5 now but had 9 before.", "5", "last_number"), ("1,515 exceeds 1,485 by 30.", "30", "last_number"),
    # A token that ends the text ends what is said, and nothing before it was cut off.
    ("#### 42<|endoftext|>Human: 7?", "42", "hashes"), ("</s> 5<eos>6", "5", "last_number"),
    ("no idea", "", "none"), ("", "", "none"), ("\\boxed{never closed", "", "none"),
])
def test_numbers(text: str, found: str, rule: str) -> None:
    assert extract(text, "number") == Extraction(found, rule)


@pytest.mark.parametrize(("text", "found", "rule"), [
    ("Paris", "Paris", "whole"), ("<think>hm</think>Paris 1", "Paris 1", "after_think"),
    ("line\nother line", "other line", "whole"), ("The answer is the Eiffel Tower.", "the Eiffel Tower",
    "answer_phrase"), ("<answer>\nParis\n</answer>", "Paris", "answer_tag"),
    ("Tin. Its symbol comes from Latin.", "Tin", "whole"), ("Sure. It is tin.", "It is tin", "whole"),
    ("$x^2 + C$\nwhere $C$ is the constant of integration", "x^2 + C", "whole"),
])
def test_texts(text: str, found: str, rule: str) -> None:
    assert extract(text, "text") == Extraction(found, rule)


@pytest.mark.parametrize(("text", "found"), [
    ("Venus\n\nIts air traps heat.", "A"), ("**Venus** (A)\n\nMercury has no air.", "A"),
    ("Mercury has no air. So the hottest planet is Venus.", "A"), ("Venus?\nNobody knows.", "Nobody knows"),
    ("Mercury is cold at night. Venus is near.", "Venus is near"), ("It is not Venus.", "It is not Venus"),
    ("**Venus** (not Mercury, as many think)", "A"), ("Its hottest month is so long: by B", "B"),
])
def test_choices_by_their_texts(text: str, found: str) -> None:
    question = "Which planet is the hottest?\nA. Venus\nB. Mercury\nC. Mars"
    assert extract(text, "choice", question=question) == Extraction(found, "whole")


def test_only_the_rules_asked_for() -> None:
    assert extract("#### 5", "number", ("answer_tag",)) == Extraction("", "none")
    assert extract("#### 5\nSo 6", "number", ("last_number", "hashes")) == Extraction("6", "last_number")


def test_an_unknown_rule_is_named() -> None:
    check_rules(tuple(RULES))
    with pytest.raises(RequestError, match="last_nmber"):
        check_rules(("last_nmber",))


@pytest.mark.parametrize("piece", ["A", "é", "1", "1:", "a_", "a-", "f0", "…1", "1.", " ", "a b ", "@"])
def test_long_lines_are_read_in_proportion_to_their_length(piece: str) -> None:
    """Not in the square or the cube of it: each of these took hours once."""
    line = piece * (40_000 // len(piece)) + " 7x"
    masked = NO_NUMBER.sub("", line)
    assert len(masked) <= len(line)
    assert without_reason(line).strip() in line
