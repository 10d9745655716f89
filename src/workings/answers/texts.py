"""Whether two answers say the same: numbers by value, yes and no, prose, mathematics, and lists by their parts."""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from workings.answers.final_number import sentence_number
from workings.answers.latex import normal_form, plain
from workings.answers.numbers import equal_numbers, names_a_value, parse_number, parse_words

MAX_CHARACTERS = 2_000
"""A longer answer is an explanation; only its whole text is compared."""
MAX_PARTS = 200
MAX_FORMULA = 300
"""Maximum characters of a formula whose terms are compared in any order."""
UNION = re.compile(r"\s*(?:∪|\\cup(?![a-z]))\s*")
"""The sign of a union, as a character or in LaTeX, with the space around it."""
_UNITS = re.compile(r"[\s$]*(?:\\text\s*\{)?\s*(?:square |cubic )?units\}?\.?\s*$")
# "x ∈ [1, 2]" says [1, 2].
_MEMBER = re.compile(r"^[\s$]*[a-zA-Z]\s*(?:∈|\\in(?![a-z]))")
_ARTICLES = "the|an|a|les?|la|el|los|las|der|die|das|il|une?|una|eine?"
_SENTENCE = re.compile(r"(?<![^\W\d_])(?<!\\)[^\W\d_]{2,}\s")
_TRUTH_VALUES = {"yes": True, "true": True, "no": False, "false": False}


def same_answer(given: str, expected: str, tolerance: float = 0.0) -> bool:
    """Whether a given answer is the expected one. If a number is expected, a sentence may say it.

    >>> same_answer("She has 12 apples left.", "twelve"), same_answer("2/3", "0.6666666666666666")
    (True, True)
    """
    expected_number = parse_number(expected) or parse_words(expected)
    if expected_number is None:
        return same_text(given, expected, tolerance) or _same_truth(given, expected)
    given_number = parse_number(given) or parse_words(given)
    if given_number is None and _SENTENCE.search(given):
        number_text = sentence_number(given) or ""
        given_number = parse_number(number_text) or parse_words(number_text)
    return given_number is not None and equal_numbers(given_number, expected_number, tolerance)


def _same_truth(given: str, expected: str) -> bool:
    one, other = (_TRUTH_VALUES.get(text.strip(" .").casefold()) for text in (given, expected))
    return one is not None and one == other


def same_text(given: str, expected: str, tolerance: float = 0.0) -> bool:
    """Whether an answer says the expected text, as a whole.

    >>> same_text("the Eiffel Tower.", "Eiffel Tower"), same_text("b, a", "a, b"), same_text("(2, 1)", "(1, 2)")
    (True, True, False)
    """
    said, wanted = normalise_text(given), normalise_text(expected)
    if said == wanted:
        return True
    if not said or len(given) > MAX_CHARACTERS or len(expected) > MAX_CHARACTERS:
        return False
    given_formula, expected_formula = _formula(value_of(given, expected)), _formula(expected)
    return _same_formula(normal_form(given_formula), normal_form(expected_formula)) or _same_parts(
        plain(given_formula), plain(expected_formula), tolerance)


@lru_cache(maxsize=256)
def normalise_text(text: str) -> str:
    """Lower case, one space between words, no accents, no outer punctuation, no leading article; brackets stay.

    >>> normalise_text("**The  Eiffel Tower.**")
    'eiffel tower'
    """
    decomposed = unicodedata.normalize("NFKD", text.replace("−", "-")).casefold()
    without_accents = "".join(character for character in decomposed if not unicodedata.combining(character))
    words = " ".join(without_accents.split()).strip(" \"'`*_.,;:!?¡¿$“”‘’")
    return re.sub(rf"^(?:(?:{_ARTICLES}) )+(?=.)", "", words)


def value_of(given: str, expected: str) -> str:
    """The side of an equation that answers, if no equation is expected: "f'(x) = 3x^2 ≈ …" says 3x^2."""
    if "=" in expected or "≈" in expected:
        return given
    exact = re.split(r"≈|\\approx(?![a-z])", given, maxsplit=1)[0]
    left, equals, right = exact.rpartition("=")
    if not equals:
        return exact
    return right if names_a_value(plain(left)) else given


def _formula(text: str) -> str:
    """A text without "x ∈" before it and "units" after it."""
    return _UNITS.sub("", _MEMBER.sub("", text))


def _same_formula(given: str, expected: str) -> bool:
    """Whether two formulas in normal form are the same, but for the order of their terms."""
    if not given:
        return False
    return given == expected or _terms(given) == _terms(expected) != []


def _terms(formula: str) -> list[str]:
    """The terms of a sum with their signs, sorted; empty for anything else."""
    if len(formula) > MAX_FORMULA or re.search(r"[,;=<>≤≥≈±|]|\\pm", formula):
        return []
    terms = [""]
    for character, depth in _depths(formula):
        if character in "+-" and depth == 0 and terms[-1]:
            terms.append("")
        terms[-1] += character
    if len(terms) == 1:
        return []
    return sorted(term if term[:1] in "+-" else f"+{term}" for term in terms)


def _depths(text: str) -> Iterator[tuple[str, int]]:
    """Each character, and how many brackets are open after it."""
    depth = 0
    for character in text:
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        yield character, depth


def _same_parts(given: str, expected: str, tolerance: float) -> bool:
    """Whether two lists or sets have the same parts in any order, or two tuples or intervals in the same order."""
    given_inner, given_brackets = without_brackets(given)
    expected_inner, expected_brackets = without_brackets(expected)
    # A set may be written without its braces.
    if given_brackets != expected_brackets and {given_brackets, expected_brackets} != {"", "{}"}:
        return False
    given_parts, expected_parts = _parts(given_inner), _parts(expected_inner)
    if not 2 <= len(given_parts) == len(expected_parts) <= MAX_PARTS:
        return False
    if given_brackets.startswith(("(", "[")):
        return all(_same_part(one, other, tolerance) for one, other in zip(given_parts, expected_parts, strict=True))
    for part in given_parts:
        match = next((candidate for candidate in expected_parts if _same_part(part, candidate, tolerance)), None)
        if match is None:
            return False
        expected_parts.remove(match)
    return True


def without_brackets(text: str) -> tuple[str, str]:
    """The inside of brackets around a whole text, and the brackets (`()`); a text without them, and ""."""
    text = text.strip().strip("$. ").replace("\\{", "{").replace("\\}", "}").strip()
    if len(text) < 2 or text[0] not in "([{" or text[-1] not in ")]}":
        return text, ""
    # "(1,2), (3,4)" has none.
    if any(depth == 0 for _, depth in [*_depths(text)][:-1]):
        return text, ""
    return text[1:-1], text[0] + text[-1]


def _parts(text: str) -> list[str]:
    """The parts between commas, semicolons, "and" and "or" that are not within brackets."""
    text = re.sub(r",?\s+(?:and|or)\s+", ", ", text)
    parts, start = [], 0
    for index, (character, depth) in enumerate(_depths(text)):
        if character in ",;" and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _same_part(given: str, expected: str, tolerance: float) -> bool:
    given_number, expected_number = parse_number(given), parse_number(expected)
    if given_number is not None and expected_number is not None:
        return equal_numbers(given_number, expected_number, tolerance)
    return normal_form(given.casefold()) == normal_form(expected.casefold())
