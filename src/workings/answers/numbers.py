r"""Numbers as people and models write them, read exactly: ``$1,234.50``, ``50%``, ``1 1/2``, ``\frac{3}{4}``, ``5 km``.

Values are fractions, so ``0.1 + 0.2`` and ``0.3`` are equal and nothing overflows. Nothing is ever evaluated:
``10**10**10`` is not a number, and every text is bounded before it is looked at.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from workings.answers.latex import plain
from workings.answers.number_words import SCALES, read_words
from workings.answers.units import NO_UNIT, MeasureUnit, read_unit, same_units

MAX_CHARACTERS = 300
"""A longer text is not a number."""
MAX_EXPONENT = 400
"""Largest absolute power of ten in scientific notation."""

_SCALES = {"hundred": 10**2, **SCALES}
_LETTER_SCALES = {"k": 10**3, "m": 10**6, "mn": 10**6, "b": 10**9, "bn": 10**9}
_TEXT_COMMAND = re.compile(r"\\(?:text|mathrm|mbox|textbf)\s*\{([^{}]*)\}")
_DOZEN = "dozen"

# Groups of three with one separator: a comma, a space, an apostrophe.
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?:[ ]\d{3})+(?!\d)|\d{1,3}(?:['’]\d{3})+|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d+)?|\.\d+)"
_VALUE = re.compile(
    rf"(?P<mixed>{_DIGITS})(?:\s+|-|\s+and\s+)(?P<mixed_top>\d+)\s*/\s*(?P<mixed_bottom>\d+)"
    rf"|(?P<top>{_DECIMAL})\s*/\s*(?P<bottom>{_DECIMAL})"
    r"|10\s*\^\s*(?:\{(?P<braced>[+-]?\d{1,3})\}|(?P<power>[+-]?\d{1,3}))"
    rf"|(?P<decimal>{_DECIMAL})(?:\s*(?:[eE]|(?:x|\*|×)\s*10\s*(?:\^|\*\*)\s*\{{?)(?P<exponent>[+-]?\d{{1,4}})\}}?)?")
CURRENCY = r"(?:(?:US|CA|AU|[CAR])?\$|USD|EUR|GBP|INR|Rs\.?|[$€£¥₹])"
_CURRENCY_MARK = re.compile(rf"{CURRENCY}\s*")
_ABOUT = re.compile(r"(?:about|approximately|approx\.?|roughly|around|exactly|only|nearly|almost|a total of|≈|~)\s*",
                    re.IGNORECASE)
_OR = re.compile(r",?\s(?:or|i\.e\.|that is),?\s")
_COMMA_DECIMAL = re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3})+),(\d{1,2})(?![\d.,])")
# Cents behind a comma, where the currency is one of people who write them so.
_COMMA_CENTS = re.compile(
    r"(?:(?<=R\$)|(?<=€)|(?<=R\$ )|(?<=€ ))(\d{1,3}(?:\.\d{3})+|\d+),(\d\d)(?!\d)"
    r"|(?<![\d.,])(\d{1,3}(?:\.\d{3})+|\d+),(\d\d)(?=\s?(?:€|EUR\b|[Ee]uros?\b|reais\b))")
# Not of a pair in brackets, nor of a list.
_DECIMAL_COMMA = re.compile(r"(?<![\d.,({\[])(\d{1,3}(?:\.\d{3})+|\d+),(\d{1,2})(?![\d)}\]]|,\d|\.\d)")
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_LASTING = re.compile(r"(?<![\d.,:])\d{1,6} ?(?:weeks?|days?|h(?:ours?|rs?)?|m(?:in(?:ute)?s?)?)"
                      r"(?:, | and |, and | )\d{1,6} ?(?:days?|h(?:ours?|rs?)?|min(?:ute)?s?|s(?:ec(?:ond)?s?)?)\b")
COMPOUND = re.compile(r"(?:\d[\d.,]*\s?[a-zA-Z]+\.?,?\s*(?:and\s+)?){2,4}")
"""Values in several units: "5 ft 3 in"."""
# "Wie viele", "Combien", "Cuántos", "Quanto".
_WRITES_COMMAS = re.compile(r"\b(?:wie ?viele?|combien|cu[aá]nt[oa]s?|quant[oiae])\b", re.IGNORECASE)
_DECIMAL_POINT = re.compile(r"\d\.(?:\d{1,2}|\d{4,})(?!\d)")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:\.\d{3})+(?![\d.]|,\d)")
_AND_CENTS = re.compile(r"(?:\$\s?(\d[\d,]*+)|(?<![\d.,])(\d[\d,]*+) dollars?),? and (\d\d?) cents\b", re.IGNORECASE)
_CYCLE = re.compile(r"(\d*)\.(\d*?)(?:\\overline\s*\{?(\d+)\}?|(\d+?)\4+(?:\.\.\.|…|\\ldots|\\dots))")
_NAME = r"[^\W\d_]+(?:['’-][^\W\d_]+)*"
# What may stand before an equals sign so that the right side is the answer: a name, f(3), x_1, words, m+n.
_NAMED = re.compile(rf"(?:∠|Δ)?\s*{_NAME}\.?(?:\s+{_NAME}\.?){{0,9}}\s*(?:_\{{?\w{{1,5}}\}}?|\^\{{?-1\}}?)?\s*"
                    r"['’′]{0,3}(?:\([^()=]{0,40}\))?\s*:?"
                    r"|\\?(?:sin|cos|tan|log|ln)\s*\(?\d?(?:\\(?:theta|alpha|beta)|[θαβa-z])\)?|d[a-z]\s?/\s?d[a-z]"
                    r"|[A-Z](?:\s*(?:[∩∪]|\\c[au]p)\s*[A-Z]){1,5}|-?\s*[a-w](?:\s*[-+*/]\s*[a-w]){1,5}")
_ARITHMETIC = re.compile(r"(?:[\d\s.,+\-*/×·÷()%$€£¥₹^°{}√!_π]"
                         r"|(?:\\sqrt|√)\s?\[\d\]|\\(?:cdot|times|div|circ|pi)|\\?(?:[dt]?frac|binom|sqrt|log|ln|exp|sin|cos|tan|gcd|lcm|max|min|[cl]?dots)"
                         r"(?![a-z]))+")
_TIME_ASKED = re.compile(r"\bwhat(?:['’]s)?\b[^?.]{0,40}\b(?:time|hour)\b", re.IGNORECASE)
_FULL_HOUR = re.compile(r"(?<![\d:.])0?(\d{1,2}):00(?![\d:])(?:\s?[ap]\.?m\b\.?)?", re.IGNORECASE)
# Integrals, limits, sums and derivatives: what they are equal to is their value, with unknowns too.
_OPERATION = re.compile(r"\W*(?:\\?(?:gcd|lcm|max|min|GCD|GCF|LCM)\b"
                        r"|\\(?:int|lim|sum|prod|frac\s*\{d(?:\^\d)?\}\s*\{d[a-z](?:\^\d)?\})(?![a-z])|∫|∑"
                        r"|\(?d(?:\^\d)?\)?/\(?d[a-z](?:\^\d)?\)?)")
_LENGTH = re.compile(r"^\\?\|([^|\\]{1,10})\\?\|$")
_UNKNOWN = re.compile(r"(?<![^\W\d_])[^\W\d_](?![^\W\d_])|\\|[\d)][^\W\d_](?![^\W\d_])|[\^_√π]")


@dataclass(frozen=True, slots=True)
class WrittenNumber:
    """One number as written: its exact value, whether a percent sign stood there, and its unit."""

    value: Fraction
    percent: bool = False
    unit: MeasureUnit = NO_UNIT


def parse_number(text: str) -> WrittenNumber | None:
    """The number that a text is, or None where it is something else (or more than a number).

    >>> parse_number("$1,234.50").value
    Fraction(2469, 2)
    >>> parse_number("60 km/h").unit.measure
    'kilometer/hour'
    >>> parse_number("6x") is None
    True
    """
    return _parse(text) if len(text) <= MAX_CHARACTERS else None


def parse_words(text: str) -> WrittenNumber | None:
    """The number that a text is in words, with its unit: "twenty-five apples", "one hundred and five", "two thirds".

    >>> parse_words("seventy-five percent")
    WrittenNumber(value=Fraction(75, 1), percent=True, unit=MeasureUnit(measure='', words=()))
    """
    if len(text) > MAX_CHARACTERS or any(character.isdigit() for character in text):
        return None
    lowered = (_TEXT_COMMAND.fullmatch(text.strip()) or [text, text])[1].casefold()
    lowered = re.sub(r"^\W*(?:an?\s)?(half|third|quarter|fourth|fifth|sixth|eighth|tenth)\W*$", r"one \1", lowered)
    lowered = re.sub(r"^\W*(?:a|one) dozen\b", "twelve", re.sub(r"^\W*half a dozen\b", "six", lowered))
    matches = list(re.finditer(r"[^\W\d_]+", lowered))
    tokens = [match.group() for match in matches]
    words = read_words(tokens)
    if words is None or any(
            # "a hundred, five times" are two numbers; "one million, two hundred" is one.
            lowered[earlier.end():later.start()].strip(" -‐‑\n\t") not in ("", "," if earlier.group() in SCALES else "")
            for earlier, later in pairwise(matches[:words.taken])):
        return None
    rest = tokens[words.taken:]
    if rest[:2] == ["dollars", "and"] and (cents := read_words(rest[2:])) and rest[2 + cents.taken:] == ["cents"]:
        return WrittenNumber(words.value + cents.value / 100, False, read_unit("dollars") or NO_UNIT)
    percent = rest[:1] == ["percent"] or rest[:2] == ["per", "cent"]
    unit = read_unit(" ".join(rest[(1 if rest[0] == "percent" else 2) if percent else 0:]))
    return None if unit is None else WrittenNumber(words.value, percent, unit)


@lru_cache(maxsize=10_000)
def _parse(text: str) -> WrittenNumber | None:
    # An expected answer is read when its kind is asked, when it is scored and in every sample: once is enough.
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
    if not match:
        return None
    value = _value(match)
    if value is None:
        return None
    return _with_unit(sign * value, cleaned[match.end():], currency)


def equal_numbers(given: WrittenNumber, expected: WrittenNumber, tolerance: float = 0.0) -> bool:
    """Whether two numbers agree within an absolute tolerance.

    A unit that only one of them names is no difference; two different units are. A percent sign that only one of
    them carries may be a unit (50 % for 50) or a factor (50 % for 0.5): both count, and so do 3 dozen for 36 and for 3.
    """
    # Through its text: a tolerance of 0.1 means a tenth, and not the double beside it.
    allowed = Fraction(str(tolerance))
    if (given.percent and expected.unit.measure) or (expected.percent and given.unit.measure):
        return False
    pairs = [(given, expected)]
    if given.percent and not expected.percent:
        pairs.append((WrittenNumber(given.value / 100, unit=given.unit), expected))
    if expected.percent and not given.percent:
        pairs.append((given, WrittenNumber(expected.value / 100, unit=expected.unit)))
    if (_DOZEN in given.unit.words) != (_DOZEN in expected.unit.words):
        # Of 3 dozen eggs there are not 3, though there are 3 of what an answer without a unit may count.
        if given.unit and expected.unit:
            pairs = []
        pairs.append((_dozens(given), _dozens(expected)))
    return any(abs(one.value - other.value) <= allowed and same_units(one.unit, other.unit) for one, other in pairs)


def in_two_units(text: str) -> list[WrittenNumber]:
    """The two numbers of "48 quarts, or 12 gallons", which say the same; empty for anything else.

    >>> [str(number.value) for number in in_two_units("48 quarts, or 12 gallons")], in_two_units("3 or 4 gallons")
    (['48', '12'], [])
    """
    parts = _OR.split(text[:MAX_CHARACTERS])
    read = [number for number in map(parse_number, parts) if number is not None]
    units = {"%" if number.percent else number.unit.measure for number in read} - {""}
    if not len(read) == len(parts) == len(units) == 2 or ("%" in units and read[0].value != read[1].value):
        return []
    return read


def measures(text: str) -> list[WrittenNumber]:
    """What "5 ft 3 in" and "2 hours and 30 minutes" are made of; empty for anything else."""
    if not COMPOUND.fullmatch(text):
        return []
    read = [parse_number(part) for part in re.findall(r"\d[\d.,]*\s?[a-zA-Z]+", text)]
    numbers = [number for number in read if number is not None and number.unit.measure]
    return numbers if len(numbers) == len(read) else []


def lasting_seconds(text: str) -> Fraction:
    """How long "145 minutes" and "2 hours 25 minutes" last; 0 for anything else."""
    numbers = measures(text) or [number for number in (parse_number(text),) if number is not None]
    known = [number.value * _SECONDS[number.unit.measure] for number in numbers if number.unit.measure in _SECONDS]
    return sum(known, Fraction()) if len(known) == len(numbers) else Fraction()


def full_hours_asked(text: str, question: str) -> str:
    """A text with `2:00 PM` as 2, where a question asks what time it is; else the text as it is."""
    return _FULL_HOUR.sub(r"\1", text) if _TIME_ASKED.search(question) else text


def in_unit_asked(text: str, measure: str) -> str:
    """A text whose last number is a time in several units, with that time in the unit asked for; others as they are.

    >>> in_unit_asked("It takes 6 hours and 45 minutes.", "hour"), in_unit_asked("1 h 20 min", "hour")
    ('It takes 6.75 hours.', '1 1/3 hours')
    """
    last = next(reversed([*_LASTING.finditer(text)]), None) if measure in _SECONDS else None
    if last is None or re.search(r"\d", text[last.end():]):
        return text
    return text[:last.start()] + _in_unit(last[0], measure) + text[last.end():]


def _in_unit(time: str, measure: str) -> str:
    units = [_SECONDS.get(number.unit.measure, 0) for number in measures(time)]
    if len(units) != 2 or not units[0] > units[1] > 0:  # "after 40 minutes, 20 minutes early"
        return time
    value = lasting_seconds(time) / _SECONDS[measure]
    whole, part = divmod(value, 1)
    decimal = f"{float(value):g}"
    return f"{decimal if Fraction(decimal) == value else f'{whole} {part}' if whole else part} {measure}s"


def decimal_points(text: str) -> str:
    """`R$ 1.045,00`, `45,50 €` and `15 dollars and 50 cents` with a point before the cents."""
    text = _AND_CENTS.sub(lambda money: f"${money[1] or money[2]}.{money[3]:>02}", text)
    return _COMMA_CENTS.sub(lambda cents: f"{(cents[1] or cents[3]).replace('.', '')}.{cents[2] or cents[4]}", text)


def with_decimal_points(text: str, question: str = "") -> str:
    """A text in which decimals stand behind commas with points: `3.600 l : 1.000 = 3,6 m³` is 3.6; else as it is.

    They do where one stands in it, and where the question is asked in a language that writes them so.
    """
    # Of `1,5` alone nobody knows whether it is one number, where the question does not tell.
    tells = _WRITES_COMMAS.search(question) or (_DECIMAL_COMMA.search(text) and re.search(r"[^\W\d_]{2}", text))
    if not tells or _DECIMAL_POINT.search(text):
        return text
    text = _DECIMAL_COMMA.sub(lambda number: f"{number[1].replace('.', '')}.{number[2]}", text)
    return _GROUPED.sub(lambda number: number[0].replace(".", ""), text)


def _repeating(decimal: re.Match[str]) -> str:
    r"""`0.1666...` and `0.1\overline{6}` as the fraction that they are."""
    whole, fixed, cycle = decimal[1] or "0", decimal[2], decimal[3] or decimal[4]
    value = int(whole + fixed + cycle) - int(whole + fixed)
    return f"{value}/{(10 ** len(cycle) - 1) * 10 ** len(fixed)}"


def _dozens(number: WrittenNumber) -> WrittenNumber:
    if _DOZEN not in number.unit.words:
        return number
    words = tuple(word for word in number.unit.words if word != _DOZEN)
    return WrittenNumber(number.value * 12, unit=MeasureUnit(number.unit.measure, words))


def _clean(text: str) -> str:
    if text.isascii() and text.isdigit():
        return text
    text = decimal_points(_CYCLE.sub(_repeating, plain(text.replace("\\%", "%"))))
    text = re.sub(r"\b([AaPp])\.\s?[Mm]\b\.?", lambda letter: f"{letter[1]}m", _stripped(text))
    if re.search(r"[=≈]", text):  # "x = 5", "47+25=72": the right side is the number
        left, text = re.split(r"[=≈](?=[^=≈]*$)", text, maxsplit=1)
        if not names_a_value(left):
            return ""
    text = _ABOUT.sub("", _stripped(text), count=1) if _ABOUT.match(_stripped(text)) else _stripped(text)
    return _COMMA_DECIMAL.sub(lambda number: f"{number[1].replace('.', '')}.{number[2]}", text)


def _stripped(text: str) -> str:
    text = text.strip().strip("*`\"'_“”’‘").strip().rstrip(".,;:?").strip().strip("*`\"'_“”").strip()
    if len(text) > 1 and text.startswith("$") and text.endswith("$"):
        text = text[1:-1].strip()
    elif text.endswith("$") and text.count("$") == 1:
        text = f"${text[:-1].strip()}"
    if len(text) > 2 and text[0] == "(" and text[-1] == ")" and "(" not in text[1:-1] and "," not in text:
        text = text[1:-1].strip()
    return text


def names_a_value(left: str) -> bool:
    """Whether what stands before an equals sign makes its right side the answer: a name or arithmetic, no equation.

    >>> names_a_value("Total cost"), names_a_value("3*4"), names_a_value("x^2+y^2")
    (True, True, False)
    """
    parts = [_LENGTH.sub(r"\1", part.strip().strip("*$_∴ ")) for part in re.split(r"[=≈]", left)]
    # "x = -b/(2a) = 12/4": the name is what all of it is, unless another name follows ("x = 2, y").
    if len(parts) > 1 and _NAMED.fullmatch(parts[0]) and not re.search(
            r",\s|\b(?:or|and)\b|;", re.sub(r"\{[^{}]*\}|\([^()]*\)", "", "=".join(parts[1:]))):
        return True
    if _OPERATION.match(parts[0]):
        return True
    return all(not part or _ARITHMETIC.fullmatch(part) or _NAMED.fullmatch(part) or not (
        _UNKNOWN.search(part) or re.search(r",\s", part)) for part in parts)


def _sign(text: str) -> tuple[int, str]:
    if text[:1] in "+-" and text:
        return (-1 if text[0] == "-" else 1), text[1:].lstrip()
    return 1, text


def _fraction(digits: str) -> Fraction:
    return Fraction(re.sub("[, '’]", "", digits))


def _value(match: re.Match[str]) -> Fraction | None:
    if match["mixed"] is not None:
        bottom = Fraction(match["mixed_bottom"])
        return _fraction(match["mixed"]) + Fraction(match["mixed_top"]) / bottom if bottom else None
    if match["top"] is not None:
        bottom = _fraction(match["bottom"])
        return _fraction(match["top"]) / bottom if bottom else None
    if match["decimal"] is None:
        return Fraction(10) ** int(match["braced"] or match["power"])
    exponent = int(match["exponent"] or 0)
    # Powers of fractions are exact: a large exponent would be as many digits in memory.
    if abs(exponent) > MAX_EXPONENT:
        return None
    return _fraction(match["decimal"]) * Fraction(10) ** exponent


def _with_unit(value: Fraction, rest: str, currency: str) -> WrittenNumber | None:
    percent = False
    match = re.match(r"\s*(?:%|percent\b|per cent\b|percentage points?\b|pct\b)\s*", rest, re.IGNORECASE)
    if match:
        percent, rest = True, rest[match.end():]
    # After the percent sign and before the unit, as in "3 million people".
    scale = re.match(r"\s*-?([A-Za-z]+)\b\s*", rest)
    factor = scale and (_SCALES.get(scale[1].lower()) or (_LETTER_SCALES.get(scale[1].lower()) if currency else None))
    if scale and factor:
        value, rest = value * factor, rest[scale.end():]
    # A hyphen as in "a 5-mile walk", not a minus.
    unit = read_unit(re.sub(r"^-(?=[^\W\d_]{2})", " ", rest.strip()), currency)
    # Letters right behind a number are a product, unless they are a measure or a whole word.
    product = re.match(r"[^\W\d_]{1,3}(?![^\W\d_])", rest) and not match and not factor
    if unit is None or (product and not unit.measure):
        return None
    return WrittenNumber(value, percent, unit)
