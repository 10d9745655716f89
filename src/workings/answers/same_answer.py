"""Whether an answer is the expected one: numbers by value, everything else as the same text."""

import re

from workings.answers.final_number import sentence_number
from workings.answers.latex import normal_form
from workings.answers.numbers import MAX_CHARACTERS, equal_numbers, in_two_units, parse_number, parse_words
from workings.answers.sentences import sentences
from workings.answers.states_a_result import is_undecided
from workings.answers.texts import same_text

_SIDE_BY_SIDE = re.compile(r"\W*[\d.]+(?:\s+[\d.]+)+\W*")
_SENTENCE = re.compile(r"(?<![^\W\d_])(?<!\\)[^\W\d_]{2,}\s")


def same_answer(given: str, expected: str, tolerance: float = 0.0) -> bool:
    """Whether a given answer is the expected one.

    Where a number is expected, a sentence that says one stands for it; one that says an expression or several does not.

    >>> same_answer("She has 12 apples left.", "12"), same_answer("The capital is Paris.", "Paris")
    (True, True)
    """
    target = parse_number(expected)
    if target is None:
        if same_text(given, expected, tolerance) or (
                is_undecided(expected, alone=True) and is_undecided((sentences(given) or [given])[-1])):
            return True
        # An expected "seventy-five" may be answered with 75.
        in_words = parse_words(expected)
        number = None if in_words is None else parse_number(given) or parse_words(given)
        return in_words is not None and number is not None and equal_numbers(number, in_words, tolerance)
    if pair := in_two_units(given):
        return any(equal_numbers(number, target, tolerance) for number in pair)
    # The whole text first: "1 1/2" is one number as a whole and several when they are searched for.
    number = parse_number(given) or parse_words(given)
    if number is None and len(given) <= MAX_CHARACTERS and _SENTENCE.search(given):
        number = parse_number(sentence_number(given) or "")
    if number is not None:
        # "1/6 ≈ 0.167" says both, and the part before the sign is the exact one.
        exact = parse_number(given.rpartition("≈")[0]) if "≈" in given else None
        return any(equal_numbers(each, target, tolerance) for each in (number, exact) if each is not None)
    # Not as prose, which loses the sign of "5!"; two numbers side by side are not the one of all their digits.
    return normal_form(given) == normal_form(expected) and not _SIDE_BY_SIDE.fullmatch(given)
