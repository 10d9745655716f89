r"""Tokens of a text that may hold equations, plain or in LaTeX, each with its place in the text.

White space, currency signs, mathematical delimiters and Markdown's emphasis say nothing about a value and give no
token. Anything unknown is a token of kind `other`, at which every expression ends.
"""

import re
from dataclasses import dataclass


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
