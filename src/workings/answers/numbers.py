r"""Numbers as people and models write them, read exactly: ``$1,234.50``, ``50%``, ``1 1/2``, ``\frac{3}{4}``, ``5 km``.

Values are fractions, so ``0.1 + 0.2`` and ``0.3`` are equal and nothing overflows. Nothing is evaluated:
``10**10**10`` is not a number. If a text cannot be read as one number, no part of it counts as one either.
"""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from workings.answers.latex import plain, spaced_digits
from workings.answers.number_words import SCALES, read_words
from workings.answers.units import NO_UNIT, Unit, is_measure, read_unit, same_units

MAX_CHARACTERS = 300
"""A longer text is not a number."""
MAX_EXPONENT = 400
"""Largest absolute power of ten in scientific notation."""
FLOAT_ERROR = Fraction(1, 10**9)
"""Relative difference up to which two numbers are equal if one is not whole: they may be prints of one float."""

_SCALES = {"hundred": 10**2, "lakh": 10**5, "lac": 10**5, "crore": 10**7, "dozen": 12, "mio": 10**6, "mln": 10**6,
           "juta": 10**6, "mrd": 10**9, "mld": 10**9, "bln": 10**9, "tn": 10**12, "trn": 10**12,
           "百": 10**2, "千": 10**3, "万": 10**4, "萬": 10**4, "億": 10**8, "亿": 10**8, **SCALES}
_LETTER_SCALES = {"k": 10**3, "m": 10**6, "mm": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9, "t": 10**12, "cr": 10**7,
                  "grand": 10**3}
"""Only after a currency; `l` is a lakh of rupees and no scale of another currency."""

# Groups of three, or of two before the last three as in India, with one separator.
_DIGITS = (r"(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d{2})+,\d{3}|\d{1,3}(?: \d{3})+(?!\d)|\d{1,3}(?:['’]\d{3})+"
           r"|\d{1,3}(?:_\d{3})+|\d+)(?!\d|[,'’_]\d)")
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d+)?|\.\d+)"
_VALUE = re.compile(
    rf"(?P<mixed>{_DIGITS})(?:\s+|-|\s+and\s+)(?P<mixed_top>\d+)\s*/\s*(?P<mixed_bottom>\d+)"
    rf"|(?P<top>{_DECIMAL})\s*/\s*(?P<bottom>{_DECIMAL})"
    r"|10\s*\^\s*(?:\{(?P<braced>[+-]?\d{1,3})\}|(?P<power>[+-]?\d{1,3}))"
    rf"|(?P<decimal>{_DECIMAL})(?:\s*(?:[eE]|(?:x|\*|×)\s*10\s*(?:\^|\*\*)\s*\{{?)(?P<exponent>[+-]?\d{{1,4}})\}}?)?")
CURRENCY = r"(?:(?:US|CA|AU|[CAR])?\$|USD|EUR|GBP|INR|Rs\.?|[$€£¥₹])"
_CURRENCY_MARK = re.compile(rf"{CURRENCY}\s*")
_CURRENCY_BEFORE = re.compile(rf"(?:{CURRENCY})\s?$")
_NAME = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"
# Left sides whose right side is the answer: a name, f(3), x_1, words, m+n.
_NAMED = re.compile(rf"\s*{_NAME}\.?(?:\s+{_NAME}\.?){{0,9}}\s*(?:_\{{?\w{{1,5}}\}}?|\^\{{?-1\}}?)?\s*"
                    r"['’′]{0,3}(?:\([^()=]{0,40}\))?\s*:?"
                    r"|-?\s*[a-w](?:\s*[-+*/]\s*[a-w]){1,5}")
_UNKNOWN = re.compile(r"(?<![^\W\d_])[a-zA-Z](?![^\W\d_])")
_RUN = re.compile(r"\.?\d(?:[\d.,'’_٬/:^]*\d)?")
_MORE_OF_RUN = re.compile(r"\s\d+/\d+(?!\d)|(?: \d{3})+(?!\d|[.,]\d)(?:\.\d+)?|\s?[x×*]\s?10\s?\^\s?\{?-?\d{1,3}\}?"
                          r"|[eE][+-]?\d{1,3}(?!\w)")
_BEHIND = re.compile(r"\s?%|\s?°[CF]?|(?!(?:st|nd|rd|th)\b)[-\s]?(?:[^\W\d_]|[²³/](?=[^\W\d_]))+(?:\^?[23])?")
MAX_BEHIND = 4
"""Words after a number in a sentence that may be its scale and unit."""


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """A number as written: its exact value, whether it had a percent sign, and its unit."""

    value: Fraction
    percent: bool = False
    unit: Unit = NO_UNIT


@dataclass(frozen=True, slots=True)
class NumberAt:
    """A number in a sentence, with its scale and unit."""

    start: int
    end: int
    text: str
    number: WrittenNumber | None
    """None for digits that are no number: a time, a ratio, groups that cannot be read."""


def parse_number(text: str) -> WrittenNumber | None:
    """The number that a text is; None for anything else, and for more than a number.

    >>> parse_number("$1,234.50").value, parse_number("1,50,000").value, parse_number("15,0000")
    (Fraction(2469, 2), Fraction(150000, 1), None)
    >>> sorted(parse_number("60 km/h").unit)
    ['hour', 'kilometer']
    >>> parse_number("6x") is None
    True
    """
    return _parse(text) if len(text) <= MAX_CHARACTERS else None


def parse_words(text: str) -> WrittenNumber | None:
    """The number that a text is in words, with its unit: "twenty-five apples", "one hundred and five", "two thirds".

    >>> parse_words("seventy-five percent").percent, parse_words("twice").value
    (True, Fraction(2, 1))
    """
    if len(text) > MAX_CHARACTERS or any(character.isdigit() for character in text):
        return None
    tokens = re.findall(r"[^\W\d_]+", plain(text).casefold())
    found = read_words(tokens)
    if found is None:
        return None
    value, words = found
    return parse_number(f"{value} {' '.join(tokens[words:])}")


def numbers_in(sentence: str) -> list[NumberAt]:
    """The numbers of a sentence in digits, each with its sign, currency, scale and unit.

    >>> [each.text for each in numbers_in("He paid 2 lakh rupees at 4:30 for 1,50,000 of them.")]
    ['2 lakh rupees', '4:30', '1,50,000']
    """
    found: list[NumberAt] = []
    for run in _RUN.finditer(sentence):
        if found and run.start() < found[-1].end:
            continue
        before = sentence[max(0, run.start() - 8):run.start()]
        # "x2", "COVID-19": a part of a name.
        if re.search(r"[^\W\d]-?$", _CURRENCY_BEFORE.sub("", before)):
            continue
        found.append(_number_at(sentence, run.start(), run.end()))
    return found


def _number_at(sentence: str, start: int, end: int) -> NumberAt:
    """The number around these digits, extended as far as possible."""
    if (more := _MORE_OF_RUN.match(sentence, end)) and _VALUE.fullmatch(sentence[start:more.end()]):
        end = more.end()
    currency = _CURRENCY_BEFORE.search(sentence[max(0, start - 6):start])
    start -= len(currency[0]) if currency else 0
    sign = re.search(r"(?:^|(?<=[\s(=:*$]))[-+]\s?$|(?<=[=(:])\s?-\s?$", sentence[:start][-4:])
    if sign and not re.search(r"(?:\d[a-z]?|(?<![^\W_])[a-z]|[)}])\s[-+]\s$", sentence[:start]):
        start -= len(sign[0].lstrip())
    # A factor that is not read (十), or that differs between languages (mil: a thousand or a million).
    if re.match(r"\s?(?:[十百千]|(?:mil|jt|ribu)\b)", sentence[end:]):
        return NumberAt(start, end, sentence[start:end], None)
    number, stop = parse_number(sentence[start:end]), end
    # The scale and unit are the longest words after the number that change its value or name a measure.
    word_ends = [end]
    while len(word_ends) <= MAX_BEHIND and (behind := _BEHIND.match(sentence, word_ends[-1])):
        word_ends.append(behind.end())
    for word_end in word_ends[1:]:
        longer = parse_number(sentence[start:word_end])
        is_preposition = sentence[end:word_end] == " in" and re.match(r"\s\w", sentence[word_end:])
        if longer and not is_preposition and (number is None or _says_more(longer, number)):
            number, stop = longer, word_end
    # "42abc", "6x"; "18th" is the place 18.
    is_part_of_word = re.match(r"(?!(?:st|nd|rd|th)\b)[^\W\d_]", sentence[stop:])
    # "1億5000万" is not read as one number.
    is_compound = re.match(r"[万萬億亿] ?\d", sentence[max(start, stop - 1):])
    return NumberAt(start, stop, sentence[start:stop], None if is_part_of_word or is_compound else number)


def _says_more(longer: WrittenNumber, number: WrittenNumber) -> bool:
    """Whether further words change a number's value, or add a measure to it."""
    return (longer.value, longer.percent) != (number.value, number.percent) or is_measure(longer.unit - number.unit)


@lru_cache(maxsize=10_000)
def _parse(text: str) -> WrittenNumber | None:
    # Cached, because an expected answer is read for its kind, for its score and for every sample.
    cleaned = _clean(text)
    if not cleaned:
        return None
    sign, cleaned = _sign(cleaned)
    currency = ""
    mark = _CURRENCY_MARK.match(cleaned)
    if mark:
        currency = mark.group().strip()
        inner, cleaned = _sign(cleaned[mark.end():])
        sign *= inner
    match = _VALUE.match(cleaned)
    value = _value(match) if match else None
    if match is None or value is None:
        return None
    return _with_unit(sign * value, cleaned[match.end():], currency)


def equal_numbers(given: WrittenNumber, expected: WrittenNumber, tolerance: float = 0.0) -> bool:
    """Whether two numbers agree within an absolute tolerance, or within `FLOAT_ERROR` if one is not whole.

    Only one of them may name a unit; two units must be the same. A percent sign that only one of them has may be a
    unit (50 % for 50) or a factor (50 % for 0.5): both count.
    """
    is_percentage_of_measure = (given.percent and is_measure(expected.unit)) or (
        expected.percent and is_measure(given.unit))
    if is_percentage_of_measure or not same_units(given.unit, expected.unit):
        return False
    # By its text: a tolerance of 0.1 means a tenth, and not the double next to it.
    allowed = Fraction(str(tolerance))
    if given.value.denominator > 1 or expected.value.denominator > 1:
        allowed = max(allowed, FLOAT_ERROR * max(abs(given.value), abs(expected.value)))
    pairs = [(given.value, expected.value)]
    if given.percent and not expected.percent:
        pairs.append((given.value / 100, expected.value))
    if expected.percent and not given.percent:
        pairs.append((given.value, expected.value / 100))
    return any(abs(one - other) <= allowed for one, other in pairs)


def _clean(text: str) -> str:
    text = _stripped(spaced_digits(plain(text.replace("\\%", "%"))))
    if re.search(r"[=≈]", text):  # "x = 5", "47+25=72": the right side is the number
        left, text = re.split(r"[=≈](?=[^=≈]*$)", text, maxsplit=1)
        if not names_a_value(left):
            return ""
    return _stripped(text)


def _stripped(text: str) -> str:
    return text.strip().strip("*`\"'_“”’‘ ").rstrip(".,;:?! ").strip("*`\"'_“” ").strip()


def names_a_value(left: str) -> bool:
    """Whether the text before an equals sign makes its right side the answer: a name or arithmetic, no unknowns.

    >>> names_a_value("Total cost"), names_a_value("3*4"), names_a_value("x^2+y^2")
    (True, True, False)
    """
    left = re.sub(r"(?<=\d)x(?=\d)| x (?=[\d$(])", " * ", left)
    parts = [part.strip().strip("*$_∴ ") for part in re.split(r"[=≈]", left)]
    # "x = -b/(2a) = 12/4" names one value; in "x = 2, y" another name follows.
    later_parts = re.sub(r"\{[^{}]*\}|\([^()]*\)", "", "=".join(parts[1:]))
    if len(parts) > 1 and _NAMED.fullmatch(parts[0]) and not re.search(r",\s|\b(?:or|and)\b|;", later_parts):
        return True
    return all(_NAMED.fullmatch(part) or not (_UNKNOWN.search(part) or re.search(r",\s", part)) for part in parts)


def _sign(text: str) -> tuple[int, str]:
    """The sign of a number (1 or -1), and the text after it."""
    if text.startswith(("+", "-")):
        return (-1 if text[0] == "-" else 1), text[1:].lstrip()
    return 1, text


def _fraction(digits: str) -> Fraction:
    return Fraction(re.sub("[, '’_]", "", digits))


def _value(match: re.Match[str]) -> Fraction | None:
    """The value of a match of `_VALUE`; None for a division by zero and a large power of ten."""
    if written := match["mixed_bottom"] or match["bottom"]:
        whole, top, bottom = map(_fraction, (match["mixed"] or "0", match["mixed_top"] or match["top"], written))
        return whole + top / bottom if bottom else None
    if match["decimal"] is None:
        return Fraction(10) ** int(match["braced"] or match["power"])
    exponent = int(match["exponent"] or 0)
    # Powers of fractions are exact: a large exponent would fill the memory.
    if abs(exponent) > MAX_EXPONENT:
        return None
    return _fraction(match["decimal"]) * Fraction(10) ** exponent


def _scale(word: str, currency: str) -> int:
    """The factor that a word or sign after a number means, such as 10**6 for "million"; 0 for any other word."""
    singular = word.removesuffix("s")
    if currency and word == "l" and currency.strip(".") in ("Rs", "INR", "₹"):
        return 10**5
    named = _SCALES.get(word) or _SCALES.get(singular) or (_LETTER_SCALES.get(singular) if currency else 0)
    return named or math.prod(_SCALES.get(letter, 0) for letter in word)  # 千万 is ten million


def _with_unit(value: Fraction, rest: str, currency: str) -> WrittenNumber | None:
    """A number with the percent sign, the scales ("5 lakh crore") and the unit of the text after it, in this order."""
    percent = re.match(r"\s*(?:%|percent\b|per cent\b|percentage points?\b|pct\b)\s*", rest, re.IGNORECASE)
    if percent:
        rest = rest[percent.end():]
    is_scaled = False
    while scale := re.match(r"\s*-?([A-Za-z]+\b|[百千万萬億亿]+)\s*", rest):
        factor = _scale(scale[1].lower(), currency)
        if factor == 0:
            break
        value, rest, is_scaled = value * factor, rest[scale.end():], True
    unit = read_unit(rest.strip(), currency)
    # Up to three letters directly after a number are a product, unless they are a measure.
    is_product = re.match(r"[^\W\d_]{1,3}(?![^\W\d_])", rest) and not percent and not is_scaled
    if unit is None or (is_product and not is_measure(unit)) or rest.startswith((",", "'", "’", "_")):
        return None
    return WrittenNumber(value, percent is not None, unit)
