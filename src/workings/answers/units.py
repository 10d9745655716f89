"""Units after a number: normalized and compared.

A unit is a measure (``kilometer/hour``, ``centimeter^2``, ``dollar``) or words that say what was counted (``apple``).
"""

import re
from dataclasses import dataclass
from functools import lru_cache

_NAMES = {
    "kilometer": "km kilometre", "meter": "m metre", "centimeter": "cm centimetre", "millimeter": "mm millimetre",
    "mile/hour": "mph", "kilometer/hour": "kph kmh kmph", "kilowatt hour": "kwh",
    "foot": "ft feet", "inch": "inches", "yard": "yd yds", "mile": "mi",
    "kilogram": "kg kilo kgs", "gram": "g gm gms gramme", "milligram": "mg", "pound": "lb lbs", "ounce": "oz",
    "ton": "tonne t",
    "liter": "l litre", "milliliter": "ml millilitre", "gallon": "gal", "quart": "qt qts", "pint": "pt pts",
    "hour": "h hr hrs", "minute": "min mins", "second": "s sec secs", "millisecond": "ms", "day": "",
    "week": "wk wks",
    "month": "", "year": "yr yrs", "decade": "", "century": "centuries",
    "dollar": "usd $ us$ buck", "euro": "eur €", "pence": "p", "cent": "¢ ct cts", "rupee": "₹ inr rs",
    "yen": "¥ jpy",
    "yuan": "cny rmb", "pound sterling": "£ gbp", "peso": "", "brazilian real": "r$ brl reais", "franc": "chf",
    "watt": "w", "kilowatt": "kw", "volt": "v", "newton": "n", "joule": "j", "kelvin": "k", "ampere": "amp a",
    "hertz": "hz",
    "kilojoule": "kj", "calorie": "cal", "kilocalorie": "kcal", "pascal": "pa", "mole": "mol", "acre": "",
    "hectare": "ha",
    "byte": "", "kilobyte": "kb", "megabyte": "mb", "gigabyte": "gb", "terabyte": "tb", "bit": "",
    "degree": "° deg", "degree celsius": "°c", "degree fahrenheit": "°f", "radian": "rad"}
_MEASURES = {spelling: name for name, spellings in _NAMES.items() for spelling in (name, *spellings.split())}
MONEY = frozenset({"dollar", "euro", "cent", "rupee", "yen", "yuan", "pound sterling", "pound", "pence", "peso",
    "brazilian real", "franc"})
# A letter is a variable unless it is one of these, capital letters only as they are written here.
_LETTERS = frozenset("mglLhsWVNJKAtpa")


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


# "5 pi" and "3 or 4" are no number with its unit, and "15 is wrong" is a sentence.
_NO_UNITS = _listed("""
    pi sqrt root log ln sin cos tan mod plus minus factorial or and not but to divided equals theta infinity half
    halves thirds am pm is are was were would will can may mil jt ribu""")
# Words without information about the counted things.
_EMPTY = _listed("""
    a an the of in on at left over remaining total altogether all more each long tall high wide old away apart per for
    deep now later ago extra additional only worth faster slower other different there he she they it has have had her
    his their""")
_SQUARE = re.compile(r"\b(?:square|sq\.?)\s+([^\W\d_]+)|([^\W\d_]+)(?:\s+squared\b|²|(?<=[a-z])2\b)", re.IGNORECASE)
_CUBE = re.compile(r"\b(?:cubic|cu\.?)\s+([^\W\d_]+)|([^\W\d_]+)(?:\s+cubed\b|³|(?<=[a-z])3\b)", re.IGNORECASE)
_TOKEN = re.compile(r"[°¢$€£¥₹][CFcf]?|US\$|[^\W\d_]+(?:['’-][^\W\d_]+)*(?:\^[23])?|[/·*.,-]|(\S)")
MAX_WORDS = 8


@dataclass(frozen=True, slots=True)
class MeasureUnit:
    """A measure in one spelling (or ""), and the words next to it."""

    measure: str = ""
    words: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.measure or self.words)


NO_UNIT = MeasureUnit()


@lru_cache(maxsize=256)
def read_unit(text: str, currency: str = "") -> MeasureUnit | None:
    """The unit in a text after a number; None for anything else, such as a variable.

    Args:
        text: the text after the number.
        currency: the sign before the number, or "".
    """
    found = [*_TOKEN.finditer(_CUBE.sub(r"\1\2^3", _SQUARE.sub(r"\1\2^2", text)))]
    tokens = [token.group() for token in found if token.group() not in ".,*·-"]
    # "2. Cost of books" is a heading.
    if text[:1] in (".", ",") or len(tokens) > MAX_WORDS or any(token[1] for token in found) or any(
            map(_is_no_unit, tokens)):
        return None
    measure = _measure(currency.strip(". "))
    first = _measure(tokens[0], alone=len(tokens) == 1) if tokens else ""
    if first and measure in ("", first):  # "$5 dollars"
        measure, tokens = first, tokens[1:]
    while measure and len(tokens) > 1 and tokens[0].casefold() in ("/", "per", "a", "an", "each", "every") and (
            below := _measure(tokens[1])):
        measure, tokens = f"{measure}/{below}", tokens[2:]
    if any("^" in token for token in tokens):  # of no measure: an expression
        return None
    words = (_singular(token) for token in tokens if token != "/")
    return MeasureUnit(measure, tuple(word for word in words if word not in _EMPTY))


def same_units(one: MeasureUnit, other: MeasureUnit) -> bool:
    """Whether two units are compatible: one may be missing or more specific."""
    if not one or not other:
        return True
    if one.measure and other.measure:
        # A wage per day may be given as money: the question says per what.
        short, long = sorted((one.measure, other.measure), key=len)
        return short == long or (short in MONEY and long.startswith(f"{short}/")) or (
            short == "degree" and long.startswith("degree ")) or {short, long} == {"pound", "pound sterling"}
    if one.measure or other.measure:
        return not (one.words or other.words) or bool(set(one.words) & set(other.words))
    # "12 green apples" are apples, and no red ones.
    return set(one.words) <= set(other.words) or set(other.words) <= set(one.words)


def _is_no_unit(token: str) -> bool:
    # A letter of a script without cases is a word, such as 円 or 個.
    return token.casefold() in _NO_UNITS or (
        len(token) == 1 and (token.islower() or token.isupper()) and token not in _LETTERS)


def _measure(token: str, *, alone: bool = True) -> str:
    """The measure that a word or sign is, with its power; "" for anything else."""
    name, _, power = token.partition("^")
    # "12 in total" are no inches.
    if name.casefold() == "in" and (alone or power):
        name = "inch"
    found = _MEASURES.get(name.casefold()) or _MEASURES.get(_singular(name), "")
    return f"{found}^{power}" if found and power else found


def _singular(word: str) -> str:
    word = word.casefold().strip("'’-")
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("shes", "ches", "sses", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
