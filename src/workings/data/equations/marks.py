"""Words among the tokens of a text: operations, units, asides, or the end of an expression."""

import re
from collections.abc import Sequence

from workings.data.equations import words
from workings.data.equations.tokens import Token, ends_operand

_BEGIN_OPERAND = frozenset({"number", "fraction", "frac", "binom", "sqrt", "open"})
_MULTIPLIED_WITHOUT_SIGN = frozenset({"number", "close", "fraction"})
_MAX_UNIT_WORDS = 2
_MAX_ASIDE_WORDS = 4
_MATH_ENDS = re.compile(r"\$\s+\\?\$|\\[)\]]")


def mark(tokens: Sequence[Token], text: str) -> list[Token]:
    """The tokens with words after numbers replaced by `op`, `power`, `scale`, `cents`, `says` and `unit`.

    Asides (`(ones)`) and breaks within a chain are left out; a `gap` is put between two numbers side by side.
    """
    marked: list[Token] = []
    at = 0
    while at < len(tokens):
        token, before = tokens[at], marked[-1] if marked else None
        operand = before is not None and ends_operand(before)
        if token.kind == "break" and operand:
            # A chain continues if the next line begins with an equals sign.
            behind = next((index for index in range(at, len(tokens)) if tokens[index].kind != "break"), at)
            if tokens[behind].kind in ("equals", "about"):
                at = behind
                continue
        elif operand and before is not None:
            if (taken := before.end < token.start and _aside(tokens, at)) or (taken := _word(tokens, at, marked, text)):
                at = taken
                continue
            if token.kind in _BEGIN_OPERAND:
                marked += _between(before, token, text)
        marked.append(token)
        at += 1
    return marked


def _between(before: Token, token: Token, text: str) -> list[Token]:
    """Meaning of two operands without a sign between them: a product, the end of one formula, or a gap."""
    if _MATH_ENDS.search(text, before.end, token.start):
        return [Token("break", "", token.start, token.start)]
    # `2\frac12` may be 2 and a half.
    is_mixed = before.kind == "number" and token.kind in ("frac", "fraction")
    if token.kind == "number" or is_mixed or before.kind not in _MULTIPLIED_WITHOUT_SIGN:
        return [Token("gap", "", token.start, token.start)]
    return []


def _aside(tokens: Sequence[Token], at: int) -> int:
    """End of words in brackets, as in `29 x 1 (ones) = 29`; 0 without such words."""
    if tokens[at].text != "(":
        return 0
    for end in range(at + 1, min(at + _MAX_ASIDE_WORDS + 2, len(tokens))):
        if tokens[end].kind == "close" and end > at + 1:
            return end + 1
        if tokens[end].kind != "word" or len(tokens[end].text) == 1:
            return 0
    return 0


def _word(tokens: Sequence[Token], at: int, expression: list[Token], text: str) -> int:
    """Append the meaning of a word after an operand; returns the next index, or 0 if it ends the expression."""
    token, before = tokens[at], expression[-1]
    if token.kind == "word":
        # A letter directly after a number is a variable.
        if before.end == token.start and text[token.start] not in "\\¢" and token.text not in words.UNITS_STUCK:
            return 0
        if (change := _changed(token)) is not None:
            expression.append(change)
            return at + 1
        if taken := _operation(tokens, at, expression):
            return taken
    if end := _unit_end(tokens, at, text):
        expression.append(Token("unit", " ".join(one.text for one in tokens[at:end]), token.start, tokens[end - 1].end))
        return end
    return 0


def _operation(tokens: Sequence[Token], at: int, expression: list[Token]) -> int:
    """Appends the operation or equals sign for some words; returns the index after them, or 0 for other words."""
    token, before = tokens[at], expression[-1]
    following = [one.text for one in tokens[at:at + 3]]
    if following == ["is", "equal", "to"]:
        expression.append(Token("says", "=", token.start, tokens[at + 2].end))
        return at + 3
    if operation := words.TWO_WORD_OPERATIONS.get(" ".join(following[:2])):
        expression.append(Token("op", operation, token.start, tokens[at + 1].end))
        return at + 2
    if at + 1 == len(tokens) or tokens[at + 1].kind not in _BEGIN_OPERAND:
        return 0
    # `20% of 50` and `1/2 of 8` are products; `2 of 3` counts.
    part = before.text == "%" or before.kind == "fraction" or (len(expression) > 2 and expression[-2].text == "/")
    if token.text in words.OPERATIONS and (token.text != "of" or part):
        expression.append(Token("op", words.OPERATIONS[token.text], token.start, token.end))
        return at + 1
    if token.text in words.SAYS and tokens[at + 1].kind == "number":
        expression.append(Token("says", "=", token.start, token.end))
        return at + 1
    return 0


def _changed(token: Token) -> Token | None:
    """The change of a number by the word after it."""
    if token.text in words.SCALES:
        return Token("scale", words.SCALES[token.text], token.start, token.end)
    if token.text in words.POWERS:
        return Token("power", words.POWERS[token.text], token.start, token.end)
    if token.text in ("cents", "cent", "¢"):
        return Token("cents", "1/100", token.start, token.end)
    if token.text == "percent":
        return Token("op", "%", token.start, token.end)
    return None


def _unit_end(tokens: Sequence[Token], at: int, text: str) -> int:
    """End of a unit (`apples`, `square feet`, `km/h`, `/hour`) after which the expression continues; else 0."""
    end, count = at, 0
    while end < len(tokens) and count < _MAX_UNIT_WORDS:
        token = tokens[end]
        stroke = token.text == "/" and end + 1 < len(tokens) and tokens[end + 1].kind == "word" \
            and tokens[end + 1].start == token.end
        if stroke:
            end += 2
            count += 1
        elif token.kind == "word" and token.text not in words.NO_UNITS and (
                # A single letter is a variable, except in a TeX command and after a slash (`km/h`).
                len(token.text) > 1 or text[token.start] == "\\" or (end > at and tokens[end - 1].text == "/")):
            end += 1
            count += 1
        else:
            break
        if end < len(tokens) and tokens[end].kind == "power":
            end += 1
        elif end + 1 < len(tokens) and tokens[end].text == "^" and tokens[end + 1].text in ("2", "3"):
            end += 2
    if not count or end >= len(tokens):
        return 0
    following = tokens[end]
    goes_on = following.kind in ("equals", "about", "relation", "close") or (
        following.kind == "op" and following.text != "%") or _aside(tokens, end)
    return end if goes_on else 0
