"""Reads the unit after a number as a set of words: measures in one spelling, and the names of counted things.

    60 km/h           kilometer, hour
    9 m²              meter^2
    12 green apples   green, apple

A power of anything but a measure is no unit.
"""

import re
from functools import lru_cache

Unit = frozenset[str]
NO_UNIT: Unit = frozenset()

_NAMES = {
    "kilometer": "km kilometre", "meter": "m metre", "centimeter": "cm centimetre", "millimeter": "mm millimetre",
    "mile hour": "mph", "kilometer hour": "kph kmh kmph", "kilowatt hour": "kwh", "foot": "ft feet", "inch": "inches",
    "yard": "yd yds", "mile": "mi", "kilogram": "kg kilo kgs", "gram": "g gm gms gramme", "milligram": "mg",
    "pound": "lb lbs £ gbp", "ounce": "oz", "ton": "tonne t", "liter": "l litre", "milliliter": "ml millilitre",
    "gallon": "gal", "quart": "qt qts", "pint": "pt pts",
    "hour": "h hr hrs", "minute": "min mins", "second": "s sec secs", "millisecond": "ms", "day": "", "week": "wk wks",
    "month": "", "year": "yr yrs", "decade": "", "century": "centuries",
    "dollar": "usd $ us$ buck", "euro": "eur €", "pence": "p", "cent": "¢ ct cts", "rupee": "₹ inr rs", "yen": "¥ jpy",
    "yuan": "cny rmb", "peso": "", "brazilian real": "r$ brl reais", "franc": "chf",
    "watt": "w", "kilowatt": "kw", "volt": "v", "newton": "n", "joule": "j", "kelvin": "k", "ampere": "amp",
    "hertz": "hz", "kilojoule": "kj", "calorie": "cal", "kilocalorie": "kcal", "pascal": "pa", "mole": "mol",
    "acre": "", "hectare": "ha", "byte": "", "kilobyte": "kb", "megabyte": "mb", "gigabyte": "gb", "terabyte": "tb",
    "bit": "", "degree": "° deg", "degree celsius": "°c", "degree fahrenheit": "°f", "radian": "rad"}
_SPELLINGS = {spelling: name for name, spellings in _NAMES.items() for spelling in (name, *spellings.split())}
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


@lru_cache(maxsize=256)
def read_unit(text: str, currency: str = "") -> Unit | None:
    """The unit in a text after a number; None for anything else, such as a variable.

    >>> sorted(read_unit(" km per hour")), sorted(read_unit("", "$")), read_unit("x + 1")
    (['hour', 'kilometer'], ['dollar'], None)
    """
    found = [*_TOKEN.finditer(_CUBE.sub(r"\1\2^3", _SQUARE.sub(r"\1\2^2", text)))]
    tokens = [token.group() for token in found if token.group() not in "/.,*·-"]
    # "2. Cost of books" is a heading.
    is_heading = text.startswith((".", ","))
    has_other_signs = any(token[1] for token in found)
    if is_heading or has_other_signs or len(tokens) > MAX_WORDS or any(map(_is_no_unit, tokens)):
        return None
    if len(tokens) == 1 and tokens[0].partition("^")[0] == "in":  # "12 in total" are no inches
        tokens = [tokens[0].replace("in", "inch")]
    words = frozenset(word for token in (currency.strip(". "), *tokens) for word in _named(token)) - _EMPTY
    is_expression = any("^" in word and not is_measure(Unit((word,))) for word in words)
    return None if is_expression else words


def is_measure(unit: Unit) -> bool:
    """Whether one of the words is a measure, and not only what was counted."""
    return any(word.partition("^")[0] in _NAMES for word in unit)


def same_units(one: Unit, other: Unit) -> bool:
    """Whether two units are compatible. One may be missing or name what is counted, but km are not km/h."""
    less, more = sorted((one, other), key=len)
    return less <= more and (not less or not is_measure(more - less))


def _is_no_unit(token: str) -> bool:
    # A letter of a script without upper and lower case, such as 円 or 個, is a word.
    is_variable = len(token) == 1 and (token.islower() or token.isupper()) and token not in _LETTERS
    return is_variable or token.casefold() in _NO_UNITS


def _named(token: str) -> list[str]:
    """The words that a word or sign means, in one spelling and with its power: `kph` is kilometer and hour."""
    name, power, exponent = token.partition("^")
    word = _singular(name)
    spelling = _SPELLINGS.get(name.casefold()) or _SPELLINGS.get(word, word)
    return [f"{each}{power}{exponent}" for each in spelling.split()]


def _singular(word: str) -> str:
    word = word.casefold().strip("'’-")
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("shes", "ches", "sses", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
