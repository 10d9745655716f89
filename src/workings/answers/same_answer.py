"""Whether an answer is the expected one: numbers by value, everything else as the same text."""

import re

from workings.answers.choices import TRUTHS, same_truth
from workings.answers.final_number import sentence_number
from workings.answers.numbers import equal_numbers, parse_number, parse_words
from workings.answers.texts import same_text

_SENTENCE = re.compile(r"(?<![^\W\d_])(?<!\\)[^\W\d_]{2,}\s")


def same_answer(given: str, expected: str, tolerance: float = 0.0) -> bool:
    """Whether a given answer is the expected one.

    Where a number is expected, a sentence that says one represents it; one that says an expression or several does not.

    >>> same_answer("She has 12 apples left.", "twelve"), same_answer("2/3", "0.6666666666666666")
    (True, True)
    """
    target, number = (parse_number(text) or parse_words(text) for text in (expected, given))
    if target is None:
        truths = given.strip(" .").casefold(), expected.strip(" .").casefold()
        return same_text(given, expected, tolerance) or (TRUTHS.issuperset(truths) and same_truth(*truths))
    if number is None and _SENTENCE.search(given) and (said := sentence_number(given)):
        number = parse_number(said) or parse_words(said)
    return number is not None and equal_numbers(number, target, tolerance)
