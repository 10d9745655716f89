"""The sides of equations in a text: stretches of numbers and operations, and whether they are all of an expression."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from workings.data.equations import words
from workings.data.equations.tokens import Token, ends_operand, mark

_SEPARATORS = frozenset({"equals", "about", "says", "relation"})
_IN_EXPRESSIONS = _SEPARATORS | {"number", "fraction", "frac", "binom", "sqrt", "op", "open", "close", "power",
                                 "factorial", "scale", "cents", "unit"}
_PUNCTUATION_BEFORE = frozenset(";?!\"'“”‘’«—~●▪◦‣■|#")
_PUNCTUATION_AFTER = frozenset(";!\"”»—&#✓✅✔|")


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an equation as it may be worked out."""

    tokens: tuple[Token, ...] = ()
    """Tokens of the side; empty if they may not be the whole expression."""
    others: tuple[tuple[Token, ...], ...] = ()
    """The tokens in other readings of the signs around them."""
    start: int = 0
    end: int = 0
    alone: bool = False
    """Whether no words directly precede a left side, or only punctuation and white space follow a right side."""
    cut_off: bool = False
    """Dots follow its digits."""
    followed_by: str = ""
    """The word after a right side: its unit, if any."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides with the sign between them."""

    left: Side
    right: Side
    sign: Token
    goes_on: bool
    """Another equals sign follows the right side."""


def pairs(tokens: Sequence[Token], text: str) -> Iterator[Pair]:
    """Every two sides with an equals sign between them, in order; `a = b = c` gives two."""
    marked = mark(tokens, text)
    start = 0
    while start < len(marked):
        end = start
        while end < len(marked) and marked[end].kind in _IN_EXPRESSIONS:
            end += 1
        if end > start:
            before = marked[start - 1] if start else None
            after = marked[end] if end < len(marked) else None
            yield from _of_run(marked[start:end], before, after, text)
        start = end + 1


def _of_run(run: Sequence[Token], before: Token | None, after: Token | None, text: str) -> Iterator[Pair]:
    cuts = [index for index, token in enumerate(run) if token.kind in _SEPARATORS]
    edges = [-1, *cuts, len(run)]
    sides = [run[first + 1:last] for first, last in pairwise(edges)]
    for number, cut in enumerate(cuts):
        if run[cut].kind == "relation":
            continue
        goes_on = number + 1 < len(cuts)
        yield Pair(_left(sides[number], before if number == 0 else run[cuts[number - 1]], text),
                   _right(sides[number + 1], run[cuts[number + 1]] if goes_on else after, text,
                          strict=run[cut].kind == "says"),
                   run[cut], goes_on)


def _left(side: Sequence[Token], before: Token | None, text: str) -> Side:
    """The expression that a side ends with; ``before`` is the token before it, such as an equals sign."""
    opened = next(reversed(_unmatched(side)[1]), -1)
    tokens = tuple(side[opened + 1:])
    if not tokens or not ends_operand(tokens[-1]):
        return Side()
    first, unread = tokens[0], Side(start=tokens[0].start, end=tokens[-1].end)
    if _unmatched(tokens)[0] or (first.kind == "op" and first.text != "-"):
        return unread
    if opened >= 0:
        preceding = side[opened - 1] if opened else before
        aside = _is_aside(side[opened], preceding)
        return Side(tokens, (), first.start, tokens[-1].end, alone=True) if aside else unread
    if before is None:
        return Side(tokens, (), first.start, tokens[-1].end, alone=True)
    # After a word or a number, a minus followed by a space is an operation with an unread first operand.
    subtracts = first.kind == "op" and before.kind in ("word", "other", "gap") and text[first.end:first.end + 1] == " "
    if subtracts or not _clean_before(before, first, text):
        return unread
    # `- 3 + 4 = 1` at the beginning of a line: a list, or a negative number.
    sign = Token("op", "-", first.start, first.start)
    others = ((sign, *tokens),) if before.kind == "bullet" and before.text.strip() == "-" else ()
    return Side(tokens, others, first.start, tokens[-1].end,
                alone=before.kind != "word" or before.text in words.BARE_MAY_FOLLOW)


def _unmatched(side: Sequence[Token]) -> tuple[list[int], list[int]]:
    """Places of the closing and of the opening brackets that have no partner."""
    closed, opened = list[int](), list[int]()
    for index, token in enumerate(side):
        if token.kind == "open":
            opened.append(index)
        elif token.kind == "close" and opened:
            opened.pop()
        elif token.kind == "close":
            closed.append(index)
    return closed, opened


def _is_aside(opening: Token, preceding: Token | None) -> bool:
    """Whether an unmatched bracket opens a separate text.

    `She has 12 (5 + 7 = 12) apples` is an aside; `2(5 + 7 = …` and `f(5 + 7 = …` are parts of more.
    """
    if preceding is None or opening.end - opening.start > 1:
        return True
    if ends_operand(preceding) or preceding.kind == "word":
        return preceding.end < opening.start
    return preceding.kind not in ("op", "other") or preceding.text in ".,:;"


def _right(side: Sequence[Token], after: Token | None, text: str, *, strict: bool) -> Side:
    """The expression that a side begins with; ``after`` is the token after it. ``strict``: no word may follow."""
    closed, opened = _unmatched(side)
    # All brackets that open without a partner come after those that close.
    end = behind = next(iter(closed or opened), len(side))
    # Consecutive closing marks belong together, so the rest begins after them.
    while closed and behind < len(side) and side[behind].kind == "close":
        behind += 1
    tokens = tuple(side[:end])
    if not tokens:
        return Side()
    first, last = tokens[0], tokens[-1]
    unread = Side(start=first.start, end=last.end)
    opens_bracket = end < len(side) and side[end].kind == "open"
    # `= 12 (so 5 more)` has an aside, if there is a space; nothing may follow closing brackets.
    if not ends_operand(last) or (last.end == side[end].start if opens_bracket else behind < len(side)):
        return unread
    cut_off = not opens_bracket and after is not None and after.kind == "ellipsis" and "." in last.text
    if cut_off and after is not None:
        clean = text[after.end:after.end + 1] != "%"
    else:
        clean = _clean_after(None if opens_bracket else after, last.end if opens_bracket else side[behind - 1].end,
                             text, strict=strict)
    if not clean:
        return unread
    return Side(tokens, tuple(_shorter(tokens, text)), first.start, last.end,
                alone=after is None or after.kind not in ("word", "ellipsis"), cut_off=cut_off,
                followed_by=after.text if after is not None and after.kind == "word" else "")


def _shorter(tokens: tuple[Token, ...], text: str) -> Iterator[tuple[Token, ...]]:
    """Possible ends of a right side."""
    # `8!` may end a sentence.
    if tokens[-1].kind == "factorial":
        yield tokens[:-1]
    for index, token in enumerate(tokens[1:], start=1):
        # `= 12 (5 + 7)`: a product, or the sum repeated. `1/3 of $150`, `20 times 2 people`.
        said_again = token.text == "(" and ends_operand(tokens[index - 1]) and text[token.start - 1].isspace()
        if said_again or (token.kind == "op" and token.end - token.start > 1 and text[token.start].isalpha()):
            yield tokens[:index]
            return


def _clean_before(before: Token, first: Token, text: str) -> bool:
    """Whether an expression may begin after this token."""
    stuck = before.end == first.start
    if before.kind in ("break", "bullet") or before.kind in _SEPARATORS:
        return True
    if before.kind == "word":
        # Both patterns end where this text ends, so a few characters before it are enough.
        text_before = text[max(first.start - 40, 0):first.start].casefold()
        if words.MAY_COME_BEFORE.search(text_before):
            return True
        if words.NAMED_BY_NUMBER.search(text_before):
            return False
        last = before.text.split()[-1]
        return not stuck and last not in words.CHANGES_WHAT_FOLLOWS and (len(last) > 1 or last in "ai")
    if before.kind != "other":
        return False
    preceding = text[before.start - 1:before.start]
    if before.text == ":":
        return not (preceding.isdigit() and stuck) and not preceding.isspace()
    if before.text == ",":
        # `14, 400 / 80` is one number for its writer.
        return not stuck and not (preceding.isdigit() and re.fullmatch(r"\d{3}", first.text))
    if before.text == ".":
        # `.8 + . 84`
        return not stuck and text[max(before.start - 2, 0):before.start].strip()[-1:] not in ("+", "-", "*", "/", "=")
    return before.text in _PUNCTUATION_BEFORE and not (stuck and before.text in "|#")


def _clean_after(after: Token | None, end: int, text: str, *, strict: bool) -> bool:
    """Whether an expression may end before this token."""
    if words.AFTER_THE_NUMBER.match(text, end):
        return False
    if after is None or after.kind in ("break", "bullet") or after.kind in _SEPARATORS:
        return True
    # Without a space only a unit may follow: `12kg` is a number with one, `12th` is not.
    stuck = after.start == end
    if after.kind == "word":
        first = after.text.split()[0]
        if strict or (stuck and text[after.start] != "\\" and first not in words.UNITS_STUCK):
            return False
        return len(first) > 1 or first in words.LETTERS_BEHIND
    if after.kind != "other":
        return False
    following = text[after.end:after.end + 1]
    if after.text in ",:":
        return not following.isdigit()
    if after.text == ".":
        return not following or following.isspace() or following in "\"'”’)]}$*<`" or text[after.end:after.end + 2] in (
            r"\)", r"\]", r"\\")
    return after.text in _PUNCTUATION_AFTER and not (stuck and after.text == "|")
