"""Whether two texts say the same: prose without case and articles, mathematics in one spelling, lists by parts."""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from workings.answers.choices import TRUTHS
from workings.answers.final_number import sentence_number
from workings.answers.latex import normal_form, plain
from workings.answers.numbers import equal_numbers, names_a_value, parse_number, parse_words

MAX_CHARACTERS = 2_000
"""A longer answer is an explanation; only its whole text is compared."""
MAX_PARTS = 200
MAX_FORMULA = 300
"""Maximum characters of a formula to compare up to the order of terms."""
UNION = re.compile(r"\s*(?:∪|\\cup(?![a-z]))\s*")
"""The sign of a union, as a character or in LaTeX, with the space around it."""
_UNITS = re.compile(r"[\s$]*(?:\\text\s*\{)?\s*(?:square |cubic )?units\}?\.?\s*$")
# "x ∈ [1, 2]" says [1, 2].
_MEMBER = re.compile(r"^[\s$]*[a-zA-Z]\s*(?:∈|\\in(?![a-z]))")
_ARTICLES = "the|an|a|les?|la|el|los|las|der|die|das|il|une?|una|eine?"


@lru_cache(maxsize=256)
def normalise_text(text: str) -> str:
    """Lower case, one space between words, no outer punctuation, no leading article; brackets stay.

    >>> normalise_text("**The  Eiffel Tower.**")
    'eiffel tower'
    """
    # Without accents: "São Paulo" is written "Sao Paulo" as well.
    text = "".join(character for character in unicodedata.normalize("NFKD", text.replace("−", "-")).casefold()
                   if not unicodedata.combining(character))
    text = " ".join(text.split()).strip(" \"'`*_.,;:!?¡¿$“”‘’")
    return re.sub(rf"^(?:(?:{_ARTICLES}) )+(?=.)", "", text)


def same_text(given: str, expected: str, tolerance: float = 0.0) -> bool:
    """Whether an answer says the expected text, as a whole.

    >>> same_text("the Eiffel Tower.", "Eiffel Tower"), same_text("b, a", "a, b"), same_text("(2, 1)", "(1, 2)")
    (True, True, False)
    """
    said, wanted = normalise_text(given), normalise_text(expected)
    if said == wanted:
        return True
    if len(given) > MAX_CHARACTERS or len(expected) > MAX_CHARACTERS or not said:
        return False
    formula, expected = (_UNITS.sub("", _MEMBER.sub("", text)) for text in (value_of(given, expected), expected))
    form, expected_form = normal_form(formula), normal_form(expected)
    if form == expected_form or _terms(form) == _terms(expected_form) != []:
        return bool(form)
    return _same_parts(plain(formula), plain(expected), tolerance)


def value_of(given: str, expected: str) -> str:
    """The answering side of an equation if no equation is expected: "f'(x) = 3x^2 ≈ …" says 3x^2."""
    if "=" in expected or "≈" in expected:
        return given
    exact = re.split(r"≈|\\approx(?![a-z])", given, maxsplit=1)[0]
    left, equals, right = exact.rpartition("=")
    return right if equals and names_a_value(plain(left)) else exact if not equals else given


def _depths(text: str) -> Iterator[tuple[str, int]]:
    """Each character, and how many brackets are open after it."""
    depth = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        yield character, depth


def _terms(formula: str) -> list[str]:
    """The terms of a sum with their signs, in one order; empty for anything else."""
    if len(formula) > MAX_FORMULA or re.search(r"[,;=<>≤≥≈±|]|\\pm", formula):
        return []
    terms = [""]
    for character, depth in _depths(formula):
        if character in "+-" and depth == 0 and terms[-1]:
            terms.append("")
        terms[-1] += character
    return sorted(term if term[:1] in "+-" else f"+{term}" for term in terms) if len(terms) > 1 else []


def _same_parts(given: str, expected: str, tolerance: float) -> bool:
    """Lists and sets by their parts in any order; tuples and intervals in theirs."""
    given_inner, given_brackets = without_brackets(given)
    expected_inner, expected_brackets = without_brackets(expected)
    # A set may be written without its braces.
    if given_brackets != expected_brackets and {given_brackets, expected_brackets} != {"", "{}"}:
        return False
    given_parts, expected_parts = _parts(given_inner), _parts(expected_inner)
    if not 2 <= len(given_parts) == len(expected_parts) <= MAX_PARTS:
        return False
    if given_brackets and given_brackets[0] in "([":
        return all(_same_part(a, b, tolerance) for a, b in zip(given_parts, expected_parts, strict=True))
    for part in given_parts:
        match = next((candidate for candidate in expected_parts if _same_part(part, candidate, tolerance)), None)
        if match is None:
            return False
        expected_parts.remove(match)
    return True


def without_brackets(text: str) -> tuple[str, str]:
    """The inside of brackets around a whole text, and the brackets; or the text and ""."""
    text = text.strip().strip("$. ").replace("\\{", "{").replace("\\}", "}").strip()
    if len(text) < 2 or text[0] not in "([{" or text[-1] not in ")]}":
        return text, ""
    # "(1,2), (3,4)" has none.
    if any(depth == 0 for _, depth in [*_depths(text)][:-1]):
        return text, ""
    return text[1:-1], text[0] + text[-1]


def _parts(text: str) -> list[str]:
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


_SENTENCE = re.compile(r"(?<![^\W\d_])(?<!\\)[^\W\d_]{2,}\s")


def same_answer(given: str, expected: str, tolerance: float = 0.0) -> bool:
    """Whether a given answer is the expected one.

    Where a number is expected, a sentence that says one represents it; one that says an expression or several does not.

    >>> same_answer("She has 12 apples left.", "twelve"), same_answer("2/3", "0.6666666666666666")
    (True, True)
    """
    target, number = (parse_number(text) or parse_words(text) for text in (expected, given))
    if target is None:
        truths = given.strip(" .").casefold(), expected.strip(" .").casefold()
        # Yes is true, and no is false.
        return same_text(given, expected, tolerance) or (
            TRUTHS.issuperset(truths) and len({truth in ("yes", "true") for truth in truths}) == 1)
    if number is None and _SENTENCE.search(given) and (said := sentence_number(given)):
        number = parse_number(said) or parse_words(said)
    return number is not None and equal_numbers(number, target, tolerance)
