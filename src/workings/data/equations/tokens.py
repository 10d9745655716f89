r"""Splits a text that may hold equations, plain or in LaTeX, into tokens.

    text    3 dozen eggs \times 4 is $1,200$
    tokens  number 3, word dozen, word eggs, op *, number 4, word is, number 1200

White space, currency signs, mathematical delimiters and Markdown's emphasis change no value, so they give no token.
`workings.data.equations.meanings` then decides what the words mean.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    r"""A piece of a text.

    `tokenize` gives these kinds:

    - numbers: `number` (`1,200`, `.5`), `fraction` (`\frac12`)
    - signs after a number: `power` (`²`), `factorial` (`!`)
    - signs before their operands: `frac`, `binom`, `sqrt`
    - other signs: `op` (`+`, `\times`, `%`), `open` and `close` (brackets)
    - signs between two sides: `equals` (`=`), `about` (`≈`), `relation` (`<`, `\implies`)
    - text: `word`, `break` (end of a line), `bullet` (`2.` of a list), `ellipsis` (`...`), `other` (anything else)

    `workings.data.equations.meanings.mark` adds `scale` (`dozen`: a factor), `cents` (a hundredth), `unit`
    (`square feet`), `says` (`is`: a word for an equals sign) and `gap` (between two numbers without a sign: `3 4`).
    """

    kind: str
    text: str
    """The normalized text: operators in one spelling, numbers without grouping."""
    start: int
    """First character in the text."""
    end: int

    @property
    def ends_operand(self) -> bool:
        """Whether an expression may end with this token."""
        return self.kind in _END_OPERAND or (self.kind == "op" and self.text == "%")


_END_OPERAND = frozenset({"number", "fraction", "close", "unit", "power", "scale", "cents", "factorial"})
# `:` is a division sign that binds two fractions less tightly than the strokes within them.
_OPERATORS = {**dict.fromkeys(("×", "·", "⋅", "∙", "∗", "✕", r"\cdot", r"\times", r"\ast"), "*"),
              "÷": ":", r"\div": ":", "−": "-", "–": "-", "⁄": "/", "**": "^", r"\%": "%"}
_SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_GROUP = r"(?:,|\{,\}|,\\!|\\,)"
_RELATIONS = ("ne|neq|le|leq|leqslant|ge|geq|geqslant|lt|gt|equiv|sim|cong|to|rightarrow|Rightarrow|implies|iff|"
              "Leftrightarrow|Longrightarrow|longrightarrow|therefore|because|in|mid")
# Alternatives are tried in order. The last one takes any character, so the pieces cover the whole text.
_PIECE = re.compile(rf"""
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
# A number that begins with 0 and a digit is part of a time, a date or a code. No sum has a number of 300 digits.
_NO_AMOUNT = re.compile(r"0\d|\d{300}")
_BEFORE_OPERATION = re.compile(r"[\d)\]}%!⁰-⁹²³¹a-zA-Z$]")
_OPERAND_BEGINS = re.compile(r"[\d(\[{.$€£√\\a-zA-Z+−-]")


def tokenize(text: str) -> list[Token]:
    """All tokens of a text in order. The time is in proportion to the text's length."""
    tokens: list[Token] = []
    for piece in _PIECE.finditer(text):
        if kind_and_text := _kind_and_text(piece, tokens):
            kind, normalized = kind_and_text
            tokens.append(Token(kind, normalized, piece.start(), piece.end()))
    return tokens


def _kind_and_text(piece: re.Match[str], before: list[Token]) -> tuple[str, str] | None:
    """Kind and normalized text of a piece's token, given the tokens ``before`` it; None for mere decoration."""
    kind, written = piece.lastgroup or "other", piece.group()
    match kind:
        case "skip":
            return None
        case "number":
            digits = re.sub(r"[^\d.eE+-]", "", written)
            return "other" if _NO_AMOUNT.match(digits) else "number", digits
        case "emphasis" | "op":
            return ("op", _OPERATORS.get(written, written)) if _is_operation(piece) else None
        case "word" if written in ("x", "X") and _is_times(piece, before):
            return "op", "*"
        case "word" | "sign":
            return "word", written.removeprefix("\\").casefold()
        case "named":
            content = written[written.index("{") + 1:-1].strip()
            text = content.casefold().strip(" .,;:")
            return (_kind_of_content(content), text) if text else None
        case "power":
            return "power", written.translate(_SUPERSCRIPT)
        case "factorial":
            # A mark after a space ends a sentence. `5!` before a word may be either.
            follows_operand = before and before[-1].end == piece.start() and before[-1].kind in ("number", "close")
            return "factorial" if follows_operand else "other", "!"
        case "code":
            return "other", written
        case "boxed":
            return "open", "{"
        case _:
            return kind, written


def _kind_of_content(content: str) -> str:
    r"""The kind of a token for the content of `\text{…}`."""
    if re.fullmatch(r"\d+(?:\.\d+)?", content):
        return "number"
    return "other" if re.search(r"[\d\\$=]", content) else "word"


def _is_times(letter: re.Match[str], before: list[Token]) -> bool:
    """Whether an x between two numbers is a multiplication sign: `3 x 4`."""
    return bool(before) and before[-1].ends_operand and _AMOUNT_FOLLOWS.match(letter.string, letter.end()) is not None


def _is_operation(sign: re.Match[str]) -> bool:
    """Whether a sign is an operation. Stars may be Markdown's emphasis instead; every other sign is one."""
    text, (start, end), stars = sign.string, sign.span(), sign.group()
    if stars not in ("*", "**"):
        return True
    space_before, space_after = text[start - 1:start] == " ", text[end:end + 1] == " "
    # Markdown never puts spaces on both sides of a mark, so this star multiplies.
    if stars == "*" and space_before and space_after:
        return True
    before, after = text[max(start - 9, 0):start].rstrip(" "), text[end:end + 9].lstrip(" ")
    if not _BEFORE_OPERATION.match(before[-1:]) or not _OPERAND_BEGINS.match(after):
        return False
    return space_before == space_after or (stars == "*" and space_after)
