"""Numbers of a sentence that are values of their own: no name, no part of an expression, not denied."""

import re
from collections.abc import Sequence
from functools import lru_cache

from workings.answers.main_clause import VERBS_OF_CHANGE, VERBS_OF_RESULT
from workings.answers.numbers import CURRENCY
from workings.answers.question import ELLIPTIC
from workings.answers.question_words import NumberAt
from workings.answers.states_a_result import is_bound, is_name
from workings.answers.units import read_unit

CIRCUMSTANCE = re.compile(
    r"\b(?:for|per|after|over|within|every|each|from|than|during|through|across|among|between|using|at|if|when"
    r"|by|with|on|until|(?:hal(?:f|ves)|thirds?|quarters?|fourths?|fifths?|sixths?|eighths?|tenths?) of"
    r"|before|those|these|the|all|my|our|their|his|her|its|a|an|both|another|other|out of|(?:\d+%?|percent) of|in"
    r"|to)\s+(?:[^\W\d_]+(?:['’]s?)?\s+){0,1}$|\bthan\s+(?:[^\W\d_]+(?:['’]s?)?\s+){2}$",
    re.IGNORECASE)
"""Prepositions before a number that make it a circumstance of the answer."""
_NO_CIRCUMSTANCE = re.compile(
    r"\b(?:(?:total|sum|average|mean|profit|loss|rate|amount|price|speed|distance|difference|result|answer"
    r"|number|product|maximum|minimum"
    r"|remainder|value|cost|all) of|(?:results?|resulted|resulting) in|(?:comes?|came|adds?|amounts?|equal"
    r"|equals|up|down|out|simplifies"
    rf"|rounds?|rounded|sums|evaluates) (?:to|at)|{VERBS_OF_CHANGE}(?: [^ ]+)? (?:to|by)|left with"
    r"|leaving \w+ with|end(?:s|ing)? up with"
    r"|(?<!for )(?<!in )(?<!of )(?<!on )(?<!with )(?<!by )the (?:remaining|other)"
    r"|(?:needs?|ha(?:s|ve|d)|wants?|able|going|likely|expected|supposed) to [a-z]+"
    rf"|remains? with|are left|to be|(?:the|a|an|her|his|their|my|our) (?:{VERBS_OF_RESULT})|(?:all|each|both"
    rf"|these|those|other)\s(?:{VERBS_OF_RESULT}))\s+$", re.IGNORECASE)
_PARTICIPLE = re.compile(r",\s+(?:\w+ly\s+)?(?!leaving|making|giving|total|yielding|bringing|costing|earning"
                         r"|saving|losing|gaining|being|having)[a-z]{2,}ing\s+(?:\w+\s+)?$", re.IGNORECASE)


def is_circumstance(before: str, earlier: Sequence[NumberAt]) -> bool:
    """Whether the number behind this text is a circumstance; ``earlier``: the numbers of the sentence before it."""
    # Each of the patterns asks for a word with white space behind it; a line of nothing but numbers has none.
    if not before[-1:].isspace() or not any(map(str.isalpha, before)):
        return False
    if _NO_CIRCUMSTANCE.search(before):
        return False
    if CIRCUMSTANCE.search(before) or _PARTICIPLE.search(before):
        return True
    # "on 3 books and 1 pen": what is joined to a circumstance is one.
    return bool(earlier and earlier[-1].circumstance and re.search(r"\d\s(?:[^\W\d_]+\s){0,3}(?:and|or)\s$", before))


_NUMBER = re.compile(
    rf"(?:(?<![\w)\].])-\s?)?(?P<currency>{CURRENCY}\s?-?)?"
    r"(?:(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\d)\.\d+)(?: \d+/\d+"
    r"|\s?/\s?\d+(?!\d|\.\d))?"
    r"(?(currency)(?:(?:[kKmMbB]|[mb]n)(?!\w))?)"
    r"(?:\s?(?:%|percent\b|per cent\b)|\s?°[CF]?(?![A-Za-z]))?(?:\s(?:hundred|thousand|million|billion|trillion)\b)?")
_SCIENTIFIC = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3}(?!\w)"
                         r"|\s?[*×·]\s?10\s?\^\s?(?:\{[+-]?\d{1,3}\}|[+-]?\d{1,3}(?!\d)))(?!\s*[-+*/·×÷^(]\s*\(?[\d\w])")
# Each begins where a run of its characters does, and what could go on for ever is bounded: looked for again from every
# character, a line of nothing but letters or digits would take the square or the cube of its length.
NO_NUMBER = re.compile(
    r"(?<!\S)\S*(?:://|@|www\.)\S*|(?<![^\W\d])[^\W\d](?:\w*?\d|[-\w./…]{0,200}?[-_./…]\d)\S*"
    r"|\b(?=[0-9a-f]++\b)[0-9a-f]*(?:\d[a-f]|[a-f]\d)[0-9a-f]{4,}\b"
    r"|(?<!\d)\d+(?::\d+|\s:\s\d+)+|\b\d{4}-\d\d?-\d\d?\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b"
    r"|(?<!\d)\d+(?:\.\d+){2,}(?::\d+)?|…\d+"
    r"|\bFile \"[^\"\n]{1,200}\", line \d+|\bid ?[=:] ?\d+|(?<!\S)\+\d{1,3}[ -]\d[\d -]{5,20}"
    r"|\b\d+ ?(?P<unit>years?|months?|weeks?|days?|h(?:ours?|rs?)?|m(?:in(?:ute)?s?)?|feet|foot|ft|pounds?|lbs?"
    r"|met(?:er|re)s?)(?:, | and | )\d+ ?(?!(?P=unit)\b)(?:months?|weeks?|days?|hours?|m(?:in(?:ute)?s?)?"
    r"|s(?:ec(?:ond)?s?)?|inch(?:es)?|ounces?|oz|centimet(?:er|re)s?|cm)\b",
    re.IGNORECASE)
"""Addresses, paths, mail, times, dates, versions, names with digits: no numbers."""
_OPERATOR = r"[-+*/·×÷^]"
_ALGEBRA_BEHIND = re.compile(
    rf"\s?(?:[\^_√π∞∈≤≥<>±]|\+(?![\s\d])|(?:choose|mod|times) \d"
    rf"|(?:minus|plus|divided by|multiplied by)\b|\*\*\s?\d|!\w|!\s*{_OPERATOR}|(?:sqrt|pi)\b|\\[a-zA-Z])"
    rf"|\s*{_OPERATOR}\s*\(?(?:[^\W\d_](?![^\W_])"
    rf"|[√π∞]|\\[a-zA-Z]|\(|\d|{CURRENCY}\s?\d)"
    rf"|(?:\s?,\s?[-+]?\s?(?:\d+(?:\.\d+)?|∞)){{1,9}}\s?[)\]}}]")
_ALGEBRA_BEFORE = re.compile(
    rf"(?:[\^_√π{{∞≤≥<>±≠∈·×÷]\s?\(?|\b(?:choose|mod)\s|(?:\bsqrt|\blog|\bln|\\[a-zA-Z]+)(?:_\d{{1,3}})?\s?[({{]?"
    rf"|(?:(?<![^\W\d_])[^\W\d_]|\d(?:!|[^\W\d_])?|[)}}π])\s*{_OPERATOR}\s*\(?"
    rf"|[(\[{{](?:\s?-?\s?(?:\d+(?:\.\d+)?|∞)\s?,){{1,9}}\s?)$")
_ATTACHED = re.compile(r"[^\W\d_]+")
_ORDINALS = frozenset(("st", "nd", "rd", "th", "am", "pm"))
_NOT = re.compile(r"\b(?:not|nicht|statt|pas|never|isn't|isn’t|rather than|instead of|than just|no "
                  r"longer)\s+(?:\w+\s)?$|\b(?:incorrect|wrong):\s+$", re.IGNORECASE)
_DENIED_BEHIND = re.compile(r"\s(?:is|are|was|were|would be)\s(?:not|wrong|incorrect|false|impossible|too)\b"
                            r"|\s(?:isn|aren)['’]t\b|,?\sbut (?:here|(?:in|for) (?:this|our) case)\b", re.IGNORECASE)
# "27 puppies, 18 of which are black", "5 now, but 9 before": what is said more about the first number, or what was.
_DETAIL = re.compile(r"\s(?:[^\W\d_]+\s){0,2}(?:of (?:which|whom)\b|(?:before|previously|originally|at first)\W*$)")
_BEFORE = 60
"""Characters before a number that are looked at."""


@lru_cache(maxsize=64)
def numbers_in(sentence: str, *, elliptic: bool = False) -> tuple[tuple[NumberAt, ...], bool]:
    """The numbers of a sentence that are values of their own, and whether there are expressions.

    Elliptically the number of "Ann has 5 pens and Ben 7" is one as well, and no name.
    """
    if not any(map(str.isdecimal, sentence)):
        return (), False
    # Masked by as many characters, so that places in both texts are the same.
    masked = NO_NUMBER.sub(lambda name: "\0" * len(name.group()), sentence)
    numbers: list[NumberAt] = []
    has_expressions = False
    for match in _SCIENTIFIC.finditer(sentence):
        before = sentence[max(0, match.start() - _BEFORE):match.start()].replace("**", "")
        if not re.search(r"[-+*/·×÷^(]\s*$", before) and not _NOT.search(before):
            numbers.append(NumberAt(match.group().strip(), match.start(), match.end(),
                                     is_circumstance(before, numbers)))
        masked = masked[:match.start()] + "\0" * len(match.group()) + masked[match.end():]
    for match in _NUMBER.finditer(masked):
        start = match.start()
        before = masked[max(0, start - _BEFORE):start].replace("**", "")
        if _is_within_a_word(before):
            continue
        end, has_unit = _unit_end(masked, match.end())
        digits_alone = match.group()[-1].isdigit() and match.group()[0].isdigit() and not has_unit
        if _is_misgrouped(match, masked) or _belongs_to_a_name(masked, end) or is_bound(before) or (
                digits_alone and is_name(before) and not (elliptic and _goes_on_with_another(before, numbers))
                ) or _is_operand(sentence, masked, start, end):
            has_expressions = True
        elif not _is_denied(masked, before, end):
            numbers.append(NumberAt(sentence[start:end].strip() if has_unit else match.group().strip(), start, end,
                                    is_circumstance(before, numbers) or _DETAIL.match(masked, end) is not None))
    return tuple(sorted(numbers, key=lambda number: number.start)), has_expressions


def _is_within_a_word(before: str) -> bool:
    r"""The 2 of `x2`, `x_2`, `\frac2` and `#2`."""
    return before[-1:].isalpha() or before[-1:] in ("\0", "_", "\\", "#")


def _is_misgrouped(match: re.Match[str], masked: str) -> bool:
    """`1,0000`."""
    return "," in match.group() and masked[match.end():match.end() + 1].isdecimal()


def _belongs_to_a_name(masked: str, end: int) -> bool:
    """A number with letters behind it that are no unit (`6x`), or with what was masked (`12-a3`)."""
    return end < 0 or masked[end:end + 1] == "\0"


def _goes_on_with_another(before: str, numbers: Sequence[NumberAt]) -> bool:
    """The 7 of "Ann has 5 pens, Ben 7"."""
    return bool(numbers) and ELLIPTIC.search(before) is not None


def _is_operand(sentence: str, masked: str, start: int, end: int) -> bool:
    """The 4 of `4x + 7` and of `4 * 5`: what it is part of counts, where that is worked out behind an equals sign."""
    return _ALGEBRA_BEHIND.match(masked[end:end + 40]) is not None or _ALGEBRA_BEFORE.search(
        sentence[max(0, start - _BEFORE):start]) is not None


def _is_denied(masked: str, before: str, end: int) -> bool:
    """The 5 of "not 5" and of "5 is wrong"."""
    return _NOT.search(before) is not None or _DENIED_BEHIND.match(masked, end) is not None


def _unit_end(text: str, end: int) -> tuple[int, bool]:
    """Where the unit behind a number ends; -1 where the letter behind it is no unit, so that it is an expression."""
    attached = _ATTACHED.match(text, end)
    if attached is None:
        spaced = re.compile(r"\s(?:square |cubic |sq\.? )?[^\W\d_]+(?:\^[23]|/[^\W\d_]+(?:\^2)?| per "
                            r"[^\W\d_]+| (?:Celsius|Fahrenheit))?").match(text, end)
        # "costs $5 in all" are no inches.
        inches = spaced is not None and spaced.group() == " in" and text[spaced.end():spaced.end() + 1] == " "
        unit = read_unit(spaced.group()) if spaced and not inches else None
        return (spaced.end(), True) if spaced and unit is not None and unit.measure and not unit.words else (end, False)
    if attached.group().casefold() in _ORDINALS:
        return attached.end(), False
    rest = re.compile(r"[^\W\d_]+(?:\^[23]|/[^\W\d_]+)?").match(text, end)
    unit = read_unit(rest.group()) if rest else None
    if rest is None or unit is None or not unit.measure:
        return -1, False
    return rest.end(), True
