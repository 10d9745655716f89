"""Finds the two sides of every equation in a text.

In `So 7 + 5 = 12 apples; 4 + 2 + 1 = 8` there are two pairs of sides: `7 + 5` and `12`, `4 + 2 + 1` and `8`. The text
around a side shows whether it is the whole expression: of `x + 5 = 8` the 5 is not.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from workings.data.equations import words
from workings.data.equations.meanings import mark
from workings.data.equations.tokens import Token

_BETWEEN_SIDES = frozenset({"equals", "about", "says", "relation"})
_OPERATIONS = frozenset({"frac", "fraction", "sqrt", "binom", "factorial", "power"})
_IN_EXPRESSIONS = _BETWEEN_SIDES | _OPERATIONS | {"number", "op", "open", "close", "scale", "cents", "unit"}
_PUNCTUATION_BEFORE = frozenset(";?!\"'“”‘’«—~●▪◦‣■|#")
_PUNCTUATION_AFTER = frozenset(";!\"”»—&#✓✅✔|")
_QUOTES_AND_BRACKETS = "\"'”’)]}$*<`"
# A text begins and ends like a line.
_EDGE = Token("break", "", 0, 0)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an equation."""

    tokens: tuple[Token, ...] = ()
    """The side's tokens; empty if they may be only a part of an expression."""
    others: tuple[tuple[Token, ...], ...] = ()
    """The tokens in other readings of the signs around them."""
    start: int = 0
    end: int = 0
    alone: bool = False
    """Of a left side: no word precedes it directly. Of a right side: only punctuation or white space follows it."""
    cut_off: bool = False
    """Dots follow its digits."""
    followed_by: str = ""
    """The word after a right side: its unit, if any."""

    @property
    def calculates(self) -> bool:
        """Whether there is an operation. The sign of the first number and percent signs do not count."""
        return any(token.kind in _OPERATIONS or (token.kind == "op" and token.text != "%" and index > 0)
                   for index, token in enumerate(self.tokens))

    @property
    def number(self) -> Token | None:
        """The number that the side is, with any sign, percent sign or unit; None for a calculation."""
        numbers = [token for token in self.tokens if token.kind == "number"]
        return numbers[0] if len(numbers) == 1 and not self.calculates else None

    def has(self, *names: str) -> bool:
        """Whether a token has one of these texts, or is of one of these kinds."""
        return any(token.text in names or token.kind in names for token in self.tokens)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides with the sign between them."""

    left: Side
    right: Side
    sign: Token
    goes_on: bool
    """Another equals sign follows the right side."""


def pairs(tokens: Sequence[Token], text: str) -> Iterator[Pair]:
    """Every two sides with an equals sign between them, in order; `a = b = c` gives two pairs."""
    marked = [_EDGE, *mark(tokens, text), _EDGE]
    borders = [index for index, token in enumerate(marked) if token.kind not in _IN_EXPRESSIONS]
    for before, after in pairwise(borders):
        yield from _pairs_of_stretch(marked[before:after + 1], text)


def _pairs_of_stretch(stretch: Sequence[Token], text: str) -> Iterator[Pair]:
    """The pairs in a stretch of expressions, which includes the tokens before and after these."""
    last = len(stretch) - 1
    signs = [index for index, token in enumerate(stretch) if token.kind in _BETWEEN_SIDES]
    edges = [0, *signs, last]
    for before, sign, after in zip(edges, signs, edges[2:], strict=False):
        if stretch[sign].kind != "relation":
            left = _left(stretch[before + 1:sign], stretch[before], text)
            right = _right(stretch[sign + 1:after], stretch[after], text, is_strict=stretch[sign].kind == "says")
            yield Pair(left, right, stretch[sign], goes_on=after < last)


def _left(side: Sequence[Token], before: Token, text: str) -> Side:
    """The expression that a side ends with; ``before`` is the token before it, such as an equals sign."""
    _, opened = _unmatched_brackets(side)
    begin = opened[-1] + 1 if opened else 0
    tokens = tuple(side[begin:])
    if not tokens or not tokens[-1].ends_operand:
        return Side()
    first, start, end = tokens[0], tokens[0].start, tokens[-1].end
    unread = Side(start=start, end=end)
    closed, _ = _unmatched_brackets(tokens)
    if closed or (first.kind == "op" and first.text != "-"):
        return unread
    if opened:
        preceding = side[begin - 2] if begin > 1 else before
        return Side(tokens, (), start, end, alone=True) if _is_aside(side[begin - 1], preceding) else unread
    # After a word or a number, a minus and a space are an operation whose first operand was not read.
    is_minus_and_space = first.kind == "op" and text[first.end:first.end + 1] == " "
    is_subtraction = is_minus_and_space and before.kind in ("word", "other", "gap")
    if is_subtraction or not _may_begin_after(before, first, text):
        return unread
    # `- 3 + 4 = 1` at the beginning of a line: a list, or a negative number.
    is_after_dash = before.kind == "bullet" and before.text.strip() == "-"
    others = ((Token("op", "-", start, start), *tokens),) if is_after_dash else ()
    return Side(tokens, others, start, end, alone=before.kind != "word" or before.text in words.BARE_MAY_FOLLOW)


def _unmatched_brackets(side: Sequence[Token]) -> tuple[list[int], list[int]]:
    """Indices of the closing and of the opening brackets without a partner."""
    closed, opened = list[int](), list[int]()
    for index, token in enumerate(side):
        if token.kind == "open":
            opened.append(index)
        elif token.kind == "close" and opened:
            opened.pop()
        elif token.kind == "close":
            closed.append(index)
    return closed, opened


def _is_aside(opening: Token, preceding: Token) -> bool:
    """Whether an unmatched bracket opens a separate text: in `12 (5 + 7 = 12) apples`, not in `2(5 + 7 = …`."""
    if opening.end - opening.start > 1:  # a box
        return True
    if preceding.ends_operand or preceding.kind == "word":
        return preceding.end < opening.start
    return preceding.kind not in ("op", "other") or preceding.text in ".,:;"


def _right(side: Sequence[Token], after: Token, text: str, *, is_strict: bool) -> Side:
    """The expression that a side begins with, before the token ``after``; ``is_strict``: no word may follow it."""
    closed, opened = _unmatched_brackets(side)
    # The first unmatched bracket ends the expression.
    tokens = tuple(side[:min([*closed, *opened], default=len(side))])
    if not tokens:
        return Side()
    first, last = tokens[0], tokens[-1]
    # `= 12 (so 5 more)`
    has_aside = bool(opened) and not closed
    only_closes = all(token.kind == "close" for token in side[len(tokens):])
    is_cut_off = not has_aside and after.kind == "ellipsis" and "." in last.text
    if has_aside:
        # Without a space before the bracket it would be a factor.
        may_end = last.end < side[opened[0]].start and not words.AFTER_THE_NUMBER.match(text, last.end)
    elif is_cut_off:
        may_end = only_closes and text[after.end:after.end + 1] != "%"
    else:
        may_end = only_closes and _may_end_before(after, side[-1].end, text, is_strict=is_strict)
    if not (last.ends_operand and may_end):
        return Side(start=first.start, end=last.end)
    return Side(tokens, tuple(_shorter(tokens, text)), first.start, last.end,
                alone=after.kind not in ("word", "ellipsis"), cut_off=is_cut_off,
                followed_by=after.text if after.kind == "word" else "")


def _shorter(tokens: tuple[Token, ...], text: str) -> Iterator[tuple[Token, ...]]:
    """The tokens of a right side in readings in which it ends earlier."""
    # `8!` may end a sentence.
    if tokens[-1].kind == "factorial":
        yield tokens[:-1]
    for index, (before, token) in enumerate(pairwise(tokens), start=1):
        # `= 12 (5 + 7)` is a product, or the sum repeated.
        is_repeated = token.text == "(" and before.ends_operand and text[token.start - 1].isspace()
        # `1/3 of $150`, `20 times 2 people`
        is_word = token.kind == "op" and token.end - token.start > 1 and text[token.start].isalpha()
        if is_repeated or is_word:
            yield tokens[:index]
            return


def _may_begin_after(before: Token, first: Token, text: str) -> bool:
    """Whether an expression may begin after a token."""
    is_adjacent = before.end == first.start
    if before.kind in ("break", "bullet") or before.kind in _BETWEEN_SIDES:
        return True
    if before.kind == "word":
        # Both patterns match at the end of this text, so a few characters are enough.
        text_before = text[max(first.start - 40, 0):first.start].casefold()
        if words.MAY_COME_BEFORE.search(text_before):
            return True
        if words.NAMED_BY_NUMBER.search(text_before):
            return False
        last = before.text.split()[-1]
        is_variable = len(last) == 1 and last not in "ai"
        return not (is_adjacent or is_variable or last in words.CHANGES_WHAT_FOLLOWS)
    if before.kind != "other":
        return False
    preceding = text[before.start - 1:before.start]
    match before.text:
        case ":":
            is_ratio = preceding.isspace() or (preceding.isdigit() and is_adjacent)
            return not is_ratio
        case ",":
            # `14, 400 / 80` is one number for its writer.
            is_grouped = preceding.isdigit() and re.fullmatch(r"\d{3}", first.text)
            return not (is_adjacent or is_grouped)
        case ".":
            # `.8 + . 84`
            follows_sign = text[max(before.start - 2, 0):before.start].strip()[-1:] in ("+", "-", "*", "/", "=")
            return not (is_adjacent or follows_sign)
        case "|" | "#":
            return not is_adjacent
    return before.text in _PUNCTUATION_BEFORE


def _may_end_before(after: Token, end: int, text: str, *, is_strict: bool) -> bool:
    """Whether an expression that ends at the character ``end`` may end before a token."""
    if words.AFTER_THE_NUMBER.match(text, end):
        return False
    if after.kind in ("break", "bullet") or after.kind in _BETWEEN_SIDES:
        return True
    is_adjacent = after.start == end
    if after.kind == "word":
        first = after.text.split()[0]
        # `12kg` is a number with its unit, `12th` is not.
        is_ending = is_adjacent and text[after.start] != "\\" and first not in words.UNITS_STUCK
        is_variable = len(first) == 1 and first not in words.LETTERS_BEHIND
        return not (is_strict or is_ending or is_variable)
    if after.kind != "other":
        return False
    following = text[after.end:after.end + 1]
    match after.text:
        case "," | ":":
            return not following.isdigit()
        case ".":
            ends_formula = text[after.end:after.end + 2] in (r"\)", r"\]", r"\\")
            return not following or following.isspace() or following in _QUOTES_AND_BRACKETS or ends_formula
        case "|":
            return not is_adjacent
    return after.text in _PUNCTUATION_AFTER
