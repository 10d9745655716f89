"""Two answers in one spelling before they are compared: signs, pairs, bounds, chains, spans, dates and hours."""

import re
from fractions import Fraction
from itertools import pairwise

from workings.answers.latex import normal_form, plain

_MONTH = (r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
          r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?")
DATE = re.compile(rf"(?:\b(?P<day>\d\d?)(?:st|nd|rd|th)?(?: of)? {_MONTH},? |\b{_MONTH.replace('month', 'first')} "
                   r"(?P<second>\d\d?)(?:st|nd|rd|th)?,? )(?P<year>\d{4})\b", re.IGNORECASE)
"""A date with its year."""
LAST_DAY = re.compile(rf"\b(?:to|on|is|be|until|till) ({_MONTH.replace('?P<month>', '?:')} \d\d?)(?:st|nd|rd|th)?\W*$",
                       re.IGNORECASE)
"""The day of a month with which a text ends."""
DAY = re.compile(rf"\b({_MONTH.replace('?P<month>', '?:')} \d\d?)(?:st|nd|rd|th)\b")
"""A day of a month."""
_ISO_DATE = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b")
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
# "4 p.m." as 4:00 pm.
_FULL_HOUR = re.compile(r"(?<![\d:.])(\d{1,2}) ?([ap])\.?m\b\.?", re.IGNORECASE)
# "0.05 < 0.4 < 0.5", and "10-14 hours".
_CHAIN = re.compile(r"\W{0,3}[^<>=]+(?:(?:<[^<>=]+){2,}|(?:>[^<>=]+){2,})")
_SPAN = re.compile(r"^(\d[\d.]*)\s?[-–]\s?(\d[\d.]*)(?=\s?[a-zA-Z%]|$)")
_PLUS_MINUS = re.compile(r"([a-zA-Z]\s*=\s*)?([^=±,]*?)(?:±|\\pm)\s*([^\s+±\\-][^+±,=-]*|\\sqrt[^+±,=-]*)")
_NAMED_PAIR = re.compile(r"\(\s*[a-z](?:\s*,\s*[a-z])+\s*\)\s*=\s*(\(.+\))")
_MEMBER = re.compile(r"^[a-zA-Z]\s*(?:∈|\\in\b)\s*")
_BETWEEN = re.compile(r"(-?[\w./√]+)\s*([<≤])\s*[a-zA-Z]\s*([<≤])\s*(-?[\w./√]+)")
_UNION_SIGN = "∪"
UNION = re.compile(r"\s*(?:∪|\\cup(?![a-z]))\s*")
"""The sign of a union, as a character or in LaTeX, with the space around it."""
_OR = re.compile(r"\s*\\text\s?\{\s?,?\s?or\s?\}\s*|,?\s+or\s+|,\s*(?=[a-z]\s*[<>≤≥\\])")
_EXCEPT = re.compile(r"(?:[^,;]{0,80}\b(?:is|are)\s)?(?:the set of )?(?:all )?(?:the )?real(?: numbers|s)?"
                     r"(?: \$?[a-z]\$?)?,?\s(?:except(?: for)?|other than)\s([^;]{1,80})", re.IGNORECASE)
_VALUE = re.compile(r"-?\d+(?:/\d+)?")
# "10001 (base 2)", "10001 in base 2".
_IN_BASE = re.compile(r"(?<=[\dA-F])\s?\(?(?:in )?base[- ](\d{1,2})\)?")
_INEQUALITY = re.compile(r"[a-zA-Z]\s*([<>≤≥])\s*(-?[\w./]+)")


def spelt_alike(given: str, expected: str) -> tuple[str, str]:
    """Both texts: two signs as two values, bounds as an interval where one is one, chains as lists, spans in words."""
    given, expected = full_hours(given), full_hours(expected)
    if "_" in expected:
        given = _IN_BASE.sub(r"_\1", given)
    if UNION.search(expected):
        return _as_union(given), _as_union(expected)
    if "," in expected and "," not in given:
        given = re.sub(r"\s*(?:→|->)\s*", ", ", given)
    name, *chain = given.split("=")
    if len(chain) > 1 and expected.count("=") == 1 and re.fullmatch(r"\W{0,3}[a-z]\s*", name) and not re.search(
            r",\s|\b(?:and|or)\b", given):
        given = f"{name}={chain[-1]}"  # "x = (4 + 2)/3 = 2"
    given, expected = (_both_signs(_MEMBER.sub("", text.strip())) for text in (given, expected))
    if re.search(r"(?:±|\\pm)[^±\\]*,\s*(?:±|\\pm)", given):  # "± 1, ± 2"
        given = ", ".join(map(_both_signs, given.split(",")))
    if bool(re.match(r"\$?\s*\(", given)) != bool(re.match(r"\$?\s*\(", expected)):
        given, expected = _coordinates(given), _coordinates(expected)
    if expected[:1] in ("(", "["):
        given = _as_interval(given)
    elif given[:1] in ("(", "["):
        expected = _as_interval(expected)
    if not set("<>") & set(expected) and _CHAIN.fullmatch(plain(given)):
        given = re.sub("[<>]", ",", plain(given))
    return (_SPAN.sub(r"\1 to \2", given) if " to " in expected else given), expected


def _as_union(text: str) -> str:
    """A union of intervals in one order; bounds and "all real numbers except x = 2" as one; anything else as it is."""
    if (excepted := _EXCEPT.fullmatch(text.strip("$. "))) and (values := _VALUE.findall(plain(excepted[1]))):
        bounds = ["-∞", *sorted(values, key=lambda value: float(Fraction(value))), "∞"]
        return _UNION_SIGN.join(f"({low}, {high})" for low, high in pairwise(bounds))
    parts = [_as_interval(part) for part in (UNION.split(text) if UNION.search(text) else _OR.split(text))]
    intervals = len(parts) > 1 and all(part.strip("$. ")[:1] in ("(", "[", "\\") for part in parts)
    return _UNION_SIGN.join(sorted(normal_form(part) for part in parts)) if intervals else text


def _both_signs(text: str) -> str:
    r"""`x = \pm 2` as ``x = 2, x = -2``, and `1 \pm i` as ``1 + i, 1 - i``; anything else as it is."""
    found = _PLUS_MINUS.fullmatch(text.strip("$. "))
    if found is None:
        return text
    name, before, behind = found[1] or "", found[2].strip(), found[3]
    return f"{name}{before}{' + ' * bool(before)}{behind}, {name}{before} - {behind}" if before else (
        f"{name}{behind}, {name}-{behind}")


def _coordinates(text: str) -> str:
    """`x = 7, y = 3`, `y = 3, x = 7` and `(x, y) = (7, 3)` as ``(7, 3)``; anything else as it is."""
    plainly = text.strip("$. ")
    if pair := _NAMED_PAIR.fullmatch(plainly):
        return pair[1]
    named = [re.fullmatch(r"([a-z])\s*=\s*([^=]+)", part.strip(" \\")) for part in re.split(r",|\band\b", plainly)]
    said = [each for each in named if each is not None]
    values = {each[1]: each[2].strip() for each in said}
    return f"({', '.join(values[name] for name in sorted(values))})" if len(values) == len(named) > 1 else text


def _as_interval(text: str) -> str:
    """`x >= 5` as ``[5, ∞)``; anything else as it is."""
    plainly = plain(text).strip("$. ").replace(">=", "≥").replace("<=", "≤")
    if both := _BETWEEN.fullmatch(plainly):
        return f"{'[' if both[2] == '≤' else '('}{both[1]}, {both[4]}{']' if both[3] == '≤' else ')'}"
    bound = _INEQUALITY.fullmatch(plainly)
    if bound is None:
        return text
    sign, value = bound[1], bound[2].strip()
    return f"{'[' if sign == '≥' else '('}{value}, ∞)" if sign in ">≥" else f"(-∞, {value}{']' if sign == '≤' else ')'}"


def dates_alike(text: str) -> str:
    """A text in lower case with its dates in one spelling.

    >>> dates_alike("on july 20, 1969"), dates_alike("1969-07-20"), dates_alike("may 3rd")
    ('on 20 jul 1969', '20 jul 1969', 'may 3')
    """
    text = _ISO_DATE.sub(lambda date: f"{int(date[3])} {_MONTHS[int(date[2]) - 1]} {date[1]}", text)
    return DAY.sub(r"\1", DATE.sub(_day_first, text))


def _day_first(date: re.Match[str]) -> str:
    """`July 20, 1969` as `20 jul 1969`."""
    return f"{date['day'] or date['second']} {(date['month'] or date['first'])[:3].casefold()} {date['year']}"


def full_hours(text: str) -> str:
    """A text in which `4 p.m.` is 4:00 pm."""
    return _FULL_HOUR.sub(r"\1:00 \2m", text)
