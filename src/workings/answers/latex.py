r"""Brings LaTeX and the signs of mathematics into one spelling: ``\dfrac{\sqrt{3}}{2}`` becomes ``\frac{\sqrt3}2``.

Nothing is worked out: ``2\sqrt{5}`` and ``\sqrt{20}`` stay different. (The scorer `math` finds them equal.)
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
_FRACTION = re.compile(r"\\[dtc]?frac(?:\s*\{([^{}]*)\}\s*\{([^{}]*)\}|\s*(\d)\s*(?:(\d)|\{([^{}]*)\}))")
_ONE_BRACED = re.compile(r"([\^_√])\{([^{}\s])\}")
_ROOT = re.compile(r"√\s+(?=\d|[A-Za-z])")
# Bold text with braces inside: "\boldsymbol{3\sqrt[3]{2}}".
_BOLD = re.compile(r"\\(?:boldsymbol|mathbf|bm)\s*\{((?:[^{}]|\{[^{}]*\}){1,300})\}")


def signs(text: str) -> str:
    """Unicode in one spelling: raised and lowered digits as ``^2`` and ``_2``, one minus, no compatibility forms."""
    if text.isascii():
        return text
    # Before NFKC, which turns 10² into 102 and 1½ into 11/2.
    for mark, digits in (("^", _RAISED), ("_", _LOWERED)):
        text = digits.sub(lambda found, mark=mark: f"{mark}{{{found[0]}}}", text)  # type: ignore[misc]
    text = re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " ", text)
    return unicodedata.normalize("NFKC", text).replace("⁄", "/").translate(_DASHES)


def spaced_digits(text: str) -> str:
    """Chinese, Japanese and Korean words apart from digits, which they are next to without a space."""
    return text if text.isascii() else re.sub(rf"(?<={_EAST_ASIAN})(?=[-\d$])|(?<=\d)(?={_EAST_ASIAN})", " ", text)


def plain(text: str) -> str:
    """A text without delimiters, text commands and commands for space; fractions with a slash."""
    # Braces that are left have no meaning.
    return re.sub(r"(?<![√\\}])\{([^{}]{1,3})\}", r"\1", _in_signs(text))


def _in_signs(text: str) -> str:
    """Commands as signs: roots, fractions, degrees."""
    text = signs(text)
    if not _COMMANDS_BEGIN.search(text):
        return text
    text = _BOLD.sub(r" \1", _DELIMITERS.sub(" ", text))
    for _ in range(2):  # a text may be within a text
        text = _TEXT.sub(r" \1", text)
    text = re.sub(r"(?<=\d)(?:\\,|\\ |~|\\!,|\{,\}\\!|\{,\}|,\\!)(?=\d{3})", ",", text)
    text = re.sub(r"\^\s*\{?\\(?:circ|degree)\}?", "°", _SPACES.sub(" ", text))
    text = _SIGN.sub(lambda sign: _SIGNS[sign[1]], text)
    text = _ONE_BRACED.sub(r"\1\2", _ROOT.sub("√", text))
    text = _FRACTION.sub(lambda fraction: _slashed(*filter(None, fraction.groups())), text)
    return re.sub(r"\\([%$€£&#])", r"\1", text)


def _slashed(top: str, bottom: str) -> str:
    """A fraction with a slash, and with brackets around a sum, or a product below the slash."""
    top, bottom = top.strip(), bottom.strip()
    if not re.fullmatch(r"-?[\w.,√]+", top):
        top = f"({top})"
    if not re.fullmatch(r"[\d.,]+|[^\W\d_]|[^\W\d_]{3,}", bottom):
        bottom = f"({bottom})"
    return f" {top}/{bottom}"


@lru_cache(maxsize=64)
def normal_form(text: str) -> str:
    r"""Mathematics in one spelling, without spaces.

    >>> normal_form(r"\dfrac{ \sqrt{3} }{2}") == normal_form(r"\frac{\sqrt3}{2}")
    True
    """
    # The end of a matrix's row is no command for a space.
    text = _FUNCTION.sub(r"\1", _in_signs(text.replace("\\\\", "⏎")))
    text = re.sub(r"\\(?=[{}])|\$", "", text).strip().rstrip(".")
    return re.sub(r"(?<!\d)\s+|\s+(?!\d)", "", text)  # "2 1/2" is not 21/2
