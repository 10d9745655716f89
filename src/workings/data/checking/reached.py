"""Whether the steps of a trace lead to its answer, where that is a number."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from workings.answers.numbers import parse_number, parse_words

# Groups of three with a comma or a space; a fraction; decimals.
_NUMBER = re.compile(r"\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?(?!\d)|\d+\s?/\s?\d+|\d+(?:\.\d+)?|\.\d+")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)?", re.IGNORECASE)
# A calculation whose result ends the last step, with a unit or a few words behind it.
_ENDS_IN_RESULT = re.compile(
    rf"\d[^=\n]*[-+*/×·÷][^=\n]*=\s*\W{{0,6}}(?P<result>{_NUMBER.pattern})[^\d=\n]{{0,80}}$", re.IGNORECASE)
_COLUMN_DIGITS = 2
"""Most digits of a column's sum."""
MAX_CHARACTERS = 20_000
"""Last characters of the steps that are looked at."""


def mentions(steps: Sequence[str], answer: Fraction) -> bool:
    """Whether any step has a number that the answer may be: its value, rounded, in cents or as a percentage.

    Signs do not count: in `12-5=7` the 5 is read with a minus in front of it.
    """
    wanted = abs(answer)
    for value, exact in _numbers("\n".join(steps)[-MAX_CHARACTERS:]):
        if wanted in (value, value * 100, value / 100) or (not exact and abs(value - wanted) < 1):
            return True
    return False


def ends_elsewhere(steps: Sequence[str], answer: Fraction) -> bool:
    """Whether the last step ends in the result of a calculation that is no part of an answer that no step mentions.

    Where a sum is worked out column by column, the last result is the beginning of the answer.
    """
    last = next((step for step in reversed(steps) if step.strip()), "")[-2_000:].strip()
    found = _ENDS_IN_RESULT.search(last.rpartition("\n")[2])
    if found is None:
        return False
    result, written = found["result"], str(abs(answer.numerator))
    return not (len(result) <= _COLUMN_DIGITS and len(result) < len(written) and written.startswith(result))


def _numbers(text: str) -> Iterator[tuple[Fraction, bool]]:
    """Numbers of a text in digits and words, and whether each is a whole number, which nobody rounds."""
    for found in _NUMBER.finditer(text):
        number = parse_number(found.group()) if len(found.group()) <= 60 else None
        if number is not None:
            yield number.value, number.value.denominator == 1
        # "100 000" may be one number or two.
        if " " in found.group():
            yield from ((Fraction(part), True) for part in re.findall(r"\d+", found.group()))
    for word in set(_WORD.findall(text)):
        number = parse_words(word)
        if number is not None:
            yield number.value, True
