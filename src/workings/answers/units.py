"""Units after a number: normalized and compared.

A unit is a measure (``kilometer/hour``, ``centimeter^2``, ``dollar``) or words that say what was counted (``apple``).
"""

import re
from dataclasses import dataclass
from functools import lru_cache

_NAMES = {
    "kilometer": "km kilometre", "meter": "m metre", "centimeter": "cm centimetre", "millimeter": "mm millimetre",
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
_RATES = {"mph": "mile/hour", "kph": "kilometer/hour", "kmh": "kilometer/hour", "kmph": "kilometer/hour",
          "mps": "meter/second", "mpg": "mile/gallon", "fps": "foot/second", "kwh": "kilowatt hour"}
MONEY = frozenset({"dollar", "euro", "cent", "rupee", "yen", "yuan", "pound sterling", "pound", "pence", "peso",
    "brazilian real", "franc"})
# A letter is a variable unless it is one of these, capital letters only as they are written here.
_LETTERS = frozenset("mglLhsWVNJKAtp")
_MATHEMATICS = frozenset(["pi", "π", "e", "i", "sqrt", "root", "log", "ln", "sin", "cos", "tan", "mod", "plus",
    "minus", "factorial", "x", "y", "z", "or", "and", "not", "but", "to", "divided", "equals", "theta", "infinity",
    "half", "halves", "thirds", "am", "pm"])
# Words without information about the counted things.
_EMPTY = frozenset(["a", "an", "the", "of", "in", "on", "at", "left", "over", "remaining", "total", "altogether",
    "all", "more", "each", "long", "tall", "high", "wide", "old", "away", "apart", "per", "for", "long", "deep",
    "now", "later", "ago", "extra", "additional", "only", "worth", "faster", "slower", "other", "different",
    "there", "are", "is", "was", "were", "he", "she", "they", "it", "has", "have", "had", "her", "his", "their"])
_COPULAS = frozenset(("is", "are", "was", "were", "would", "will", "can", "may"))
_IRREGULAR = {"feet": "foot", "men": "man", "women": "woman", "people": "person", "children": "child",
    "geese": "goose",
              "mice": "mouse", "teeth": "tooth", "halves": "half", "leaves": "leaf", "loaves": "loaf",
              "knives": "knife",
              "boxes": "box", "inches": "inch", "dice": "die", "pence": "pence", "shelves": "shelf", "wolves": "wolf",
              "persons": "person", "series": "series"}
_TOKEN = re.compile(r"[°¢$€£¥₹][CFcf]?|US\$|[^\W\d_]+(?:['’-][^\W\d_]+)*\.?|\^[23]|(?<=[a-z])[23]|[/·*.,-]|(\S)")
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
    if text[:1] in (".", ","):  # "2. Cost of books" is a heading
        return None
    tokens: list[str] = []
    for token in _TOKEN.finditer(text):
        if token[1] is not None:
            return None
        tokens.append(token.group())
    tokens = [token.rstrip(".") if len(token) > 1 else token for token in tokens]
    tokens = [token for token in tokens if token not in ".,*·-"]
    if len(tokens) > MAX_WORDS or any(_is_mathematics(token) for token in tokens):
        return None
    measure, rest = _measure(tokens, _MEASURES.get(currency.strip(". ").casefold(), "") if currency else "")
    # An exponent or "squared" that belongs to no measure makes it an expression.
    if any(token[0] in "^23" or token in ("squared", "cubed") for token in rest):
        return None
    # "15 is wrong" is a sentence, and "12 apples are left" counts apples.
    told = next((at for at, token in enumerate(rest) if token in _COPULAS), len(rest))
    if any(_singular(token) not in _EMPTY for token in rest[told:]):
        return None
    rest = [token for token in rest if token != "/"]
    return MeasureUnit(measure, tuple(_singular(token) for token in rest if _singular(token) not in _EMPTY))


def same_units(one: MeasureUnit, other: MeasureUnit) -> bool:
    """Whether two units are compatible: one may be missing or more specific."""
    if not one or not other:
        return True
    if one.measure and other.measure:
        # A wage per day may be given as money: the question says per what.
        short, long = sorted((one.measure, other.measure), key=len)
        return short == long or (short in MONEY and long.startswith(f"{short}/")) or (
            short == "degree" and long.startswith("degree ")) or {short, long} == {
            "pound", "pound sterling"}
    if one.measure or other.measure:
        return not (one.words or other.words) or bool(set(one.words) & set(other.words))
    # "12 green apples" are apples, and no red ones.
    return set(one.words) <= set(other.words) or set(other.words) <= set(one.words)


def _is_mathematics(token: str) -> bool:
    if token.casefold() in _MATHEMATICS and token not in _LETTERS:
        return True
    # A letter of a script without cases is a word, such as 円 or 個.
    return len(token) == 1 and (token.islower() or token.isupper()) and token not in _LETTERS and token != "a"


def _measure(tokens: list[str], currency: str) -> tuple[str, list[str]]:
    """The measure at the beginning of the tokens, and the remaining tokens."""
    name, rest = (currency, tokens) if currency else _base(tokens)
    if not name:
        return "", tokens
    if currency and rest and _MEASURES.get(rest[0].casefold()) == currency:  # $5 dollars
        rest = rest[1:]
    while len(rest) > 1 and (rest[0] in ("/", "per", "a", "an", "each", "every") or rest[0].casefold() == "per"):
        below, after = _base(rest[1:])
        if not below:
            break
        name, rest = f"{name}/{below}", after
    if name.count("/") == 2 and len(set(name.split("/")[1:])) == 1:  # meters per second per second
        name = f"{name.rpartition('/')[0]}^2"
    return name, rest


def _base(tokens: list[str]) -> tuple[str, list[str]]:
    """One measure with its power: ``square centimeters``, ``cm^2``, ``sq ft``."""
    power, start = "", 0
    first = tokens[0].casefold() if tokens else ""
    if first in ("square", "sq", "cubic", "cu") and len(tokens) > 1:
        power, start = ("^2" if first.startswith("sq") else "^3"), 1
    if start >= len(tokens):
        return "", tokens
    token, rest = tokens[start], tokens[start + 1:]
    if token.casefold() in _RATES and not power:
        return _RATES[token.casefold()], rest
    # "12 in total" are no inches, and A and V are units only as capitals.
    if len(token) == 1 and token.isalpha() and token not in _LETTERS:
        return "", tokens
    name = _MEASURES.get(token.casefold()) or _MEASURES.get(_singular(token))
    if token.casefold() == "in" and (not rest or rest[0] in ("^2", "^3")):
        name = "inch"
    if name is None:
        return "", tokens
    if rest and rest[0] in ("^2", "^3", "2", "3", "squared", "cubed") and not power:
        power, rest = {"2": "^2", "3": "^3", "squared": "^2", "cubed": "^3"}.get(rest[0], rest[0]), rest[1:]
    return name + power, rest


def _singular(word: str) -> str:
    word = word.casefold().strip("'’-")
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("shes", "ches", "sses", "xes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word
