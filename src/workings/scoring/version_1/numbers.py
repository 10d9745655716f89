"""Numbers as version 1 read them, for records that were made with it. They never change."""

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

MAX_CHARACTERS = 300
"""A longer text is not a number."""
MAX_EXPONENT = 400
"""Largest absolute power of ten in scientific notation."""

_CURRENCY = {"$": "dollar", "€": "euro", "£": "pound", "¥": "yen", "₹": "rupee", "US$": "dollar", "USD": "dollar",
             "EUR": "euro", "GBP": "pound"}
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_UNIT_NAMES = {"km": "kilometer", "kilometre": "kilometer", "m": "meter", "metre": "meter", "cm": "centimeter",
               "centimetre": "centimeter", "mm": "millimeter", "millimetre": "millimeter", "ft": "foot", "feet": "foot",
               "inches": "inch", "in": "inch", "mi": "mile", "kg": "kilogram", "g": "gram", "lb": "pound",
               "lbs": "pound", "oz": "ounce", "l": "liter", "litre": "liter", "ml": "milliliter", "h": "hour",
               "hr": "hour", "hrs": "hour", "min": "minute", "mins": "minute", "s": "second", "sec": "second",
               "secs": "second", "usd": "dollar", "eur": "euro", "gbp": "pound", "men": "man", "women": "woman",
               "people": "person", "children": "child"}

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d+)?|\.\d+)"
_VALUE = re.compile(
    rf"(?P<mixed>{_DIGITS})(?:\s+|\s*-\s*|\s+and\s+)(?P<mixed_top>\d+)\s*/\s*(?P<mixed_bottom>\d+)"
    rf"|(?P<top>{_DECIMAL})\s*/\s*(?P<bottom>{_DECIMAL})"
    rf"|(?P<decimal>{_DECIMAL})(?:\s*(?:[eE]|(?:x|\*)\s*10\s*(?:\^|\*\*)\s*)(?P<exponent>[+-]?\d{{1,4}}))?")
_CURRENCY_MARK = re.compile(r"(?:US\$|USD|EUR|GBP|[$€£¥₹])\s*")
# A word that joins or negates is no unit: "5 or 6" and "5 minus 2" are more than one number.
_WORD = r"(?!(?:or|and|not|to|but|minus|plus|times)\b)[^\W\d_]+(?:\^?[23])?"
_UNIT = re.compile(rf"-?{_WORD}(?:[ ./-]+{_WORD}){{0,4}}\.?|°[CF]?", re.IGNORECASE)
# In this order: fractions while their braces are there, braces that are left over last.
_LATEX = (
    (re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"), r" \1/\2"),
    (re.compile(r"\\[dt]?frac\s*(\d)\s*(\d)"), r" \1/\2"),
    (re.compile(r"\\(?:text|mathrm|mbox|textbf|mathbf)\s*\{([^{}]*)\}"), r" \1"),
    (re.compile(r"\^\s*\{?\\circ\}?"), "°"),
    (re.compile(r"\\(?:times|cdot)"), "*"),
    (re.compile(r"\\(?:left|right|displaystyle)"), ""),
    (re.compile(r"\\([%$€£&#_{}])"), r"\1"),
    (re.compile(r"\\[ ,;:!()\[\]]"), ""),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\{([^{}]*)\}"), r"\1"),
)
_DASHES = dict.fromkeys(map(ord, "−–—‐‑﹣-"), "-")


@dataclass(frozen=True, slots=True)
class Number:
    """One number as written: its exact value, whether a percent sign stood there, and its unit (or "")."""

    value: Fraction
    percent: bool = False
    unit: str = ""


def parse_number(text: str) -> Number | None:
    """The number that a text is, or None where it is something else (or more than a number)."""
    return _parse(text) if len(text) <= MAX_CHARACTERS else None


@lru_cache(maxsize=10_000)
def _parse(text: str) -> Number | None:
    # An expected answer is read when its kind is asked, when it is scored and in every sample: once is enough.
    cleaned = _clean(text)
    if not cleaned:
        return None
    sign, cleaned = _sign(cleaned)
    unit = ""
    mark = _CURRENCY_MARK.match(cleaned)
    if mark:
        unit = _CURRENCY[mark.group().strip()]
        inner, cleaned = _sign(cleaned[mark.end():])
        sign *= inner
    match = _VALUE.match(cleaned)
    if not match:
        return None
    value = _value(match)
    if value is None:
        return None
    return _with_unit(sign * value, cleaned[match.end():].strip(), unit)


def equal_numbers(given: Number, expected: Number, tolerance: float = 0.0) -> bool:
    """Whether two numbers agree within an absolute tolerance.

    A unit that only one of them names is no difference; two different units are. A percent sign that only one of
    them carries may be a unit (50 % for 50) or a factor (50 % for 0.5): both count.
    """
    if given.unit and expected.unit and given.unit != expected.unit:
        return False
    # Through its text: a tolerance of 0.1 means a tenth, and not the double beside it.
    allowed = Fraction(str(tolerance))
    candidates = [given.value]
    if given.percent and not expected.percent:
        candidates.append(given.value / 100)
    if expected.percent and not given.percent:
        candidates.append(given.value * 100)
    return any(abs(candidate - expected.value) <= allowed for candidate in candidates)


def _clean(text: str) -> str:
    if text.isascii() and text.isdigit():
        return text
    # The space is put in first, because NFKC turns the sign ½ into the three characters 1, slash and 2.
    text = unicodedata.normalize("NFKC", _mixed_vulgar(text)).replace("⁄", "/").translate(_DASHES)
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    text = text.strip().strip("*`\"'").strip()
    if text.count("=") >= 1:  # "x = 5", "47+25=72": the right side is the number
        text = text.rsplit("=", 1)[1]
    text = text.strip().rstrip(".,;:!?").strip()
    if len(text) > 1 and text.startswith("$") and text.endswith("$"):
        text = text[1:-1].strip()
    elif text.endswith("$") and text.count("$") == 1:
        text = f"${text[:-1].strip()}"
    return re.sub(r"^(?:about|approximately|approx\.?|roughly|≈|~)\s*", "", text, flags=re.IGNORECASE)


def _mixed_vulgar(text: str) -> str:
    """A space before a one-character fraction: ``1½`` is one and a half, not eleven halves."""
    return re.sub(r"(?<=\d)(?=[¼-¾⅐-⅞])", " ", text)


def _sign(text: str) -> tuple[int, str]:
    if text[:1] in "+-" and text:
        return (-1 if text[0] == "-" else 1), text[1:].lstrip()
    return 1, text


def _fraction(digits: str) -> Fraction:
    return Fraction(digits.replace(",", ""))


def _value(match: re.Match[str]) -> Fraction | None:
    if match["mixed"] is not None:
        bottom = Fraction(match["mixed_bottom"])
        return _fraction(match["mixed"]) + Fraction(match["mixed_top"]) / bottom if bottom else None
    if match["top"] is not None:
        bottom = _fraction(match["bottom"])
        return _fraction(match["top"]) / bottom if bottom else None
    exponent = int(match["exponent"] or 0)
    # Powers of fractions are exact: a large exponent would be as many digits in memory.
    if abs(exponent) > MAX_EXPONENT:
        return None
    return _fraction(match["decimal"]) * Fraction(10) ** exponent


def _with_unit(value: Fraction, rest: str, unit: str) -> Number | None:
    percent = False
    match = re.match(r"(?:%|percent\b|per cent\b)\s*", rest, re.IGNORECASE)
    if match:
        percent, rest = True, rest[match.end():]
    # After the percent sign and before the unit, as in "3 million people".
    scale = re.match(r"-?([A-Za-z]+)\b\s*", rest)
    if scale and scale[1].lower() in _SCALES:
        value, rest = value * _SCALES[scale[1].lower()], rest[scale.end():]
    if rest and not _UNIT.fullmatch(rest):
        return None
    return Number(value, percent, unit_name(rest) if rest else unit)


def unit_name(text: str) -> str:
    """One spelling for a unit: lower case, singular, common abbreviations written out."""
    name = " ".join(text.casefold().strip(" .-").split())
    if name in _UNIT_NAMES:
        return _UNIT_NAMES[name]
    if name.endswith("s") and not name.endswith("ss") and len(name) > 3:
        name = name[:-1]
    return _UNIT_NAMES.get(name, name)
