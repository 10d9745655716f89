r"""Tokens of a text that may hold equations, plain or in LaTeX, each with its place in the text.

There are two steps. `tokenize` cuts a whole text. White space, currency signs, mathematical delimiters and Markdown's
emphasis say nothing about a value and give no token; anything unknown is `other`, at which every expression ends.
`mark` then reads the words after numbers:

    text      3 dozen eggs + 4 is 40
    tokenize  number 3, word dozen, word eggs, op +, number 4, word is, number 40
    mark      number 3, scale 12, unit eggs, op +, number 4, says =, number 40
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workings.data.equations import words


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text."""

    kind: str
    r"""From `tokenize`: `number` (`1,200`, `.5`), `fraction` (`\frac12`), `power` (`²`), `factorial` (`!`); `op` (`+`,
    `\times`, `%`), `open` and `close` (brackets), `frac`, `binom` and `sqrt` (before their operands); `equals` (`=`),
    `about` (`≈`), `relation` (`<`, `\implies`); `word`, `break` (end of a line), `bullet` (`2.` of a list), `ellipsis`
    (`...`) and `other`.

    From `mark` only: `scale` (`dozen`: a factor), `cents` (a hundredth), `unit` (`square feet`), `says` (`is`: a word
    for an equals sign) and `gap` (between two numbers without a sign, as in `3 4`)."""
    text: str
    """The normalized text: operators in one spelling, numbers without grouping."""
    start: int
    end: int


_NORMALIZED = {**dict.fromkeys(("×", "·", "⋅", "∙", "∗", "✕", "x", "X", r"\cdot", r"\times", r"\ast"), "*"),
               "÷": ":", r"\div": ":", "−": "-", "–": "-", "⁄": "/", "**": "^", r"\%": "%"}
"""`:` means a division sign, which binds two fractions less tightly than the strokes within them."""
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_GROUP = r"(?:,|\{,\}|,\\!|\\,)"
_RELATIONS = ("ne|neq|le|leq|leqslant|ge|geq|geqslant|lt|gt|equiv|sim|cong|to|rightarrow|Rightarrow|implies|iff|"
              "Leftrightarrow|Longrightarrow|longrightarrow|therefore|because|in|mid")
# Alternatives are tried in order, and the last one takes any character. `_token` makes kinds of tokens of the groups.
_TOKEN = re.compile(rf"""
    (?P<power>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)  # ²
    # apples, it's, half-eaten
  | (?P<word>(?!US\$|sqrt\()[^\W\d_²³¹⁰⁴-⁹]+(?:['’][^\W\d_]+|(?<=[^\W\d_]{{2}})-[^\W\d_]{{2,}})*)
    # `- `, `2. ` or `(3) ` at the beginning of a line, but not `2. + 3`
  | (?P<bullet>(?:\A|(?<=\n))[ \t]*(?:[-+*•–](?=[ \t])|\(?\d{{1,3}}[.)](?=[ \t]+[^\s\-+*/=×÷^–−])))
    # the end of a line, or in LaTeX `\\`, `\begin{{align}}`, `\item`
  | (?P<break>\n|\\\\|\\(?:begin|end)\s*\{{[^{{}}\n]{{0,30}}\}}|\\(?:item|hline|newline)(?![a-zA-Z]))
    # white space, `$`, `\left`, `\quad`, degrees, and `&` before an equals sign
  | (?P<skip>[ \t\r\f\v\u00a0\u2009\u202f]+|\\[,;:!\ ()\[\]]|(?:US)?\\?[$€£¥₹]|`|&(?=\s*(?:=|≈|\\approx))
      |\\(?:left|right|[bB]igg?[lr]?|displaystyle|quad|qquad|limits|bf|rm)(?![a-zA-Z])
      |°|\^\s*\\circ(?![a-zA-Z])|\^\s*\{{\s*\\circ\s*\}})
  | (?P<ellipsis>\.{{2,}}|…|\\[lc]?dots(?![a-zA-Z]))
    # 7; 1,200; 3.5; 2e-3; .5
  | (?P<number>(?:\d{{1,3}}(?:{_GROUP}\d{{3}})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][-+]?\d{{1,3}}(?![\w.]))?|\.\d+)
  | (?P<fraction>\\[dtc]?frac\s*\d\s*\d)  # \frac12
  | (?P<frac>\\[dtc]?frac(?![a-zA-Z]))
  | (?P<binom>\\[dt]?binom(?![a-zA-Z]))
  | (?P<sqrt>\\sqrt(?![a-zA-Z]|\s*\[)|√|\bsqrt(?=\())
  | (?P<emphasis>\*\*)  # Markdown's bold, or a power
  | (?P<code>={{2,}}|!=|[-+*/]=|//)  # of a programming language
  | (?P<relation><=|>=|=>|-{{1,2}}>|:=|[<>≤≥≠≡≅∼→⇒⟹⇔⟺∴∵∈]|\\(?:{_RELATIONS})(?![a-zA-Z]))
  | (?P<about>≈|\\(?:approx|simeq)(?![a-zA-Z]))
  | (?P<equals>=)
  | (?P<boxed>\\(?:boxed|fbox)\s*\{{)
  | (?P<open>[(\[{{])
  | (?P<close>[)\]}}])
    # \text{{ apples}}
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
            return Token("op", _NORMALIZED.get(piece, piece), at, end)
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


_Read = tuple[list[Token], int]
"""What some words mean, as tokens, and the index of the token after these words."""


def mark(tokens: Sequence[Token], text: str) -> list[Token]:
    """The tokens with words after numbers replaced by `op`, `power`, `scale`, `cents`, `says` and `unit`.

    Asides (`(ones)`) and breaks within a chain are left out; a `gap` is put between two numbers side by side.
    """
    marked: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if marked and ends_operand(marked[-1]):
            read = _after_operand(tokens, at, marked, text)
            if read is not None:
                meaning, at = read
                marked += meaning
                continue
            if token.kind in _BEGIN_OPERAND:
                marked += _between(marked[-1], token, text)
        marked.append(token)
        at += 1
    return marked


def _after_operand(tokens: Sequence[Token], at: int, marked: list[Token], text: str) -> _Read | None:
    """The break, aside or words at ``at``, after an operand; None if they are kept as they are."""
    if tokens[at].kind == "break":
        # A chain continues if the next line begins with an equals sign.
        next_index = next((index for index in range(at, len(tokens)) if tokens[index].kind != "break"), at)
        return ([], next_index) if tokens[next_index].kind in ("equals", "about") else None
    if marked[-1].end < tokens[at].start:
        aside_end = _aside(tokens, at)
        if aside_end is not None:
            return [], aside_end
    return _word(tokens, at, marked, text)


def _between(before: Token, token: Token, text: str) -> list[Token]:
    """Meaning of two operands without a sign between them: a product, the end of one formula, or a gap."""
    if _MATH_ENDS.search(text, before.end, token.start):
        return [Token("break", "", token.start, token.start)]
    # `2\frac12` may be 2 and a half.
    is_mixed = before.kind == "number" and token.kind in ("frac", "fraction")
    if token.kind == "number" or is_mixed or before.kind not in _MULTIPLIED_WITHOUT_SIGN:
        return [Token("gap", "", token.start, token.start)]
    return []


def _aside(tokens: Sequence[Token], at: int) -> int | None:
    """Index after words in brackets, as in `29 x 1 (ones) = 29`; None without such words."""
    inside = tokens[at + 1:at + 2 + _MAX_ASIDE_WORDS]
    end = next((index for index, token in enumerate(inside) if token.kind != "word" or len(token.text) == 1), 0)
    return at + end + 2 if tokens[at].text == "(" and end and inside[end].kind == "close" else None


def _word(tokens: Sequence[Token], at: int, marked: list[Token], text: str) -> _Read | None:
    """The meaning of the words at ``at``, after an operand; None if they end the expression."""
    token, before = tokens[at], marked[-1]
    if token.kind == "word":
        # A letter directly after a number is a variable.
        if before.end == token.start and text[token.start] not in "\\¢" and token.text not in words.UNITS_STUCK:
            return None
        if change := words.CHANGES.get(token.text):
            return [Token(*change, token.start, token.end)], at + 1
        operation = _operation(tokens, at, marked)
        if operation is not None:
            return operation
    end = _unit_end(tokens, at, text)
    if end is None:
        return None
    unit = " ".join(one.text for one in tokens[at:end])
    return [Token("unit", unit, token.start, tokens[end - 1].end)], end


def _operation(tokens: Sequence[Token], at: int, marked: list[Token]) -> _Read | None:
    """The operation (`plus`) or equals sign (`is equal to`) that the words at ``at`` mean; None for other words."""
    before = marked[-1]
    # `20% of 50` and `1/2 of 8` are products; `2 of 3` counts.
    is_part = before.text == "%" or before.kind == "fraction" or (len(marked) > 2 and marked[-2].text == "/")
    # The longest phrase first.
    for end in range(min(at + 3, len(tokens)), at, -1):
        phrase = " ".join(one.text for one in tokens[at:end])
        if phrase not in words.PHRASES:
            continue
        kind, text = words.PHRASES[phrase]
        following = tokens[end].kind if end < len(tokens) else ""
        # A single word may also be one of prose, so an operand has to follow; after `is` a number.
        fits = following in ({"number"} if kind == "says" else _BEGIN_OPERAND) and (text != "of" or is_part)
        if fits or end > at + 1:
            return [Token(kind, text, tokens[at].start, tokens[end - 1].end)], end
    return None


def _unit_end(tokens: Sequence[Token], at: int, text: str) -> int | None:
    """Index after a unit (`apples`, `square feet`, `km/h`, `/hour`) if the expression goes on there; else None."""
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
        return None
    following = tokens[end]
    goes_on = following.kind in ("equals", "about", "relation", "close") or (
        following.kind == "op" and following.text != "%") or _aside(tokens, end) is not None
    return end if goes_on else None
