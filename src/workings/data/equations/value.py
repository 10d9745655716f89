"""Works out one side of an equation exactly, in every reading that a careful writer may have meant.

`6/2(3)` is 9 or 1, and `20%` is 1/5 or 20. An equation is called wrong only if no reading of its sides holds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import comb, factorial, isqrt

from workings.data.equations.tokens import Token

MAX_TOKENS = 200
"""Tokens of one side; a longer one is not read."""
MAX_BITS = 4_000
"""Maximum bits of a numerator or denominator, because exact fractions grow without bound."""
# An open bracket takes eight frames of Python's stack, and a sign one. As many stay far below the stack's limit.
_MAX_DEPTH = 40
_MAX_EXPONENT = 64
_MAX_FACTORIAL = 100  # 100! has 525 bits
_MULTIPLIED_WITHOUT_SIGN = frozenset({"open", "frac", "fraction", "sqrt", "binom"})
_END = Token("end", "", 0, 0)
# How strongly operations bind.
_NOT_AT_ALL, _SUM, _PRODUCT, _TIGHT = range(4)
_STRENGTHS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "of": _PRODUCT, "/": _PRODUCT, ":": _PRODUCT}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


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
    """All values of the tokens, the usual reading first. Raises `NotRead` without one, `DividesByZero` for `3 / 0`."""
    if len(tokens) == 1 and tokens[0].kind == "number":
        return (Fraction(tokens[0].text),)
    if not tokens or len(tokens) > MAX_TOKENS or sum(token.kind == "open" for token in tokens) > _MAX_DEPTH:
        raise NotRead
    found: list[Fraction] = []
    for reading in _readings(tokens):
        try:
            found.append(_Expression(tokens, reading).value())
        except NotRead:
            # Another reading does not rescue what fails in the usual one.
            if not found:
                raise
    return tuple(dict.fromkeys(found))


def _readings(tokens: Sequence[Token]) -> Iterator[_Reading]:
    """The readings of the notations that are used, the usual one first: nearly always one, at most 24."""
    kinds, texts = {token.kind for token in tokens}, [token.text for token in tokens]
    divisions = texts.count("/") + texts.count(":")
    may_be_tight = divisions > 1 or ("/" in texts and "open" in kinds)
    has_power = "^" in texts or "power" in kinds
    for tight, minus_first, percent, plain_units in product(
            (False, True) if may_be_tight else (False,),
            (False, True) if has_power and "-" in texts else (False,),
            ("part", "unit", "of_sum") if "%" in texts else ("part",),
            (False, True) if kinds & {"scale", "cents"} else (False,)):
        yield _Reading(tight=tight, minus_first=minus_first, percent=percent, plain_units=plain_units)


class _Expression:
    """Reads tokens by precedence climbing. Powers bind from the right: `2^3^2` is 512."""

    def __init__(self, tokens: Sequence[Token], reading: _Reading) -> None:
        self._tokens = (*tokens, _END)
        self._reading = reading
        self._at = 0
        self._signs = 0

    def value(self) -> Fraction:
        """The value of the whole expression."""
        value = self._read(_SUM)
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
        """The value of all operations from here on that bind at least this strongly."""
        value = self._signed()
        while (strength := self._strength()) >= least:
            sign = self._take().text if self._token.kind == "op" else "*"
            start = self._at
            operand = self._read(strength + 1)
            # Every step is bounded: the numerators of long products would grow without end.
            if sign in ("/", ":"):
                value = _divided(value, operand)
            elif strength > _SUM:
                value = _bounded(value * operand)
            else:
                # `80 - 25%`, where the percentage is the whole term.
                is_percentage = self._at == start + 2 and self._tokens[start + 1].text == "%"
                if is_percentage and self._reading.percent == "of_sum":
                    operand = value * operand / 100
                value = _bounded(value + operand if sign == "+" else value - operand)
        return value

    def _strength(self) -> int:
        """How strongly the next token binds two values."""
        token = self._token
        if token.kind in _MULTIPLIED_WITHOUT_SIGN:
            return _TIGHT if self._reading.tight else _PRODUCT
        if token.kind != "op":
            return _NOT_AT_ALL
        if token.text == "/" and self._reading.tight and self._binds_tightly():
            return _TIGHT
        return _STRENGTHS.get(token.text, _NOT_AT_ALL)

    def _binds_tightly(self) -> bool:
        """Whether a stroke makes a fraction of its two numbers: without spaces, or the last one of `14 / 1 / 4`."""
        before, stroke, after = self._tokens[self._at - 1:self._at + 2]
        unspaced = before.end == stroke.start and stroke.end == after.start
        is_second_of_two = self._at == 3 and len(self._tokens) == 6  # five tokens and the end
        return after.kind == "number" and (unspaced or is_second_of_two)

    def _signed(self) -> Fraction:
        """The next operand with its signs, such as `-2^2`."""
        if not self._next_is("-", "+"):
            return self._raised(self._postfix())
        self._signs += 1
        if self._signs > _MAX_DEPTH:
            raise NotRead
        is_minus = self._take().text == "-"
        if is_minus and self._reading.minus_first and self._token.kind == "number":
            return self._raised(-self._postfix())
        value = self._signed()
        return -value if is_minus else value

    def _raised(self, base: Fraction) -> Fraction:
        """The power of a base that was just read; the base itself if no exponent follows."""
        if self._token.kind == "power":
            try:
                return _raise(base, Fraction(self._take().text))
            except ValueError:
                raise NotRead from None
        if not self._next_is("^"):
            return base
        self._take()
        is_minus = self._next_is("-")
        if is_minus:
            self._take()
        exponent = self._raised(self._postfix())
        # `9^1/2` is written for a root as often as for a half of 9.
        if self._next_is("/") and self._tokens[self._at - 1].end == self._token.start:
            raise NotRead
        return _raise(base, -exponent if is_minus else exponent)

    def _postfix(self) -> Fraction:
        """The next operand with the signs and words after it, such as `5!` or `20%`."""
        value = self._atom()
        while True:
            token = self._token
            if self._next_is("%"):
                if self._reading.percent == "part":
                    value /= 100
            elif token.kind == "factorial":
                # Bounded, because a model may write any number in front of the mark.
                if value.denominator != 1 or not 0 <= value <= _MAX_FACTORIAL:
                    raise NotRead
                value = Fraction(factorial(int(value)))
            elif token.kind in ("scale", "cents"):
                if not self._reading.plain_units:
                    value = _bounded(value * Fraction(token.text))
            elif token.kind != "unit":
                return value
            self._take()

    def _atom(self) -> Fraction:
        """A number, a bracket, or a LaTeX command with its arguments."""
        token = self._take()
        match token.kind:
            case "number":
                return _bounded(Fraction(token.text))
            case "fraction":
                top, bottom = (Fraction(character) for character in token.text if character.isdigit())
                return _divided(top, bottom)
            case "open":
                value = self._read(_SUM)
                if self._take().text != _CLOSING[token.text]:
                    raise NotRead
                return value
            case "frac":
                return _divided(self._group(), self._group())
            case "sqrt":
                return _root(self._group())
            case "binom":
                top, bottom = self._group(), self._group()
                if top.denominator != 1 or bottom.denominator != 1 or not 0 <= bottom <= top <= _MAX_FACTORIAL:
                    raise NotRead
                return Fraction(comb(int(top), int(bottom)))
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
    # No root is expected in a worked step, and no large power.
    if exponent.denominator != 1 or abs(exponent) > _MAX_EXPONENT:
        raise NotRead
    if exponent < 0 and base == 0:
        raise DividesByZero
    bits = max(base.numerator.bit_length(), base.denominator.bit_length())
    if bits * abs(exponent) > MAX_BITS:
        raise NotRead
    return base ** int(exponent)


def _root(value: Fraction) -> Fraction:
    """The square root of a square. Other roots are no fractions, so they are not read."""
    if value < 0:
        raise NotRead
    # A fraction is reduced, so it is a square if its numerator and denominator are.
    root = Fraction(isqrt(value.numerator), isqrt(value.denominator))
    if root * root != value:
        raise NotRead
    return root
