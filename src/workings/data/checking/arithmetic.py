"""Equations in a text, computed again with exact fractions.

Only what is plainly an equation between numbers is looked at (`7 x 8 = 56`, `$3.50*2=$7`, `20/3 = 6.67`): a check that
cries wolf is switched off. Words between the numbers, or a word like `half of` in front, end the equation.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

# Alternatives are tried in order: `x` multiplies before a number and is a word elsewhere, and what nothing else takes
# is `other`, so that every character belongs to a token.
_TOKEN = re.compile(r"""
    (?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)
  | (?P<operator>\*\*|[-+*/^×÷·−–²³()%]|(?<![A-Za-z])[xX](?=\s*[$€£]?\s*[\d.(]))
  | (?P<equals>=|≈)
  | (?P<currency>[$€£]\s*)
  | (?P<space>\s+)
  | (?P<word>[^\W\d_]+)
  | (?P<other>.)
""", re.VERBOSE | re.DOTALL)
_SAME = {"×": "*", "·": "*", "x": "*", "X": "*", "÷": "/", "−": "-", "–": "-", "**": "^"}
_CHANGES_THE_VALUE = {"of", "half", "twice", "thrice", "double", "triple", "quarter", "third", "thirds", "times",
                      "plus", "minus", "over", "by", "per", "to", "sqrt", "log", "sin", "cos", "than", "and"}
_CHANGES_THE_LAST = {"and", "cent", "cents", "percent", "hundred", "thousand", "million", "billion", "dozen", "halves",
                     "plus", "minus", "times"}
_BINARY = set("-+*/^×÷·−–²³)%")
# A number that begins with 0 and a digit is part of a time, a date or a code.
_CLOCK = re.compile(r"0\d")
_PUNCTUATION = set(".,:;!?\"'`“”‘’[{<>}]#&\u2022~")
# Exact fractions never overflow, they only grow: without bounds one `9^999999999` would fill the memory.
_MAX_EXPONENT = 64
_MAX_DIGITS = 400


@dataclass(frozen=True)
class Equation:
    """An equation found in a text."""

    text: str
    holds: bool
    """Whether both sides are equal, or the right one is the left one as rounded to the digits that it shows."""


def equations(text: str) -> list[Equation]:
    """All equations of a text, in order; `a = b = c` counts as two."""
    return [found for run in _runs(text) for found in _checked(run)]


def wrong_equations(text: str) -> list[str]:
    """The equations of a text that do not hold."""
    return [equation.text for equation in equations(text) if not equation.holds]


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


@dataclass(frozen=True)
class _Run:
    """A stretch of numbers, operators and equals signs, and whether its last side is all there is of that number."""

    tokens: Sequence[_Token]
    whole: bool


def _runs(text: str) -> list[_Run]:
    """The stretches without anything in between that would change their value."""
    runs: list[_Run] = []
    current: list[_Token] = []
    started, usable, before = False, True, ""
    for match in _TOKEN.finditer(text):
        kind, piece = match.lastgroup or "other", match.group()
        if kind == "space":
            continue
        if kind not in ("word", "other"):
            if not started:
                # `18 pink - 6 = 12` begins before the word; what is behind it is no equation
                usable = before.casefold() not in _CHANGES_THE_VALUE and not (before and piece in _BINARY)
            started = True
            if kind != "currency":
                current.append(_Token(kind, _SAME.get(piece, piece)))
            elif current and current[-1].kind == "number":
                current.append(_Token("operator", "?"))  # two amounts side by side are no expression
            continue
        if current and usable:
            variable = kind == "word" and len(piece) == 1 and text[match.start() - 1].isdigit()  # `5A/5`
            runs.append(_Run(current, not variable and piece.casefold() not in _CHANGES_THE_LAST))
        current, started = [], False
        in_a_number = bool(re.fullmatch(r"\d:\d", text[max(match.start() - 1, 0):match.end() + 1]))  # the time of day
        before = piece if kind == "word" else "of" if in_a_number or piece not in _PUNCTUATION else ""
    return [*runs, _Run(current, True)] if current and usable else runs


def _checked(run: _Run) -> list[Equation]:
    sides: list[list[_Token]] = [[]]
    # rounded[i] belongs to the sign between sides i and i + 1.
    rounded = [token.text == "≈" for token in run.tokens if token.kind == "equals"]
    for token in run.tokens:
        if token.kind == "equals":
            sides.append([])
        else:
            sides[-1].append(token)
    if len(sides) < 2:
        return []
    values = [_value(side) for side in sides]
    if not run.whole:
        values[-1] = None
    found = []
    for left, right, a, b, about in zip(sides, sides[1:], values, values[1:], rounded, strict=False):
        # A left side without an operation (`x = 5`) states something and computes nothing.
        if b is None or not any(token.kind == "operator" and token.text not in "()%" for token in left):
            continue
        # What cannot be read is nobody's mistake, but for a division by zero.
        if a is None:
            if _divides_by_zero(left):
                found.append(Equation(_spelled(left, right), False))
            continue
        found.append(Equation(_spelled(left, right), any(_equal(left_value, b, right, about)
                                                         for left_value in (a, *_other_reading(left)))))
    return found


def _other_reading(side: Sequence[_Token]) -> list[Fraction]:
    """`25 / 1/3` is written for 25 divided by a third; both readings are accepted."""
    if [token.text if token.kind == "operator" else token.kind for token in side] != ["number", "/"] * 2 + ["number"]:
        return []
    first, second, third = (Fraction(token.text.replace(",", "")) for token in side[::2])
    return [first * third / second] if second else []


def _spelled(left: Sequence[_Token], right: Sequence[_Token]) -> str:
    return "".join(token.text for token in left) + "=" + "".join(token.text for token in right)


def _equal(left: Fraction, right: Fraction, shown: Sequence[_Token], about: bool) -> bool:
    percent = bool(shown) and shown[-1].text == "%"
    candidates = [(right, 100 if percent else 1)]  # a value, and how many of the units that are shown make one
    if percent:
        candidates.append((right * 100, 1))  # `5/25*100 = 20%`
    # Digits that were rounded are known only where the right side is a single number, with its percent sign or without.
    decimals = len(shown[0].text.partition(".")[2]) if len(shown) == 1 + percent else 0
    for value, units in candidates:
        slack = Fraction(1, 10 ** decimals * units) if decimals or about else Fraction(0)  # rounded or cut off
        if left == value or abs(left - value) < slack:
            return True
    return False


class _NoExpression(Exception):
    """The tokens are not one whole expression."""


class _ZeroDivision(Exception):
    """The expression divides by zero."""


def _value(tokens: Sequence[_Token]) -> Fraction | None:
    try:
        return _Expression(tokens).value()
    except (_NoExpression, _ZeroDivision):
        return None


def _divides_by_zero(tokens: Sequence[_Token]) -> bool:
    try:
        _Expression(tokens).value()
    except _ZeroDivision:
        return True
    except _NoExpression:
        return False
    return False


class _Expression:
    """Recursive descent over + - * / ^ % and brackets; depth is bounded by the number of open brackets."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        # An open bracket costs four frames of Python's stack and a leading minus one: both bounds together stay below
        # the usual limit of 1,000.
        if sum(token.text == "(" for token in tokens) > 50 or len(tokens) > 500:
            raise _NoExpression
        self._tokens, self._at = tokens, 0

    def value(self) -> Fraction:
        found = self._sum()
        if self._at != len(self._tokens):
            raise _NoExpression
        return found

    def _next(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _sum(self) -> Fraction:
        found = self._product()
        while self._next() in ("+", "-"):
            sign = 1 if self._take() == "+" else -1
            found += sign * self._product()
        return found

    def _product(self) -> Fraction:
        found = self._power()
        while self._next() in ("*", "/"):
            if self._take() == "*":
                found *= self._power()
            else:
                divisor = self._power()
                if divisor == 0:
                    raise _ZeroDivision
                found /= divisor
        return found

    def _power(self) -> Fraction:
        found = self._atom()
        while self._next() in ("^", "²", "³"):
            sign = self._take()
            exponent = self._atom() if sign == "^" else Fraction({"²": 2, "³": 3}[sign])
            # A root or a reciprocal is not expected in a worked step; such an equation is not judged.
            if exponent.denominator != 1 or not 0 <= exponent <= _MAX_EXPONENT:
                raise _NoExpression
            found **= int(exponent)
        return found

    def _atom(self) -> Fraction:
        if self._at == len(self._tokens):
            raise _NoExpression
        token = self._tokens[self._at]
        self._at += 1
        if token.text == "-":
            return -self._atom()
        if token.text == "(":
            found = self._sum()
            if self._take() != ")":
                raise _NoExpression
        elif token.kind == "number" and len(token.text) <= _MAX_DIGITS and not _CLOCK.match(token.text):
            found = Fraction(token.text.replace(",", ""))
        else:
            raise _NoExpression
        while self._next() == "%":
            self._take()
            found /= 100
        return found

    def _take(self) -> str:
        text = self._next()
        if not text:
            raise _NoExpression
        self._at += 1
        return text
