"""Whether what stands before an equals sign ends with arithmetic: "he has 24 apples - 15", "it costs 10 x $4"."""

import re

from workings.answers.numbers import CURRENCY

LOOKED_AT = 200
"""Characters before an equals sign that are looked at."""
_VALUE = rf"(?:{CURRENCY}\s?)?(?:\d[\d,]*+(?:\.\d+)?|\.\d+)(?:\s\d+/\d+)?+(?:\s?%|\s?°[CF]?|[¢€£$])?"
# What is counted, up to the operator: "24 green apples", "$2 per box", "5 miles/hour"; a single letter is a name.
_COUNTED = (r"(?:\s?[/-]?\s?(?!times\b|plus\b|minus\b|divided\b|equals?\b)"
            r"(?:[^\W\d_]{2,}(?:['’&-]\w+)*|[^\W\d_][-&][^\W\d_]+|a|g|m|L|h)\b\.?){0,8}+")
_OPERAND = rf"\(?-?{_VALUE}{_COUNTED}\)?"
_OPERATOR = r"(?:[-+*/×·÷–]|x(?![^\W\d_])|(?:times|plus|minus|divided by)\b)"
_BEGIN = r"(?:^|(?<=[^\W\d_]{2}\s)|(?<=\ba\s)|(?<=\bI\s)|(?<=[,:;.(*~]\s)|(?<=['’]\w\s)|(?<=[(*:]))"
_ARITHMETIC = re.compile(rf"{_BEGIN}\**{_OPERAND}(?:\s*{_OPERATOR}\s*{_OPERAND})+[\s*)]*$", re.IGNORECASE)
_VALUES = re.compile(rf"{_OPERAND}(?:\s{_OPERAND})?+")  # "7 hours 32 minutes"


def ends_with_arithmetic(left: str) -> bool:
    """Whether a text ends with arithmetic of numbers alone, so that what it is equal to is a value.

    >>> ends_with_arithmetic("Mary got a change of $200 - $170"), ends_with_arithmetic("so the line is 2x + 3")
    (True, False)
    """
    *before, last = re.split(r"[=≈]", left[-LOOKED_AT:])
    last = last.strip()
    return _ARITHMETIC.search(last) is not None or (bool(before) and _VALUES.fullmatch(last) is not None)
