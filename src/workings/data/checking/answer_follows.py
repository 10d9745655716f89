"""Whether the steps of a trace lead to its answer, where that is a number."""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from workings.answers.latex import plain
from workings.answers.numbers import parse_number, parse_words

# Groups of three with a comma or a space; a fraction; decimals.
_NUMBER = re.compile(r"\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?(?!\d)|\d+\s?/\s?\d+|\d+(?:\.\d+)?|\.\d+")
_BOX = re.compile(r"(=[\s$]*)?\\(?:boxed|fbox)\s*\{((?:[^{}]|\{[^{}]*\}){0,200})\}")
_CONNECTED = re.compile(r"(?:[\s,.;:$]|\b(?:so|thus|therefore|hence|then|giving|we|get|have|the|final|answer|is)\b)*",
                        re.IGNORECASE)
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)?", re.IGNORECASE)
_CALCULATES = re.compile(r"\d\D{0,40}[-+*/×·÷]")
# A result at the end of the last step, with a unit or a few words after it.
_RESULT = re.compile(rf"\W{{0,9}}(?P<result>{_NUMBER.pattern})(?P<behind>\D{{0,80}})", re.IGNORECASE)
_COLUMN_DIGITS = 2
"""Most digits of a column's sum."""
MAX_CHARACTERS = 20_000
"""Trailing characters of the steps to read."""


def mentions(steps: Sequence[str], answer: Fraction) -> bool:
    """Whether any step has a number that the answer may be: its value, rounded, in cents or as a percentage.

    Signs do not count: in `12-5=7` the 5 is read with a minus in front of it.
    """
    magnitude = abs(answer)
    for value, exact in _numbers(_shown("\n".join(steps)[-MAX_CHARACTERS:])):
        if magnitude in (value, value * 100, value / 100) or (not exact and abs(value - magnitude) < 1):
            return True
    return False


def ends_elsewhere(steps: Sequence[str], answer: Fraction) -> bool:
    """Whether the last step ends in a calculated result although no step mentions the answer.

    Where a sum is worked out column by column, the last result is the beginning of the answer.
    """
    last = next((step for step in reversed(steps) if step.strip()), "")[-2_000:].strip()
    left, equals, right = _shown(last.rpartition("\n")[2]).rpartition("=")
    match = _RESULT.fullmatch(right) if equals and _CALCULATES.search(left.rpartition("=")[2]) else None
    # "2+3=5, so the number of primes is \boxed{3}" continues after its calculation.
    if match is None or (_BOX.search(last) and not _CONNECTED.fullmatch(match["behind"])):
        return False
    result, written = match["result"], str(abs(answer.numerator))
    return not (len(result) <= _COLUMN_DIGITS and len(result) < len(written) and written.startswith(result))


def _shown(text: str) -> str:
    """LaTeX as plain text, without boxes: the content of one is the answer itself, unless a calculation gives it."""
    return plain(_BOX.sub(lambda box: f"{box[1]} {box[2]}" if box[1] else " ", text)) if "\\" in text else text


def _numbers(text: str) -> Iterator[tuple[Fraction, bool]]:
    """Numbers of a text in digits and words, and whether each is a whole number, which is never rounded."""
    for match in _NUMBER.finditer(text):
        number = parse_number(match.group()) if len(match.group()) <= 60 else None
        if number is not None:
            yield number.value, number.value.denominator == 1
        # "100 000" may be one number or two.
        if " " in match.group():
            yield from ((Fraction(part), True) for part in re.findall(r"\d+", match.group()))
    for word in set(_WORD.findall(text)):
        number = parse_words(word)
        if number is not None:
            yield number.value, True
