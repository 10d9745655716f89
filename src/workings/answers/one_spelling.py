"""Two formulas in one spelling before they are compared: signs, pairs, bounds, chains and spans."""

import re

from workings.answers.latex import plain

# "0.05 < 0.4 < 0.5", and "10-14 hours".
_CHAIN = re.compile(r"\W{0,3}[^<>=]+(?:(?:<[^<>=]+){2,}|(?:>[^<>=]+){2,})")
_SPAN = re.compile(r"^(\d[\d.]*)\s?[-–]\s?(\d[\d.]*)(?=\s?[a-zA-Z%]|$)")
_PLUS_MINUS = re.compile(r"([a-zA-Z]\s*=\s*)?([^=±,]*?)(?:±|\\pm)\s*([^\s+±\\-][^+±,=-]*|\\sqrt[^+±,=-]*)")
_NAMED_PAIR = re.compile(r"\(\s*[a-z](?:\s*,\s*[a-z])+\s*\)\s*=\s*(\(.+\))")
_MEMBER = re.compile(r"^[a-zA-Z]\s*(?:∈|\\in\b)\s*")
_BETWEEN = re.compile(r"(-?[\w./√]+)\s*([<≤])\s*[a-zA-Z]\s*([<≤])\s*(-?[\w./√]+)")
_INEQUALITY = re.compile(r"[a-zA-Z]\s*([<>≤≥])\s*(-?[\w./]+)")


def spelt_alike(given: str, expected: str) -> tuple[str, str]:
    """Both texts: two signs as two values, bounds as an interval where one is one, chains as lists, spans in words."""
    name, *chain = given.split("=")
    if len(chain) > 1 and expected.count("=") == 1 and re.fullmatch(r"\W{0,3}[a-z]\s*", name) and not re.search(
            r",\s|\b(?:and|or)\b", given):
        given = f"{name}={chain[-1]}"  # "x = (4 + 2)/3 = 2"
    given, expected = (_both_signs(_MEMBER.sub("", text.strip())) for text in (given, expected))
    if bool(re.match(r"\$?\s*\(", given)) != bool(re.match(r"\$?\s*\(", expected)):
        given, expected = _coordinates(given), _coordinates(expected)
    if expected[:1] in ("(", "["):
        given = _as_interval(given)
    elif given[:1] in ("(", "["):
        expected = _as_interval(expected)
    if not set("<>") & set(expected) and _CHAIN.fullmatch(plain(given)):
        given = re.sub("[<>]", ",", plain(given))
    return (_SPAN.sub(r"\1 to \2", given) if " to " in expected else given), expected


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
