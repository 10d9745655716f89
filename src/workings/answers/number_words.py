"""Numbers written in words: ``seventy-five``, ``one hundred and five``, ``two thirds``, ``two point five``."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile

SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_SMALL = {word: value for value, word in enumerate((
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"))} | {
    word: 10 * value for value, word in enumerate((
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), start=2)}
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8,
          "ninth": 9, "tenth": 10, "twelfth": 12, "hundredth": 100, "thousandth": 1000}
_PARTS |= {f"{part}s": value for part, value in _PARTS.items() if part != "half"} | {"halves": 2}
_ORDINAL = re.compile(r"first|second|.*th|" + "|".join(_PARTS))
_SIGNS = {"minus": -1, "negative": -1}
WORDS = frozenset((*_SMALL, *SCALES, "hundred"))
"""Words that a number may begin with or consist of."""


@dataclass(frozen=True, slots=True)
class InWords:
    """A number at the beginning of some words."""

    value: Fraction
    taken: int
    """How many of the words it is."""


def read_words(words: Sequence[str]) -> InWords | None:
    """The number that words in lower case begin with; None where they begin with none, or with two side by side.

    >>> read_words(["one", "hundred", "and", "five", "apples"])
    InWords(value=Fraction(105, 1), taken=4)
    >>> read_words(["twenty", "first"]) is None
    True
    """
    start = 1 if words and words[0] in _SIGNS else 0
    sign = _SIGNS[words[0]] if start else 1
    span = _whole(words, start)
    if span is None:
        return None
    value, at = span
    following = words[at] if at < len(words) else ""
    if following == "point":
        digits = [str(_SMALL[word]) for word in takewhile(lambda word: _SMALL.get(word, 10) < 10, words[at + 1:])]
        return InWords(sign * (value + Fraction(int("".join(digits)), 10 ** len(digits))), at + 1 + len(digits)
                       ) if digits else None
    if following in _PARTS:
        # "one third" and "two thirds" are parts; "twenty-third" is a place in a row.
        plural = following.endswith("s")
        return InWords(sign * value / _PARTS[following], at + 1) if plural == (value != 1) else None
    return None if _ORDINAL.fullmatch(following) and value % 10 == 0 else InWords(sign * value, at)


def _whole(words: Sequence[str], at: int) -> tuple[Fraction, int] | None:
    """A whole number and its end."""
    total = current = words_read = 0
    last_scale = 10**15
    if at + 1 < len(words) and words[at] in ("a", "an") and words[at + 1] in (*SCALES, "hundred"):
        current, at = 1, at + 1
    while at < len(words):
        word = words[at]
        if word in _SMALL:
            tens = current % 100
            # "twenty five" is one number, "five six" is two.
            if tens and not (tens >= 20 and tens % 10 == 0 and 0 < _SMALL[word] < 10):
                return None
            current += _SMALL[word]
        elif word == "hundred" and 0 < current < 100:
            current *= 100
        elif word in SCALES and current and SCALES[word] < last_scale:
            last_scale = SCALES[word]
            total, current = total + current * last_scale, 0
        elif not (word == "and" and words_read and at + 1 < len(words) and words[at + 1] in _SMALL
                  and words[at - 1] in (*SCALES, "hundred")):
            break
        words_read, at = words_read + 1, at + 1
    return (Fraction(total + current), at) if words_read else None
