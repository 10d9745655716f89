"""Step validity as version 1 worked it out: for records of that version alone, so nothing here changes.

Every ``left = right`` whose left side is an expression with at least one operation is worked out exactly, with
fractions, by a small parser; nothing is evaluated as code and powers are not worked out at all.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from workings.scoring.steps import StepCheck

MAX_CHARACTERS = 100_000
"""Only this much of a completion is looked at."""
# It also bounds the parser's recursion: 200 open brackets are 600 frames of Python's stack.
MAX_SIDE = 200
"""Longest side of an equation, in characters."""
# Wrong equations are kept with every completion of an evaluation, so a few must do.
MAX_SHOWN = 5

_TOKEN = re.compile(r"(?P<number>(?:\d{1,3}(?:,\d{3})+|\d{1,40})(?:\.\d{1,40})?|\.\d{1,40})(?P<percent>\s?%)?"
                    r"|(?P<sign>[-+*/()])|(?P<space>[\s$€£]+)|(?P<other>.)")
_SYMBOLS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "∗": "*"})
_TIMES_X = re.compile(r"(?<=[\d)])(\s*)[xX](\s*)(?=[\d($])")


class _NotArithmetic(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class _Side:
    tokens: list[str]
    text: str
    after_operand: bool = False
    """Another operand stands right before it, with no operation in between."""


def check_steps(text: str) -> StepCheck:
    """Work out every equation of a text.

    >>> check_steps("7+5=12, carry 1; 4+2+1=8")
    StepCheck(checked=2, valid=1, wrong=('4+2+1=8',))
    """
    text = _TIMES_X.sub(r"\1*\2", text[:MAX_CHARACTERS].translate(_SYMBOLS))
    checked = valid = 0
    wrong: list[str] = []
    pieces = text.split("=")
    # In `a = b = c` the middle piece ends as the right side of one equation and begins the next.
    for left_text, right_text in pairwise(pieces):
        left, right = _left_side(left_text), _right_side(right_text)
        if left is None or right is None:
            continue
        try:
            expected, given = _work_out(left.tokens), _work_out(right.tokens)
        except _NotArithmetic:
            continue
        checked += 1
        if abs(expected - given) <= _rounding(right.tokens):
            valid += 1
        elif len(wrong) < MAX_SHOWN:
            wrong.append(f"{left.text}={right.text}")
    return StepCheck(checked, valid, tuple(wrong))


def _left_side(text: str) -> _Side | None:
    """The last expression before an equals sign; None if there is none or it has no operation."""
    # Only the end of the text can be the left side; the bound keeps a long text linear.
    runs = _runs(text[-MAX_SIDE:])
    side = runs[-1] if runs else None
    if side is None or not any(token in "+-*/" for token in side.tokens[1:]):
        return None
    # "3(2/5)" is a product and "1 1/2" a mixed number, or neither: such an equation is left alone.
    unclear = side.after_operand and (side.tokens[0] == "(" or side.tokens[1] == "/")
    return None if unclear else side


def _right_side(text: str) -> _Side | None:
    """The first expression after an equals sign."""
    runs = _runs(text[:MAX_SIDE], first_only=True)
    return runs[0] if runs else None


def _runs(text: str, *, first_only: bool = False) -> list[_Side]:
    """Runs of tokens that could be one expression: cut at other characters and between two adjacent operands.

    With ``first_only`` the text has to begin with an expression; otherwise it has to end with one.
    """
    runs: list[_Side] = []
    tokens: list[str] = []
    start = 0

    def close(end: int) -> None:
        if tokens:
            runs.append(_Side(tokens.copy(), text[start:end].strip(), after_operand))
            tokens.clear()

    ended_by_other = after_operand = False
    for match in _TOKEN.finditer(text):
        if match["space"] is not None:
            continue
        if match["other"] is not None:
            # What stands here (a word, a semicolon) ends every expression before it.
            close(match.start())
            ended_by_other, after_operand = True, False
            if first_only:
                break
            continue
        token = match["sign"] or match["number"] + ("%" if match["percent"] else "")
        operand_follows = tokens and _ends_operand(tokens[-1]) and (token == "(" or token[0] in ".0123456789")
        if operand_follows:
            close(match.start())
            # Set after `close`, which has given the run that ends its own.
            after_operand = True
            if first_only:
                break
        if not tokens:
            start = match.start()
        tokens.append(token)
        ended_by_other = False
    close(len(text))
    if first_only:
        return [_trimmed(run) for run in runs[:1] if _begins_at_once(text, run)]
    return [] if ended_by_other else [_trimmed(run, left=True) for run in runs]


def _begins_at_once(text: str, run: _Side) -> bool:
    first = _TOKEN.match(text.lstrip(" $€£\t"))
    return first is not None and first["other"] is None and bool(run.tokens)


def _trimmed(run: _Side, *, left: bool = False) -> _Side:
    """Without operators or brackets that dangle at the far end ("= 12 - carry")."""
    tokens, text = run.tokens, run.text
    if left:
        # A minus stays: it may be the sign of the first number.
        while tokens and tokens[0] in "*/)+":
            tokens, text = tokens[1:], text[1:].lstrip()
    else:
        while tokens and tokens[-1] in "+-*/(":
            tokens, text = tokens[:-1], text[:-1].rstrip()
        while tokens.count(")") > tokens.count("(") and tokens[-1] == ")":
            tokens, text = tokens[:-1], text[:-1].rstrip()
    while left and tokens.count("(") > tokens.count(")") and tokens[0] == "(":
        tokens, text = tokens[1:], text[1:].lstrip()
    return _Side(tokens, text, run.after_operand)


def _ends_operand(token: str) -> bool:
    return token == ")" or token[-1] in "0123456789%"


def _rounding(right: list[str]) -> Fraction:
    """Half a unit of the last decimal place that the right side shows; an integer is meant exactly."""
    if len(right) == 1 and "." in right[0]:
        places = len(right[0].rstrip("%").split(".")[1])
        return Fraction(1, 2) * Fraction(1, 10) ** places
    return Fraction(0)


def _work_out(tokens: list[str]) -> Fraction:
    value, rest = _sum(tokens)
    if rest:
        raise _NotArithmetic
    return value


def _sum(tokens: list[str]) -> tuple[Fraction, list[str]]:
    value, tokens = _product(tokens)
    while tokens and tokens[0] in "+-":
        term, rest = _product(tokens[1:])
        value, tokens = (value + term if tokens[0] == "+" else value - term), rest
    return value, tokens


def _product(tokens: list[str]) -> tuple[Fraction, list[str]]:
    value, tokens = _operand(tokens)
    while tokens and tokens[0] in "*/":
        operation, tokens = tokens[0], tokens[1:]
        factor, tokens = _operand(tokens)
        # Not counted as wrong either: what a division by zero would have to equal is unknown.
        if operation == "/" and factor == 0:
            raise _NotArithmetic
        value = value * factor if operation == "*" else value / factor
    return value, tokens


def _operand(tokens: list[str]) -> tuple[Fraction, list[str]]:
    if not tokens:
        raise _NotArithmetic
    head, rest = tokens[0], tokens[1:]
    if head == "-":
        value, rest = _operand(rest)
        return -value, rest
    if head == "(":
        value, rest = _sum(rest)
        if not rest or rest[0] != ")":
            raise _NotArithmetic
        return value, rest[1:]
    if head in "+*/)":
        raise _NotArithmetic
    value = Fraction(head.rstrip("%").replace(",", ""))
    return (value / 100 if head.endswith("%") else value), rest
