"""Whether an answer is the expected one: numbers by value, everything else as the same text."""

import re

from workings.answers.choices import TRUTHS, same_truth
from workings.answers.final_number import sentence_number
from workings.answers.latex import normal_form
from workings.answers.numbers import MAX_CHARACTERS, equal_numbers, parse_number, parse_words
from workings.answers.texts import same_text

_SENTENCE = re.compile(r"(?<![^\W\d_])(?<!\\)[^\W\d_]{2,}\s")


def same_answer(given: str, expected: str, tolerance: float = 0.0) -> bool:
    """Whether a given answer is the expected one.

    Where a number is expected, a sentence that says one represents it; one that says an expression or several does not.

    >>> same_answer("She has 12 apples left.", "12"), same_answer("2/3", "0.6666666666666666")
    (True, True)
    """
    target = parse_number(expected) or parse_words(expected)
    if target is None:
        truths = given.strip(" .").casefold(), expected.strip(" .").casefold()
        return same_text(given, expected, tolerance) or (TRUTHS.issuperset(truths) and same_truth(*truths))
    # The whole text first: "1 1/2" is one number as a whole and several when they are searched for.
    number = parse_number(given) or parse_words(given)
    if number is None and len(given) <= MAX_CHARACTERS and _SENTENCE.search(given):
        said = sentence_number(given) or ""
        number = parse_number(said) or parse_words(said)
    if number is not None:
        return equal_numbers(number, target, tolerance)
    return normal_form(given) == normal_form(expected)  # not as prose, which loses the sign of "5!"
