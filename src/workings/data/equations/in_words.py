"""What the checker of equations leaves alone and a check of data reads: sums in words, conversions, glued sentences.

The steps of records are scored without it, so that a record's scores stay.
"""

import re
from collections.abc import Iterator
from fractions import Fraction

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\d/%]|,\d)"
_TIMES = {"twice": "2", "double": "2", "thrice": "3", "triple": "3", "half of": "1/2", "half": "1/2",
          "a third of": "1/3", "one third of": "1/3", "a quarter of": "1/4", "one quarter of": "1/4"}
_MULTIPLE = re.compile(rf"\b(?P<times>{'|'.join(_TIMES)})\s+\$?(?P<number>{_NUMBER})(?:\s+[a-z]+)?\s+"
                       rf"(?:is|makes|equals|gives|=)\s+\$?(?P<result>{_NUMBER})(?!\s*[-+*/×÷=^]|\s+(?:more|less|times))",
                       re.IGNORECASE)
# Before these words the number is part of something else: "more than twice 14 is 30".
_CHANGED = re.compile(r"(?:\b(?:than|plus|minus|times|of|and|by|if|suppose|not)|[-+*/=×÷])\s*$", re.IGNORECASE)
_CONVERSIONS: dict[tuple[str, str], tuple[int, ...]] = {
    ("hour", "minute"): (60,), ("minute", "second"): (60,), ("hour", "second"): (3600,), ("day", "hour"): (24,),
    ("week", "day"): (7,), ("year", "month"): (12,), ("year", "week"): (52, 53), ("year", "day"): (365, 366, 360),
    ("decade", "year"): (10,), ("century", "year"): (100,), ("dozen", "egg"): (12,), ("foot", "inch"): (12,),
    ("yard", "foot"): (3,), ("mile", "foot"): (5280,), ("kilometer", "meter"): (1000,), ("meter", "centimeter"): (100,),
    ("centimeter", "millimeter"): (10,), ("kilogram", "gram"): (1000,), ("pound", "ounce"): (16,),
    ("ton", "pound"): (2000, 2240), ("gallon", "quart"): (4,), ("quart", "pint"): (2,), ("gallon", "pint"): (8,),
    ("pint", "cup"): (2,), ("liter", "milliliter"): (1000,), ("dollar", "cent"): (100,), ("dollar", "quarter"): (4,),
    ("dollar", "dime"): (10,), ("dollar", "nickel"): (20,)}
"""Units of which one has so many of the other; any of the numbers is right."""
_PLURALS = {"feet": "foot", "inches": "inch", "centuries": "century"}
_BIG, _SMALL = ("|".join(sorted({pair[side] for pair in _CONVERSIONS})) for side in (0, 1))
_SMALL_WORDS = rf"(?P<small>(?:{_SMALL}|feet|inche)s?)\b"
_CONVERSION = re.compile(
    rf"\b(?:one|an?|1)\s+(?P<big>{_BIG})\s+(?:has|have|is|equals|contains|=|is\s+equal\s+to)\s+"
    rf"(?P<number>{_NUMBER})\s+{_SMALL_WORDS}(?!\s+(?:of|long|off|left|and|to|for|on|in|at|from|a|per|each))"
    rf"|\bthere\s+are\s+(?P<number_2>{_NUMBER})\s+{_SMALL_WORDS.replace('small', 'small_2')}\s+in\s+"
    rf"(?:one|an?|1)\s+(?P<big_2>{_BIG})\b(?!\s+(?:of|and))", re.IGNORECASE)
# What stands right behind a result and says nothing about its value, with blanks of the same length in its place.
_GLUED = re.compile(r"(?<=\d)\.(?=[A-Z][a-z])")
_BEHIND_A_RESULT = re.compile(rf"(=\s*-?\$?{_NUMBER}\s+)(more(?=\s+[a-z]+)(?!\s+than)|to(?=\s+[a-z]{{3,}}))(?=\s)")


def plainer(text: str) -> str:
    """The text, as long as it was, with sentences unglued and without words that only seem to change a result."""
    unglued = _GLUED.sub(";", text)
    return _BEHIND_A_RESULT.sub(lambda match: match[1] + "," + " " * (len(match[2]) - 1), unglued)


def wrong_in_words(text: str) -> Iterator[tuple[int, str]]:
    """Start and text of multiples in words ("twice 14 makes 30") and conversions that do not hold."""
    for match in _MULTIPLE.finditer(text):
        if not _CHANGED.search(text[max(match.start() - 20, 0):match.start()]) and (
                Fraction(_TIMES[match["times"].casefold()]) * _value(match["number"]) != _value(match["result"])):
            yield match.start(), match.group()
    for match in _CONVERSION.finditer(text):
        if _CHANGED.search(text[max(match.start() - 20, 0):match.start()]):
            continue
        big, small, number = (match[name] or match[f"{name}_2"] for name in ("big", "small", "number"))
        right = _CONVERSIONS.get((big.casefold(), _singular(small.casefold())))
        if right and _value(number) not in right:
            yield match.start(), match.group()


def _singular(word: str) -> str:
    return _PLURALS.get(word, word.removesuffix("s"))


def _value(written: str) -> Fraction:
    return Fraction(written.replace(",", ""))
