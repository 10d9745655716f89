"""Decides what the words after a number mean: a factor, an operation, an equals sign or a unit.

    text      3 dozen eggs + 4 is 40
    tokenize  number 3, word dozen, word eggs, op +, number 4, word is, number 40
    mark      number 3, scale 12, unit eggs, op +, number 4, says =, number 40

The words are listed in `workings.data.equations.words`.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from workings.data.equations import words
from workings.data.equations.tokens import Token

_BEGIN_OPERAND = frozenset({"number", "fraction", "frac", "binom", "sqrt", "open"})
_MULTIPLIED_WITHOUT_SIGN = frozenset({"number", "close", "fraction"})
_MAX_PHRASE_WORDS = 3
_MAX_UNIT_WORDS = 2
_MAX_ASIDE_WORDS = 4
_FORMULA_ENDS = re.compile(r"\$\s+\\?\$|\\[)\]]")


class _Replacement(NamedTuple):
    """The tokens that replace those before the index ``end``."""

    tokens: list[Token]
    end: int


def mark(tokens: Sequence[Token], text: str) -> list[Token]:
    """Replace the words after numbers by tokens of the kinds `op`, `power`, `scale`, `cents`, `says` and `unit`.

    Asides (`(ones)`) and line breaks before an equals sign are left out. A `gap` is put between two numbers side by
    side.
    """
    marked: list[Token] = []
    index = 0
    while index < len(tokens):
        follows_operand = bool(marked) and marked[-1].ends_operand
        replacement = _after_operand(tokens, index, marked, text) if follows_operand else None
        if replacement is None:
            replacement = _Replacement([tokens[index]], index + 1)
        marked += replacement.tokens
        index = replacement.end
    return marked


def _after_operand(tokens: Sequence[Token], start: int, marked: list[Token], text: str) -> _Replacement | None:
    """What replaces the tokens from ``start``, which follow the operand that ends ``marked``; None if they stay."""
    token, operand = tokens[start], marked[-1]
    if token.kind == "break":
        return _breaks(tokens, start)
    aside_end = _aside_end(tokens, start)
    if aside_end is not None and operand.end < token.start:
        return _Replacement([], aside_end)
    if token.kind in _BEGIN_OPERAND:
        return _Replacement([*_between(operand, token, text), token], start + 1)
    if token.kind == "word":
        is_unit_or_command = text[token.start] in "\\¢" or token.text in words.UNITS_STUCK
        # Other letters directly after a number are a variable: `3x`.
        if operand.end == token.start and not is_unit_or_command:
            return None
        if token.text in words.CHANGES:
            kind, value = words.CHANGES[token.text]
            return _Replacement([Token(kind, value, token.start, token.end)], start + 1)
        operation = _operation(tokens, start, marked)
        if operation is not None:
            return operation
    return _unit(tokens, start, text)


def _breaks(tokens: Sequence[Token], start: int) -> _Replacement | None:
    """Leave line breaks out if the next line begins with an equals sign."""
    end = next((index for index in range(start, len(tokens)) if tokens[index].kind != "break"), len(tokens))
    goes_on = end < len(tokens) and tokens[end].kind in ("equals", "about")
    return _Replacement([], end) if goes_on else None


def _aside_end(tokens: Sequence[Token], start: int) -> int | None:
    """Index after words in brackets, as in `29 x 1 (ones) = 29`; None without such words."""
    if tokens[start].text != "(":
        return None
    end = start + 1
    while end < len(tokens) and tokens[end].kind == "word" and len(tokens[end].text) != 1:
        end += 1
    is_closed = end < len(tokens) and tokens[end].kind == "close"
    return end + 1 if is_closed and 1 <= end - start - 1 <= _MAX_ASIDE_WORDS else None


def _between(operand: Token, token: Token, text: str) -> list[Token]:
    """The token between two operands without a sign: the end of a formula, a gap, or none for a product."""
    if _FORMULA_ENDS.search(text, operand.end, token.start):
        return [Token("break", "", token.start, token.start)]
    # `2\frac12` may be 2 and a half.
    is_mixed = operand.kind == "number" and token.kind in ("frac", "fraction")
    if token.kind == "number" or is_mixed or operand.kind not in _MULTIPLIED_WITHOUT_SIGN:
        return [Token("gap", "", token.start, token.start)]
    return []


def _operation(tokens: Sequence[Token], start: int, marked: list[Token]) -> _Replacement | None:
    """The operation (`plus`) or equals sign (`is equal to`) that a phrase means; None for other words."""
    for end in range(min(start + _MAX_PHRASE_WORDS, len(tokens)), start, -1):
        phrase = " ".join(token.text for token in tokens[start:end])
        if phrase not in words.PHRASES:
            continue
        kind, sign = words.PHRASES[phrase]
        following = tokens[end].kind if end < len(tokens) else "break"
        # A single word may also be one of prose.
        if end == start + 1 and not _is_between_operands(kind, sign, marked, following):
            return None
        return _Replacement([Token(kind, sign, tokens[start].start, tokens[end - 1].end)], end)
    return None


def _is_between_operands(kind: str, sign: str, marked: list[Token], following: str) -> bool:
    """Whether a word for a sign has operands around it; ``following`` is the kind of the token after it."""
    if kind == "says":
        return following == "number"
    # `20% of 50` and `1/2 of 8` are products; `2 of 3` counts.
    is_part = marked[-1].text == "%" or marked[-1].kind == "fraction" or (len(marked) > 2 and marked[-2].text == "/")
    return following in _BEGIN_OPERAND and (sign != "of" or is_part)


def _unit(tokens: Sequence[Token], start: int, text: str) -> _Replacement | None:
    """A unit (`apples`, `square feet`, `km/h`, `/hour`) with which an expression does not end; None without one."""
    end = start
    for _ in range(_MAX_UNIT_WORDS):
        word_end = _unit_word_end(tokens, end, text)
        if word_end == end:
            break
        end = word_end
        # The power: `²`, or `^2`.
        if end < len(tokens) and tokens[end].kind == "power":
            end += 1
        elif [token.text for token in tokens[end:end + 2]] in (["^", "2"], ["^", "3"]):
            end += 2
    if end == start or end == len(tokens):
        return None
    following = tokens[end]
    goes_on = (following.kind in ("equals", "about", "relation", "close")
               or (following.kind == "op" and following.text != "%") or _aside_end(tokens, end) is not None)
    unit = " ".join(token.text for token in tokens[start:end])
    return _Replacement([Token("unit", unit, tokens[start].start, tokens[end - 1].end)], end) if goes_on else None


def _unit_word_end(tokens: Sequence[Token], start: int, text: str) -> int:
    """Index after a word of a unit, or after a slash and a word (`/hour`); ``start`` itself without one."""
    if start == len(tokens):
        return start
    token, following = tokens[start], tokens[start + 1:start + 2]
    if token.text == "/" and following and following[0].kind == "word" and following[0].start == token.end:
        return start + 2
    # A single letter is a variable, unless it is a TeX command.
    may_be_unit = token.text not in words.NO_UNITS and (len(token.text) > 1 or text[token.start] == "\\")
    return start + 1 if token.kind == "word" and may_be_unit else start
