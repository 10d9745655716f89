"""Numbers written in words: ``seventy-five``, ``one hundred and five``, ``two thirds``, ``two point five``."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import takewhile

SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SMALL = {word: value for value, word in enumerate((
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"))} | {
    word: 10 * value for value, word in enumerate((
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), start=2)} | {
    "once": 1, "twice": 2, "thrice": 3}
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8,
          "ninth": 9, "tenth": 10, "twelfth": 12, "hundredth": 100, "thousandth": 1000}
_PARTS |= {f"{part}s": value for part, value in _PARTS.items() if part != "half"} | {"halves": 2}
_FACTORS = frozenset((*SCALES, "hundred"))
WORDS = frozenset((*_SMALL, *_FACTORS))
"""Words that a number consists of."""


def read_words(words: Sequence[str]) -> tuple[Fraction, int] | None:
    """The number that words in lower case begin with, and how many of these words it takes.

    None if they begin with no number, with two side by side ("five six"), or with an ordinal ("twenty-third").

    >>> read_words(["one", "hundred", "and", "five", "apples"]), read_words(["two", "thirds"])
    ((Fraction(105, 1), 4), (Fraction(2, 3), 2))
    >>> read_words(["five", "six"]), read_words(["twenty", "third"])
    (None, None)
    """
    has_article = len(words) > 1 and words[0] in ("a", "an") and words[1] in _FACTORS
    at = begin = int(has_article)
    # "two thousand one hundred": total 2000, current 100. With an article current is 1: "a hundred" is one hundred.
    total, current, last_scale = 0, int(has_article), 10**15
    while at < len(words):
        word, below_hundred = words[at], current % 100
        if word in _SMALL:
            # "twenty five" is one number, "five six" is two.
            if below_hundred and not (below_hundred >= 20 and below_hundred % 10 == 0 and 0 < _SMALL[word] < 10):
                return None
            current += _SMALL[word]
        elif word == "hundred" and 0 < current < 100:
            current *= 100
        elif word in SCALES and current and SCALES[word] < last_scale:
            last_scale = SCALES[word]
            total, current = total + current * last_scale, 0
        elif not (word == "and" and at and words[at - 1] in _FACTORS and set(words[at + 1:at + 2]) & _SMALL.keys()):
            break
        at += 1
    if at == begin:
        return None
    value = Fraction(total + current)
    part = words[at] if at < len(words) else ""
    if part == "point":
        digits = [str(_SMALL[word]) for word in takewhile(lambda word: _SMALL.get(word, 10) < 10, words[at + 1:])]
        return (value + Fraction(f"0.{''.join(digits)}"), at + 1 + len(digits)) if digits else None
    if part not in _PARTS:
        return value, at
    # "one third" and "two thirds" are parts, "twenty-third" is an ordinal.
    is_plural = part.endswith("s")
    return (value / _PARTS[part], at + 1) if is_plural == (value != 1) else None
