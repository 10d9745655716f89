r"""LaTeX and the signs of mathematics in one spelling, for comparing what is written and not what it is worth.

Nothing is worked out: ``2\sqrt{5}`` and ``\sqrt{20}`` stay different here (the scorer `math` knows that they are not).
"""

import re
import unicodedata
from functools import lru_cache

_RAISED, _LOWERED = re.compile("[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+"), re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_EAST_ASIAN = "[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_DASHES = dict.fromkeys(map(ord, "−–—‐‑﹣"), "-")
_TEXT = re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf|textit|textrm|mathit|operatorname|textsf"
                   r"|bold|boldsymbol|hat|vec|widehat)\s*\{([^{}]*)\}")
_SPACES = re.compile(r"\\(?:quad|qquad|left|right|displaystyle|limits|[bB]igg?[lr]?)(?![A-Za-z])|\\[ ,;:!]|~")
_COMMANDS_BEGIN = re.compile(r"[\\~{]|\$\$")
_DELIMITERS = re.compile(r"\\[()\[\]]|\$\$")
_SIGNS = {"\\pi": "π", "\\infty": "∞", "\\cdot": "*", "\\times": "*", "\\div": "/", "\\leq": "≤", "\\le": "≤",
          "\\geq": "≥", "\\ge": "≥", "\\neq": "≠", "\\ne": "≠", "\\approx": "≈", "\\pm": "±", "\\in": "∈",
          "\\cup": "∪", "\\cap": "∩", "\\theta": "θ", "\\alpha": "α", "\\beta": "β", "\\circ": "°", "\\degree": "°",
          "\\emptyset": "∅", "\\varnothing": "∅", "\\to": "→", "\\rightarrow": "→", "\\sqrt": "√", "\\angle": "∠",
          "\\triangle": "Δ"}
_SIGN = re.compile("(" + "|".join(map(re.escape, _SIGNS)) + r")(?![A-Za-z])")
_FUNCTION = re.compile(r"\\(sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|log|ln|exp)(?![a-z])")
_FRACTION_DIGITS = re.compile(r"\\frac\s*(\d)\s*(\d)")
_FRACTION_FIRST = re.compile(r"\\frac\s*(\d)\s*\{")
_FRACTION = re.compile(r"\\[dtc]?frac(?![A-Za-z])")
_ONE_BRACED = re.compile(r"([\^_√])\{([^{}\s])\}")
_ROOT = re.compile(r"√\s*(\d+|[A-Za-z])")
# Bold text with braces inside: "\boldsymbol{3\sqrt[3]{2}}".
_BOLD = re.compile(r"\\(?:boldsymbol|mathbf|bm)\s*\{((?:[^{}]|\{[^{}]*\}){1,300})\}")
_MATH = re.compile(r"[\\\^_√π∞=<>≤≥≠±∈∪∩{}\[\]()*+/×]|\d\s*[-:,]\s*-?\d|\d\s*[-+]?\s*[a-zA-Z]\b"
                   r"|\b[a-zA-Z]\s*[-+]\s*\d")


def whole_fractions(text: str) -> str:
    """Fractions of one character in digits: "1½" as ``1 1/2``."""
    return text if text.isascii() else re.sub(r"(?<=\d)?[¼-¾⅐-⅞]", lambda sign: (" " if sign.start() and text[
        sign.start() - 1].isdigit() else "") + unicodedata.normalize("NFKC", sign[0]).replace("⁄", "/"), text)


def signs(text: str) -> str:
    """Unicode in one spelling: raised and lowered digits as ``^2`` and ``_2``, one minus, no compatibility forms."""
    if text.isascii():
        return text
    # Before NFKC, which turns 10² into 102 and 1½ into 11/2.
    text = _RAISED.sub(lambda digits: "^" + _grouped(digits[0]), text)
    text = _LOWERED.sub(lambda digits: "_" + _grouped(digits[0]), text)
    text = re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " ", text)
    return unicodedata.normalize("NFKC", text).replace("⁄", "/").translate(_DASHES)


def _grouped(digits: str) -> str:
    plainly = unicodedata.normalize("NFKC", digits).translate(_DASHES)
    return plainly if len(plainly) == 1 else f"{{{plainly}}}"


def spaced_digits(text: str) -> str:
    """Chinese, Japanese and Korean words apart from digits, which they are next to without a space."""
    return text if text.isascii() else re.sub(rf"(?<={_EAST_ASIAN})(?=[-\d$])|(?<=\d)(?={_EAST_ASIAN})", " ", text)


def plain(text: str) -> str:
    """A text without delimiters, text commands and commands for space; fractions of plain parts as ``a/b``."""
    text = signs(text)
    if not _COMMANDS_BEGIN.search(text):
        return text
    text = _BOLD.sub(r" \1", _DELIMITERS.sub(" ", text))
    for _ in range(2):  # a text may be within a text
        text = _TEXT.sub(r" \1", text)
    text = re.sub(r"(?<=\d)(?:\\,|\\ |~|\\!,|\{,\}\\!|\{,\}|,\\!)(?=\d{3})", ",", text)
    text = _SPACES.sub(" ", text)
    text = _FRACTION.sub(r"\\frac", text)
    text = re.sub(r"\^\s*\{?\\(?:circ|degree)\}?", "°", text)
    text = _SIGN.sub(lambda sign: _SIGNS[sign[1]], text)
    text = re.sub(r"\\frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", _slashed, text)
    text = _FRACTION_DIGITS.sub(r" \1/\2", text)
    text = re.sub(r"\\([%$€£&#])", r"\1", text)
    # Remaining braces have no meaning.
    return re.sub(r"(?<![√\\}])\{([^{}]{1,3})\}", r"\1", text)


def _slashed(fraction: re.Match[str]) -> str:
    top, bottom = fraction[1].strip(), fraction[2].strip()
    # A sum within a fraction needs brackets that the slash does not give.
    return f" {top}/{bottom}" if re.fullmatch(r"-?[\w.,]+", top) and re.fullmatch(r"[\w.,]+", bottom) else (
        f" ({top})/({bottom})")


def is_mathematics(text: str) -> bool:
    """Whether a text is written as mathematics, so that spaces mean nothing in it."""
    return _MATH.search(text) is not None


@lru_cache(maxsize=64)
def normal_form(text: str) -> str:
    r"""Mathematics in one spelling, without spaces.

    >>> normal_form(r"\dfrac{ \sqrt{3} }{2}") == normal_form(r"\frac{\sqrt3}{2}")
    True
    """
    # The end of a matrix's row is no command for a space.
    text = re.sub(r"\s+", " ", _DELIMITERS.sub("", signs(text).replace("\\\\", "⏎")))
    text = text.strip().strip("$").rstrip(".").strip()
    text = _SPACES.sub("", text)
    text = _FUNCTION.sub(r"\1", _TEXT.sub(r"\1", _TEXT.sub(r"\1", _BOLD.sub(r"\1", text))))
    text = _FRACTION.sub(r"\\frac", text)
    text = _FRACTION_DIGITS.sub(r"\\frac{\1}{\2}", text)
    text = _FRACTION_FIRST.sub(r"\\frac{\1}{", text)
    text = re.sub(r"\^\s*\{?\\(?:circ|degree)\}?", "°", text)
    text = _SIGN.sub(lambda sign: _SIGNS[sign[1]], text).replace("\\{", "{").replace("\\}", "}").replace("$", "")
    text = re.sub(r"\s+", "", text)
    # After a digit it would be a mixed number.
    text = re.sub(r"(?<!\d)(?<!ln)(?<!log)(?<!sin)(?<!cos)(?<!tan)\\frac\{(?!ln|log|sin|cos|tan)(\d*√?[\w.]+)\}"
                  r"\{(\d+|[^\W\d_])\}", r"\1/\2", text)
    return _ONE_BRACED.sub(r"\1\2", _ROOT.sub(r"√\1", text))
