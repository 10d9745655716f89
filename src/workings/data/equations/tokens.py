r"""Tokens of a text that may hold equations, plain or in LaTeX, each with its place in the text.

White space, currency signs, mathematical delimiters and Markdown's emphasis say nothing about a value and give no
token. Anything unknown is a token of kind `other`, at which every expression ends.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workings.data.equations import words


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text."""

    kind: str
    """`number`, `op`, `open`, `close`, `frac`, `sqrt`, `binom`, `power`, `scale`, `cents`, `unit`, `equals`,
    `about`, `says`, `relation`, `word`, `break`, `bullet`, `ellipsis`, `gap` or `other`."""
    text: str
    """The normalized text: operators in one spelling, numbers without grouping."""
    start: int
    end: int


_SAME = {"×": "*", "·": "*", "⋅": "*", "∙": "*", "∗": "*", "✕": "*", "x": "*", "X": "*", "÷": ":", "−": "-", "–": "-",
         "⁄": "/", "**": "^", r"\cdot": "*", r"\times": "*", r"\ast": "*", r"\div": ":", r"\%": "%"}
"""`:` means a division sign, which binds two fractions less tightly than the strokes within them."""
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_GROUP = r"(?:,|\{,\}|,\\!|\\,)"
_RELATIONS = ("ne|neq|le|leq|leqslant|ge|geq|geqslant|lt|gt|equiv|sim|cong|to|rightarrow|Rightarrow|implies|iff|"
              "Leftrightarrow|Longrightarrow|longrightarrow|therefore|because|in|mid")
# Alternatives are tried in order, and the last one takes any character.
_TOKEN = re.compile(rf"""
    (?P<power>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)
  | (?P<word>(?!US\$|sqrt\()[^\W\d_²³¹⁰⁴-⁹]+(?:['’][^\W\d_]+|(?<=[^\W\d_]{{2}})-[^\W\d_]{{2,}})*)
  | (?P<bullet>(?:\A|(?<=\n))[ \t]*(?:[-+*•–](?=[ \t])|\(?\d{{1,3}}[.)](?=[ \t]+[^\s\-+*/=×÷^–−])))
  | (?P<break>\n|\\\\|\\(?:begin|end)\s*\{{[^{{}}\n]{{0,30}}\}}|\\(?:item|hline|newline)(?![a-zA-Z]))
  | (?P<skip>[ \t\r\f\v\u00a0\u2009\u202f]+|\\[,;:!\ ()\[\]]|(?:US)?\\?[$€£¥₹]|`|&(?=\s*(?:=|≈|\\approx))
      |\\(?:left|right|[bB]igg?[lr]?|displaystyle|quad|qquad|limits|bf|rm)(?![a-zA-Z])
      |°|\^\s*\\circ(?![a-zA-Z])|\^\s*\{{\s*\\circ\s*\}})
  | (?P<ellipsis>\.{{2,}}|…|\\[lc]?dots(?![a-zA-Z]))
  | (?P<number>(?:\d{{1,3}}(?:{_GROUP}\d{{3}})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d{{1,3}}(?![\w.]))?|\.\d+)
  | (?P<fraction>\\[dtc]?frac\s*\d\s*\d)
  | (?P<frac>\\[dtc]?frac(?![a-zA-Z]))
  | (?P<binom>\\[dt]?binom(?![a-zA-Z]))
  | (?P<sqrt>\\sqrt(?![a-zA-Z]|\s*\[)|√|\bsqrt(?=\())
  | (?P<emphasis>\*\*)
  | (?P<code>={{2,}}|!=|[-+*/]=|//)
  | (?P<relation><=|>=|=>|-{{1,2}}>|:=|[<>≤≥≠≡≅∼→⇒⟹⇔⟺∴∵∈]|\\(?:{_RELATIONS})(?![a-zA-Z]))
  | (?P<about>≈|\\(?:approx|simeq)(?![a-zA-Z]))
  | (?P<equals>=)
  | (?P<boxed>\\(?:boxed|fbox)\s*\{{)
  | (?P<open>[(\[{{])
  | (?P<close>[)\]}}])
  | (?P<named>\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|operatorname)\s*\{{[^{{}}]{{0,100}}\}})
  | (?P<op>\\(?:cdot|times|ast|div)(?![a-zA-Z])|\\?%|[-+*/^×·⋅∙÷−–∗✕⁄])
  | (?P<factorial>!)
  | (?P<sign>¢|\\[pb]?mod(?![a-zA-Z]))
  | (?P<other>\\[a-zA-Z]+|.)
""", re.VERBOSE | re.DOTALL)
_AMOUNT_FOLLOWS = re.compile(r"\s*\\?[$€£]?\s*[\d.(]")
# A number that begins with 0 and a digit is part of a time, a date or a code; no sum has one that long.
_NO_AMOUNT = re.compile(r"0\d|\d{300}")
_BEFORE_OPERATION = re.compile(r"[\d)\]}%!⁰-⁹²³¹a-zA-Z$]")
_OPERAND_BEGINS = re.compile(r"[\d(\[{.$€£√\\a-zA-Z+−-]")


def tokenize(text: str) -> list[Token]:
    """All tokens of a text in order. Time in proportion to its length."""
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None  # the last alternative takes any character
        kind, piece = match.lastgroup or "other", match.group()
        end = match.end()
        if kind != "skip" and (token := _token(text, kind, piece, position, tokens)):
            tokens.append(token)
        position = end
    return tokens


def ends_operand(token: Token) -> bool:
    """Whether an expression may end with this token."""
    return token.kind in ("number", "fraction", "close", "unit", "power", "scale", "cents", "factorial") or (
        token.kind == "op" and token.text == "%")


def _token(text: str, kind: str, piece: str, at: int, before: list[Token]) -> Token | None:
    """The token of a piece, or None where it only decorates the text."""
    end = at + len(piece)
    match kind:
        case "number":
            plain = re.sub(r"[^\d.eE+-]", "", piece)
            return Token("other" if _NO_AMOUNT.match(plain) else "number", plain, at, end)
        case "emphasis" | "op" if not _is_operation(text, piece, at, end):
            return None
        case "emphasis" | "op":
            return Token("op", _SAME.get(piece, piece), at, end)
        case "word" if piece in "xX" and before and ends_operand(before[-1]) and _AMOUNT_FOLLOWS.match(text, end):
            return Token("op", "*", at, end)
        case "word" | "sign":
            return Token("word", piece.removeprefix("\\").casefold(), at, end)
        case "named":
            inner = piece[piece.index("{") + 1:-1].strip()
            plain_number = re.fullmatch(r"\d+(?:\.\d+)?", inner)
            kind = "number" if plain_number else "other" if re.search(r"[\d\\$=]", inner) else "word"
            return Token(kind, inner.casefold().strip(" .,;:"), at, end) if inner else None
        case "power":
            return Token("power", piece.translate(_SUPERSCRIPT), at, end)
        case "factorial":
            # With a space before it, it ends a sentence; `5!` before a word may do either.
            stuck = bool(before) and before[-1].end == at and before[-1].kind in ("number", "close")
            return Token("factorial" if stuck else "other", "!", at, end)
        case "code":
            return Token("other", piece, at, end)
        case "boxed":
            return Token("open", "{", at, end)
        case _:
            return Token(kind, piece, at, end)


def _is_operation(text: str, piece: str, at: int, end: int) -> bool:
    """Whether stars are an operation and not emphasis; other signs always are."""
    if piece not in ("*", "**"):
        return True
    spaces = (text[at - 1:at] == " ", text[end:end + 1] == " ")
    # Markdown never puts blanks on both sides of a mark, so this star multiplies.
    if piece == "*" and spaces == (True, True):
        return True
    before, after = text[max(at - 9, 0):at].rstrip(" "), text[end:end + 9].lstrip(" ")
    if not _BEFORE_OPERATION.match(before[-1:]) or not _OPERAND_BEGINS.match(after):
        return False
    return spaces[0] == spaces[1] or (piece == "*" and spaces == (False, True))


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
        if change := words.CHANGES.get(token.text):
            expression.append(Token(*change, token.start, token.end))
            return at + 1
        if taken := _operation(tokens, at, expression):
            return taken
    if end := _unit_end(tokens, at, text):
        expression.append(Token("unit", " ".join(one.text for one in tokens[at:end]), token.start, tokens[end - 1].end))
        return end
    return 0


def _operation(tokens: Sequence[Token], at: int, expression: list[Token]) -> int:
    """Appends the operation or equals sign for some words; returns the index after them, or 0 for other words."""
    before = expression[-1]
    # `20% of 50` and `1/2 of 8` are products; `2 of 3` counts.
    part = before.text == "%" or before.kind == "fraction" or (len(expression) > 2 and expression[-2].text == "/")
    for end in range(min(at + 3, len(tokens)), at, -1):
        kind, text = words.PHRASES.get(" ".join(one.text for one in tokens[at:end]), ("", ""))
        following = tokens[end].kind if end < len(tokens) else ""
        # A single word may also be one of prose.
        if kind and (end > at + 1 or (following == "number" if kind == "says" else following in _BEGIN_OPERAND and (
                text != "of" or part))):
            expression.append(Token(kind, text, tokens[at].start, tokens[end - 1].end))
            return end
    return 0


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
