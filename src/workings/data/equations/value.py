"""The exact value of one side of an equation, in every reading that a careful writer may have meant.

An equation is called wrong only when no reading of its sides holds, so an ambiguous notation has several values here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb, factorial, isqrt

from workings.data.equations.tokens import Token

MAX_TOKENS = 200
"""Tokens of one side; a longer one is not read."""
MAX_BITS = 4_000
"""Maximum bits of numerator or denominator, because exact fractions grow without bound."""
# An open bracket costs eight frames of Python's stack and a sign one: together they stay far below its limit.
_MAX_DEPTH = 40
_MAX_EXPONENT = 64
_MULTIPLIED_WITHOUT_SIGN = frozenset({"open", "frac", "fraction", "sqrt", "binom"})
_STRENGTHS = {"+": 1, "-": 1, "*": 2, "of": 2, "/": 2, ":": 2}
_END = Token("end", "", 0, 0)
# 100! has 525 bits.
_MAX_FACTORIAL = 100


class NotRead(Exception):
    """The tokens are not one whole expression between numbers, or it is too large."""


class DividesByZero(NotRead):
    """The expression divides by zero."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """One reading of ambiguous notation."""

    tight: bool = False
    """`a/b` without spaces, and products without a sign, bind before other products: `25 / 1/3`, `6/2(3)`."""
    minus_first: bool = False
    """`-2^2` is 4."""
    percent: str = "part"
    """`part`: a hundredth; `unit`: 20 % is 20; `of_sum`: `80 - 25%` takes a quarter away."""
    plain_units: bool = False
    """`million` and `cents` are units of both sides and change nothing."""


def values(tokens: Sequence[Token]) -> tuple[Fraction, ...]:
    """All values that the tokens may have, the usual reading first.

    Raises:
        NotRead: no reading is an expression; `DividesByZero` where the usual one divides by zero.
    """
    if len(tokens) == 1 and tokens[0].kind == "number":
        return (Fraction(tokens[0].text),)
    if not tokens or len(tokens) > MAX_TOKENS or sum(token.kind == "open" for token in tokens) > _MAX_DEPTH:
        raise NotRead
    kinds = {token.kind for token in tokens}
    texts = [token.text for token in tokens]
    numbers: list[Fraction] = []
    # A second reading is tried only where its notation is used.
    # Of 24 readings at most; nearly every side has one.
    divisions = sum(text in ("/", ":") for text in texts) + ("open" in kinds and "/" in texts)
    for choice in product(
            (False, True) if divisions > 1 else (False,),
            (False, True) if "-" in texts and ("^" in texts or "power" in kinds) else (False,),
            ("part", "unit", "of_sum") if "%" in texts else ("part",),
            (False, True) if kinds & {"scale", "cents"} else (False,)):
        try:
            numbers.append(_Expression(tokens, _Reading(*choice)).value())
        except NotRead:
            # What fails in the usual reading is not rescued by another one.
            if not numbers:
                raise
    return tuple(dict.fromkeys(numbers))


class _Expression:
    """Precedence climbing. Powers bind from the right: `2^3^2` is 512."""

    def __init__(self, tokens: Sequence[Token], reading: _Reading) -> None:
        self._tokens, self._reading, self._at, self._signs = (*tokens, _END), reading, 0, 0

    def value(self) -> Fraction:
        value = self._read(1)
        if self._token is not _END:
            raise NotRead
        return value

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _next_is(self, *texts: str) -> bool:
        return self._token.kind == "op" and self._token.text in texts

    def _take(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _read(self, least: int) -> Fraction:
        """Operations that bind at least this strongly: 1 for sums, 2 for products, 3 for what is `tight`."""
        value = self._signed()
        while (strength := self._strength()) >= least:
            sign = self._take().text if self._token.kind == "op" else "*"
            start = self._at
            operand = self._read(strength + 1)
            # Bounded at every step: the numerators of long products would grow without end.
            if sign in "/:":
                value = _divided(value, operand)
            elif strength > 1:
                value = _bounded(value * operand)
            else:
                # `80 - 25%`: only where the percentage is all of the term.
                alone = self._at == start + 2 and self._tokens[start + 1].text == "%"
                if self._reading.percent == "of_sum" and alone:
                    operand = value * operand / 100
                value = _bounded(value + operand if sign == "+" else value - operand)
        return value

    def _strength(self) -> int:
        """How strongly the next token binds two values; 0 for one that does not."""
        token = self._token
        if token.kind in _MULTIPLIED_WITHOUT_SIGN:
            return 3 if self._reading.tight else 2
        if token.kind != "op":
            return 0
        tight = token.text == "/" and self._reading.tight and self._binds_tightly()
        return 3 if tight else _STRENGTHS.get(token.text, 0)

    def _binds_tightly(self) -> bool:
        """Whether a stroke makes a fraction of its two numbers: without spaces, or the last one of `14 / 1 / 4`."""
        before, stroke, after = self._tokens[self._at - 1:self._at + 2]
        unspaced = before.end == stroke.start and stroke.end == after.start
        return after.kind == "number" and (unspaced or (len(self._tokens) == 6 and self._at == 3))

    def _signed(self) -> Fraction:
        if not self._next_is("-", "+"):
            return self._raised(self._postfix())
        self._signs += 1
        if self._signs > _MAX_DEPTH:
            raise NotRead
        minus = self._take().text == "-"
        # A minus of the first number, if it binds stronger than the power.
        if minus and self._reading.minus_first and self._token.kind == "number":
            return self._raised(-self._postfix())
        value = self._signed()
        return -value if minus else value

    def _raised(self, base: Fraction) -> Fraction:
        if self._token.kind == "power":
            try:
                return _raise(base, Fraction(self._take().text))
            except ValueError:
                raise NotRead from None
        if not self._next_is("^"):
            return base
        self._take()
        minus = self._next_is("-") and bool(self._take())
        exponent = self._raised(self._postfix())
        # `9^1/2` is written for a root as often as for a half of 9.
        if self._next_is("/") and self._tokens[self._at - 1].end == self._token.start:
            raise NotRead
        return _raise(base, -exponent if minus else exponent)

    def _postfix(self) -> Fraction:
        value = self._atom()
        while True:
            token = self._token
            if self._next_is("%"):
                value = value if self._reading.percent != "part" else value / 100
            elif token.kind == "factorial":
                # Bounded, because a model may write any number in front of the mark.
                if value.denominator != 1 or not 0 <= value <= _MAX_FACTORIAL:
                    raise NotRead
                value = Fraction(factorial(int(value)))
            elif token.kind in ("scale", "cents"):
                value = value if self._reading.plain_units else _bounded(value * Fraction(token.text))
            elif token.kind != "unit":
                return value
            self._take()

    def _atom(self) -> Fraction:
        token = self._take()
        match token.kind:
            case "number":
                return _bounded(Fraction(token.text))
            case "fraction":
                digits = [character for character in token.text if character.isdigit()]
                return _divided(Fraction(digits[0]), Fraction(digits[1]))
            case "open":
                value = self._read(1)
                if self._take().text != {"(": ")", "[": "]", "{": "}"}[token.text]:
                    raise NotRead
                return value
            case "frac":
                return _divided(self._group(), self._group())
            case "sqrt":
                return _root(self._group())
            case "binom":
                return _binomial(self._group(), self._group())
        raise NotRead

    def _group(self) -> Fraction:
        """The argument of a LaTeX command: braces, or one number."""
        if self._token.kind == "open" or (self._token.kind == "number" and len(self._token.text) <= 4):
            return self._atom()
        raise NotRead


def _bounded(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise NotRead
    return value


def _divided(top: Fraction, bottom: Fraction) -> Fraction:
    if bottom == 0:
        raise DividesByZero
    return _bounded(top / bottom)


def _raise(base: Fraction, exponent: Fraction) -> Fraction:
    # A root is not expected in a worked step, and a large power is not worked out at all.
    if exponent.denominator != 1 or abs(exponent) > _MAX_EXPONENT:
        raise NotRead
    if exponent < 0 and base == 0:
        raise DividesByZero
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    # How large a power gets is known before it is worked out.
    if bits * abs(exponent) > MAX_BITS:
        raise NotRead
    return base ** int(exponent)


def _binomial(top: Fraction, bottom: Fraction) -> Fraction:
    if top.denominator != 1 or bottom.denominator != 1 or not 0 <= bottom <= top <= _MAX_FACTORIAL:
        raise NotRead
    return Fraction(comb(int(top), int(bottom)))


def _root(value: Fraction) -> Fraction:
    """The square root of a square; of anything else it is not a fraction."""
    if value < 0:
        raise NotRead
    # Fractions are reduced, so that one is a square where its top and its bottom are.
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    if root * root != value:
        raise NotRead
    return root
