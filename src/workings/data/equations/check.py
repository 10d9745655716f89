"""Equations in a text, evaluated with exact fractions: right, wrong, or not read.

The one checker of arithmetic: of traces (`workings data check`), of generated data, and of what models write (step
validity, the first wrong equation). It reads plain text and LaTeX. An equation is called wrong only if it is plainly
one between numbers, no reading of it holds, and its writer claims it: a check that cries wolf is switched off.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from workings.data.equations import words
from workings.data.equations.sides import Pair, Side, pairs
from workings.data.equations.tokens import Token, tokenize
from workings.data.equations.value import DividesByZero, NotRead, values

Verdict = Literal["right", "wrong", "not read"]
_ANNOTATION = re.compile(r"<<([^<>\n]{1,300})>>")
_GLUED = re.compile(r"(?<=\d)\.(?=[A-Z][a-z])")
_CONTEXT = 120
"""Characters before and after an equation in which the writer may retract it."""
_OPERATIONS = frozenset({"frac", "fraction", "sqrt", "binom", "factorial", "power"})
# Ends of thirds, sixths and sevenths, or three places and more: hardly anybody means these exactly.
_LOOKS_ROUNDED = re.compile(r"\.\d*(?:33|66|67|17|83|14)$|\.\d{3,}$")
# Places from which on a number was printed by a program: its last digits may be a float's rounding.
_PLACES_OF_A_FLOAT = 10


@dataclass(frozen=True, slots=True)
class Equation:
    """An equation of a text."""

    start: int
    """Start of the equation, in characters of the text."""
    end: int
    written: str
    verdict: Verdict
    expected: str = ""
    """For a wrong one: the value of the side that calculates."""
    doubt: str = ""
    """For a wrong one: what its writer may have meant; empty for one that is wrong beyond doubt."""


def find_equations(text: str) -> list[Equation]:
    """Every equation of a text in order that calculates something; `a = b = c` counts as two.

    A statement such as `x = 5` or `5 = 5` calculates nothing and is left out. Time in proportion to the text.

    >>> [(one.written, one.verdict, one.expected) for one in find_equations("7+5=12, carry 1; 4+2+1=8")]
    [('7+5=12', 'right', ''), ('4+2+1=8', 'wrong', '7')]
    """
    # Most lines of most texts hold none, and looking for it is cheap.
    if not re.search(r"[=≈]|\\approx|\\simeq|\d\W*\b(?:is|equals|makes|gives)\b", text):
        return []
    # Calculator annotations (`48/2 = <<48/2=24>>24`) are separate texts; the text around them continues.
    # Blanks of the same length replace them, so that positions do not change.
    # So does a semicolon for the full stop of `= 7.The answer`, without which it would be part of a number.
    shown = _GLUED.sub(";", _ANNOTATION.sub(lambda match: " " * len(match.group()), text))
    outer = list(_equations_in(shown, text))
    inner = [replace(equation, start=equation.start + match.start(1), end=equation.end + match.start(1))
             for match in _ANNOTATION.finditer(text) for equation in _equations_in(match[1], match[1])]
    # The annotation says the same as the text around it, and one mistake should count once.
    alone = [one for one in inner if not any(
        other.start <= one.start and one.end <= other.end and other.verdict == one.verdict
        for other in _before_or_around(outer, one))]
    return sorted([*outer, *alone], key=lambda equation: (equation.start, equation.end))


def _before_or_around(outer: Sequence[Equation], one: Equation) -> Sequence[Equation]:
    """The two equations that begin last before another one: these may surround it."""
    at = bisect_right(outer, one.start, key=lambda equation: equation.start)
    return outer[max(at - 2, 0):at]


def _equations_in(shown: str, text: str) -> Iterator[Equation]:
    for pair in pairs(tokenize(shown), shown):
        judged = _judge(pair, shown)
        if judged is not None:
            verdict, expected = judged
            start, end = pair.left.start, max(pair.right.end, pair.left.end)
            yield Equation(start, end, text[start:end], verdict, expected, _doubt(pair) if verdict == "wrong" else "")


def _judge(pair: Pair, text: str) -> tuple[Verdict, str] | None:
    """Verdict and expected value; None where nothing is calculated."""
    left, right = pair.left, pair.right
    calculates = _has_operation(left.tokens), _has_operation(right.tokens)
    if not left.tokens or not right.tokens:
        return ("not read", "") if left.end and right.end and any(
            character in "+-*/^×·÷−" for character in text[left.start:right.end]) else None
    if not any(calculates):
        return None
    # `1/7 is equal to $24/4` says what something comes to; a sum that "is" a number is an equation.
    if pair.sign.kind == "says" and (calculates[1] or not _is_more_than_fraction(left.tokens)):
        return None
    try:
        left_values = _values(left)
    except DividesByZero:
        return ("wrong", "undefined") if _claimed(pair, text) else ("not read", "")
    except NotRead:
        return "not read", ""
    try:
        right_values = _values(right)
    except NotRead:
        return "not read", ""
    about = pair.sign.kind == "about"
    if any(_equal(left_value, right_value, pair, about) for left_value in left_values for right_value in right_values):
        return "right", ""
    # `2 + 3 = 5 * 2 = 10` is not an equation for a mathematician, and every calculation in it is right.
    if pair.goes_on and calculates[1] and _begins_with(right, left_values):
        return "right", ""
    if not _is_plain(pair, calculates) or _may_be_rounded(left_values, right_values, pair, text) or not _claimed(pair,
                                                                                                                 text):
        return "not read", ""
    computed, written_side = (left_values[0], right) if calculates[0] else (right_values[0], left)
    return "wrong", _spelled(computed, written_side)


def _doubt(pair: Pair) -> str:
    """What an equation that does not hold may mean: a rounding, a size, or something that is set up."""
    if not _is_more_than_fraction(pair.left.tokens) and _has_operation(pair.right.tokens):
        return "may set something up"
    if pair.sign.kind == "says" and any(token.text == "*" for token in pair.left.tokens):
        return "may name a size"
    single = _number(pair.right.tokens)
    divides = any(token.text in "/:%" or token.kind in ("frac", "fraction") for token in pair.left.tokens)
    if single is None or "." in single.text or not divides:
        return ""
    try:
        near = any(_equal(left, right, pair, True) for left in _values(pair.left) for right in _values(pair.right))
    except NotRead:  # it divides by zero
        return ""
    return "may be rounded" if near else ""


def _values(side: Side) -> tuple[Fraction, ...]:
    return tuple(value for tokens in (side.tokens, *side.others) for value in values(tokens))


def _has_operation(tokens: Sequence[Token]) -> bool:
    return any(token.kind in _OPERATIONS or (token.kind == "op" and token.text != "%") for token in tokens[1:]) or (
        bool(tokens) and tokens[0].kind in _OPERATIONS)


def _is_more_than_fraction(tokens: Sequence[Token]) -> bool:
    return _has_operation(tokens) and not (len(tokens) <= 3 and any(token.text == "/" for token in tokens))


def _number(tokens: Sequence[Token]) -> Token | None:
    """The number that a side is, with any sign, percent sign or unit."""
    numbers = [token for token in tokens if token.kind == "number"]
    return numbers[0] if len(numbers) == 1 and not _has_operation(tokens) else None


def _last_place(text: str) -> Fraction:
    """One in the last decimal place that a number shows; 1 for an integer."""
    mantissa, _, exponent = text.lower().partition("e")
    return Fraction(10) ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def _equal(computed: Fraction, written_value: Fraction, pair: Pair, about: bool) -> bool:
    """Whether two values agree within the digits that are shown, rounded or cut off."""
    gap = abs(computed - written_value)
    if gap == 0:
        return True
    slack = Fraction(0)
    for side, value in ((pair.left, computed), (pair.right, written_value)):
        single = _number(side.tokens)
        if single is not None:
            last_place, written = _last_place(single.text), Fraction(single.text)
            if last_place < 1 or about or side.cut_off:
                # A percent sign or `cents` scales the printed value.
                slack += last_place * (abs(value / written) if written else 1)
            if last_place <= Fraction(1, 10 ** _PLACES_OF_A_FLOAT):
                slack += abs(value) * Fraction(1, 10 ** (_PLACES_OF_A_FLOAT - 1))
            continue
        for token in side.tokens:
            if token.kind == "number" and (_LOOKS_ROUNDED.search(token.text) or (
                    side is pair.right and "." in token.text)) and (written := Fraction(token.text)):
                slack += abs(value) * _last_place(token.text) / written
    return gap < slack


def _begins_with(right: Side, left_values: Sequence[Fraction]) -> bool:
    first = right.tokens[0]
    if first.kind != "number":
        return False
    last_place = _last_place(first.text)
    return any(abs(value - Fraction(first.text)) < last_place if last_place < 1 else value == Fraction(first.text)
               for value in left_values)


def _is_plain(pair: Pair, calculates: tuple[bool, bool]) -> bool:
    """Whether an equation that does not hold is one between numbers beyond doubt."""
    left, right = pair.left, pair.right
    units = [{token.text.removesuffix("s") for token in side.tokens if token.kind == "unit"} for side in (left, right)]
    # `15 minutes * 4 = 1 hour` converts.
    if units[0] and right.followed_by and not any(unit in right.followed_by for unit in units[0]):
        return False
    # `14 days * 3 pills = 42 pills` counts what one of the two units says.
    counts = right.followed_by.removesuffix("s") in units[0] and all(
        token.text == "*" for token in left.tokens if token.kind == "op")
    if (len(units[0]) > 1 and not counts) or (units[0] and units[1] and units[0] != units[1]):
        return False
    if not calculates[0]:
        # `Step 3 = 4 + 1` names, `1 week = 7 * 24 hours` converts, `25% = 5 * 5` states.
        return left.alone and right.alone and {token.kind for token in left.tokens} <= {"number", "op"} and not any(
            token.text == "%" for token in (*left.tokens, *right.tokens))
    return not _is_range(pair, calculates[1])


def _is_range(pair: Pair, right_calculates: bool) -> bool:
    """Whether a left side may be a range: `Ages 5-10 = 3 people`, `Season 2010-11 = 5 wins`."""
    tokens = pair.left.tokens
    if [token.kind for token in tokens] != ["number", "op", "number"] or tokens[1].text != "-" or (
            tokens[2].end - tokens[0].start != sum(len(token.text) for token in tokens)):
        return False
    low, high = Fraction(tokens[0].text), Fraction(tokens[2].text)
    if pair.right.tokens[0].text == "-":
        return False
    # "1990-95" is a range of years although its end is smaller.
    return (low < high and (right_calculates or not pair.right.alone)) or (1900 <= low < 2100 and high < 100)


def _may_be_rounded(left_values: Sequence[Fraction], right_values: Sequence[Fraction], pair: Pair, text: str) -> bool:
    """Whether a quotient may be written without its fraction, because a word around it says so."""
    single = _number(pair.right.tokens)
    if single is None or not any(token.text in "/:" or token.kind == "frac" for token in pair.left.tokens):
        return False
    near = any(abs(value - other) < 1 for value in left_values for other in right_values)
    return near and bool(words.ROUNDED.search(_before(pair, text) + " " + _after(pair, text)))


def _claimed(pair: Pair, text: str) -> bool:
    """Whether the writer says that the equation holds, and by the arithmetic of everyday."""
    before, after = _before(pair, text), _after(pair, text)
    if words.NOT_CLAIMED_BEFORE.search(before) or words.NOT_CLAIMED_AFTER.search(after):
        return False
    # Between quotation marks it is mentioned.
    if before[-1:] in tuple("\"“‘'") and after[:1] in tuple("\"”’'"):
        return False
    return not words.OTHER_ARITHMETIC.search(text)


def _before(pair: Pair, text: str) -> str:
    """The sentence up to an equation."""
    text_before = text[max(pair.left.start - _CONTEXT, 0):pair.left.start]
    return re.split(r"\n|[.!?]\s|;\s", text_before)[-1]


def _after(pair: Pair, text: str) -> str:
    """The rest of its sentence, and the beginning of the next one."""
    text_after = text[pair.right.end:pair.right.end + _CONTEXT]
    parts = re.split(r"(?<=[.!?])\s|\n", text_after, maxsplit=2)
    return " ".join([parts[0], *(part[:40] for part in parts[1:2])])


def _spelled(value: Fraction, shown: Side) -> str:
    """A value for display: exact if it has few decimals, else with at least the other side's decimals."""
    single = _number(shown.tokens)
    places = len(single.text.partition(".")[2]) if single is not None else 0
    if value.denominator == 1:
        return str(value.numerator)
    # As few decimals as give the value exactly; thirds and sevenths never end, and are rounded below.
    for decimals in range(1, 7):
        if (value * 10 ** decimals).denominator == 1:
            return f"{float(value):.{decimals}f}"
    if not places:
        return f"{value.numerator}/{value.denominator}"
    return f"{float(value):.{min(max(places, 2), 6)}f}"
