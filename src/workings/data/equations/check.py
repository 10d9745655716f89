"""Finds the equations of a text and works them out with exact fractions: right, wrong, or not read.

    7 + 5 = 12, carry 1; 4 + 2 + 1 = 8
    └── right ┘          └─── wrong ──┘

This is the only checker of arithmetic. It reads traces (`workings data check`), generated data, and what models write
(step validity, the first wrong equation), plain or in LaTeX. An equation is called wrong only if it is plainly one
between numbers, no reading of it holds, and its writer claims it.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from workings.data.equations import words
from workings.data.equations.sides import Pair, Side, pairs
from workings.data.equations.tokens import tokenize
from workings.data.equations.value import DividesByZero, NotRead, values

Verdict = Literal["right", "wrong", "not read"]
_ANNOTATION = re.compile(r"<<([^<>\n]{1,300})>>")
# The full stop of `= 7.The answer`.
_STOP_BEFORE_SENTENCE = re.compile(r"(?<=\d)\.(?=[A-Z][a-z])")
_CONTEXT = 120
"""Characters before and after an equation in which the writer may retract it."""
# Ends of thirds, sixths and sevenths, or three decimals and more: such numbers are usually rounded.
_LOOKS_ROUNDED = re.compile(r"\.\d*(?:33|66|67|17|83|14)$|\.\d{3,}$")
# A number with as many decimals was printed by a program. Its last digits may be a float's error.
_DECIMALS_OF_A_FLOAT = 10
_MOST_DECIMALS_SHOWN = 6
_OPENING_QUOTES, _CLOSING_QUOTES = tuple("\"“‘'"), tuple("\"”’'")


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation of a text."""

    start: int
    """First character in the text."""
    end: int
    written: str
    verdict: Verdict
    expected: str = ""
    """For a wrong one: the value of the side that calculates."""
    doubt: str = ""
    """For a wrong one: what its writer may have meant; empty for one that is wrong beyond doubt."""


def find_equations(text: str) -> list[Equation]:
    """Every equation of a text in order that calculates something; `a = b = c` counts as two.

    A statement such as `x = 5` or `5 = 5` calculates nothing and is left out. The time is in proportion to the text.

    >>> [(one.written, one.verdict, one.expected) for one in find_equations("7+5=12, carry 1; 4+2+1=8")]
    [('7+5=12', 'right', ''), ('4+2+1=8', 'wrong', '7')]
    """
    # Most lines of most texts have none, and this test is cheap.
    if not re.search(r"[=≈]|\\approx|\\simeq|\d\W*\b(?:is|equals|makes|gives)\b", text):
        return []
    # Calculator annotations (`48/2 = <<48/2=24>>24`) are separate texts; as many spaces take their place.
    masked = _STOP_BEFORE_SENTENCE.sub(";", _ANNOTATION.sub(lambda match: " " * len(match.group()), text))
    outer = list(_equations_in(masked, text))
    inner = [replace(equation, start=equation.start + match.start(1), end=equation.end + match.start(1))
             for match in _ANNOTATION.finditer(text) for equation in _equations_in(match[1], match[1])]
    new = [equation for equation in inner if not _is_repeated(equation, outer)]
    return sorted([*outer, *new], key=lambda equation: (equation.start, equation.end))


def _is_repeated(inner: Equation, outer: Sequence[Equation]) -> bool:
    """Whether an equation around an annotation says the same as the annotation: one mistake counts once."""
    index = bisect_right(outer, inner.start, key=lambda equation: equation.start)
    # Only the two equations that begin last before it may surround it.
    return any(other.start <= inner.start and inner.end <= other.end and other.verdict == inner.verdict
               for other in outer[max(index - 2, 0):index])


def _equations_in(masked: str, text: str) -> Iterator[Equation]:
    """The equations of a ``masked`` text, written as in the ``text`` itself, which has the same length."""
    for pair in pairs(tokenize(masked), masked):
        verdict = _verdict(pair, masked)
        if verdict is None:
            continue
        start, end = pair.left.start, max(pair.right.end, pair.left.end)
        if verdict == "wrong":
            yield Equation(start, end, text[start:end], verdict, _expected(pair), _doubt(pair))
        else:
            yield Equation(start, end, text[start:end], verdict)


def _verdict(pair: Pair, text: str) -> Verdict | None:
    """The verdict about a pair of sides; None where nothing is calculated."""
    left, right = pair.left, pair.right
    if not left.tokens or not right.tokens:
        has_signs = any(character in "+-*/^×·÷−" for character in text[left.start:right.end])
        return "not read" if left.end and right.end and has_signs else None
    if not (left.calculates or right.calculates):
        return None
    # `1/7 is equal to $24/4` says what something comes to; a sum that "is" a number is an equation.
    if pair.sign.kind == "says" and (right.calculates or not _is_more_than_fraction(left)):
        return None
    try:
        left_values = _values(left)
    except DividesByZero:
        return "wrong" if _is_claimed(pair, text) else "not read"
    except NotRead:
        return "not read"
    try:
        right_values = _values(right)
    except NotRead:
        return "not read"
    is_about = pair.sign.kind == "about"
    if any(_agree(one, other, pair, is_about=is_about) for one in left_values for other in right_values):
        return "right"
    # `2 + 3 = 5 * 2 = 10` is not an equation for a mathematician, and every calculation in it is right.
    if pair.goes_on and right.calculates and _begins_with(right, left_values):
        return "right"
    may_hold = not _is_plain(pair) or _may_be_rounded(left_values, right_values, pair, text)
    return "not read" if may_hold or not _is_claimed(pair, text) else "wrong"


def _expected(pair: Pair) -> str:
    """What a wrong equation should say: the value of the side that calculates."""
    try:
        left_values = _values(pair.left)
    except DividesByZero:
        return "undefined"
    if pair.left.calculates:
        return _spelled(left_values[0], pair.right)
    return _spelled(_values(pair.right)[0], pair.left)


def _doubt(pair: Pair) -> str:
    """What the writer of a wrong equation may have meant: a rounding, a size, or something that is set up."""
    left, right = pair.left, pair.right
    if right.calculates and not _is_more_than_fraction(left):
        return "may set something up"
    if pair.sign.kind == "says" and left.has("*"):
        return "may name a size"
    divides = left.has("/", ":", "%", "frac", "fraction")
    if right.number is None or "." in right.number.text or not divides:
        return ""
    try:
        is_near = any(_agree(one, other, pair, is_about=True) for one in _values(left) for other in _values(right))
    except DividesByZero:
        return ""
    return "may be rounded" if is_near else ""


def _values(side: Side) -> tuple[Fraction, ...]:
    """The values of a side in all its readings."""
    return tuple(value for tokens in (side.tokens, *side.others) for value in values(tokens))


def _is_more_than_fraction(side: Side) -> bool:
    is_fraction = len(side.tokens) <= 3 and side.has("/")
    return side.calculates and not is_fraction


def _last_place(number: str) -> Fraction:
    """One in the last decimal place that a number shows; 1 for an integer."""
    mantissa, _, exponent = number.lower().partition("e")
    return Fraction(10) ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def _agree(left_value: Fraction, right_value: Fraction, pair: Pair, *, is_about: bool) -> bool:
    """Whether two values agree within the digits that are shown, rounded or cut off."""
    if left_value == right_value:
        return True
    slack = _slack(pair.left, left_value, is_about) + _slack(pair.right, right_value, is_about, is_right=True)
    return abs(left_value - right_value) < slack


def _slack(side: Side, value: Fraction, is_about: bool, *, is_right: bool = False) -> Fraction:
    """How far the value of a side may be off, because its numbers are rounded or cut off."""
    slack = Fraction(0)
    if side.number is not None:
        last_place, written = _last_place(side.number.text), Fraction(side.number.text)
        if last_place < 1 or is_about or side.cut_off:
            # A percent sign or `cents` scales the printed number.
            slack += last_place * (abs(value / written) if written else 1)
        if last_place <= Fraction(1, 10 ** _DECIMALS_OF_A_FLOAT):
            slack += abs(value) * Fraction(1, 10 ** (_DECIMALS_OF_A_FLOAT - 1))
        return slack
    for token in side.tokens:
        may_be_rounded = _LOOKS_ROUNDED.search(token.text) or (is_right and "." in token.text)
        if token.kind == "number" and may_be_rounded and Fraction(token.text):
            slack += abs(value) * _last_place(token.text) / Fraction(token.text)
    return slack


def _begins_with(right: Side, left_values: Sequence[Fraction]) -> bool:
    """Whether a right side begins with a number that is a value of the left side."""
    first = right.tokens[0]
    if first.kind != "number":
        return False
    last_place, written = _last_place(first.text), Fraction(first.text)
    if last_place < 1:
        return any(abs(value - written) < last_place for value in left_values)
    return written in left_values


def _is_plain(pair: Pair) -> bool:
    """Whether an equation that does not hold is one between numbers beyond doubt."""
    left, right = pair.left, pair.right
    left_units, right_units = ({token.text.removesuffix("s") for token in side.tokens if token.kind == "unit"}
                               for side in (left, right))
    # `15 minutes * 4 = 1 hour` converts.
    if left_units and right.followed_by and not any(unit in right.followed_by for unit in left_units):
        return False
    # `14 days * 3 pills = 42 pills` counts what one of the two units says.
    only_multiplies = all(token.text == "*" for token in left.tokens if token.kind == "op")
    counts = only_multiplies and right.followed_by.removesuffix("s") in left_units
    if len(left_units) > 1 and not counts:
        return False
    if left_units and right_units and left_units != right_units:
        return False
    if left.calculates:
        return not _is_range(pair)
    # `Step 3 = 4 + 1` names, `1 week = 7 * 24 hours` converts, `25% = 5 * 5` states.
    is_number = all(token.kind in ("number", "op") for token in left.tokens)
    return left.alone and right.alone and is_number and not (left.has("%") or right.has("%"))


def _is_range(pair: Pair) -> bool:
    """Whether a left side may be a range: `Ages 5-10 = 3 people`, `Season 2010-11 = 5 wins`."""
    tokens, right = pair.left.tokens, pair.right
    if [token.kind for token in tokens] != ["number", "op", "number"] or tokens[1].text != "-":
        return False
    has_spaces = tokens[2].end - tokens[0].start != sum(len(token.text) for token in tokens)
    if has_spaces or right.tokens[0].text == "-":
        return False
    low, high = Fraction(tokens[0].text), Fraction(tokens[2].text)
    if low < high:
        return right.calculates or not right.alone
    # `1990-95` is a range of years although its end is smaller.
    return 1900 <= low < 2100 and high < 100


def _may_be_rounded(left_values: Sequence[Fraction], right_values: Sequence[Fraction], pair: Pair, text: str) -> bool:
    """Whether a quotient may be written without its fraction, because a word around it says so."""
    if pair.right.number is None or not pair.left.has("/", ":", "frac"):
        return False
    is_near = any(abs(one - other) < 1 for one in left_values for other in right_values)
    return is_near and words.ROUNDED.search(f"{_before(pair, text)} {_after(pair, text)}") is not None


def _is_claimed(pair: Pair, text: str) -> bool:
    """Whether the writer says that the equation holds, and by everyday arithmetic."""
    before, after = _before(pair, text), _after(pair, text)
    if words.NOT_CLAIMED_BEFORE.search(before) or words.NOT_CLAIMED_AFTER.search(after):
        return False
    is_quoted = before.endswith(_OPENING_QUOTES) and after.startswith(_CLOSING_QUOTES)
    return not is_quoted and not words.OTHER_ARITHMETIC.search(text)


def _before(pair: Pair, text: str) -> str:
    """The sentence up to an equation."""
    return re.split(r"\n|[.!?]\s|;\s", text[max(pair.left.start - _CONTEXT, 0):pair.left.start])[-1]


def _after(pair: Pair, text: str) -> str:
    """The rest of an equation's sentence, and the beginning of the next one."""
    rest, *following = re.split(r"(?<=[.!?])\s|\n", text[pair.right.end:pair.right.end + _CONTEXT], maxsplit=2)
    return f"{rest} {following[0][:40]}" if following else rest


def _spelled(value: Fraction, other: Side) -> str:
    """A value for display: exact if it has few decimals, else with at least the decimals of the other side."""
    if value.denominator == 1:
        return str(value.numerator)
    for decimals in range(1, _MOST_DECIMALS_SHOWN + 1):
        if (value * 10 ** decimals).denominator == 1:
            return f"{float(value):.{decimals}f}"
    decimals = len(other.number.text.partition(".")[2]) if other.number is not None else 0
    if decimals == 0:
        return f"{value.numerator}/{value.denominator}"
    return f"{float(value):.{min(max(decimals, 2), _MOST_DECIMALS_SHOWN)}f}"
