"""The result of a search for an answer, and kinds of expected answers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from workings.answers.choices import TRUTHS, option_letter
from workings.answers.latex import plain
from workings.answers.numbers import parse_number, parse_words

Kind = Literal["number", "choice", "yes_no", "name", "text"]
"""What is expected: a number, the letter of a choice, yes or no, a name or phrase, or any other text (a formula, a
list)."""

NO_RULE = "none"
MAX_NAME = 120
"""Characters of an expected answer that may be a name or phrase."""
_LETTER = re.compile(r"\s*\(?[A-Ja-j]\)?\.?\s*")
_YEAR = re.compile(r"\W*(?:in )?[12]\d{3}\W*")
_ASKS_WHEN = re.compile(r"\bwhen\b|\b(?:what|which) (?:\w+ )?year|\bgive (?:a|the) year", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{3,}|[A-Z]{2}")
_FORMULA = re.compile(r"[\\^_=<>≤≥+*/{}\[\]√π∞|]")


@dataclass(frozen=True, slots=True)
class Extraction:
    """The answer found in a completion (maybe empty) and the rule that found it."""

    text: str
    rule: str


def answer_kind(expected: str, question: str = "", aliases: Sequence[str] = ()) -> Kind:
    """What kind of answer is expected; the text of an option that the question lists is a choice.

    A year is a name where the question asks when, and a number is one where an alias is.

    >>> answer_kind("1/2"), answer_kind("(B)"), answer_kind("No"), answer_kind("Isaac Newton"), answer_kind("x + 1")
    ('number', 'choice', 'yes_no', 'name', 'text')
    """
    if _LETTER.fullmatch(plain(expected)) or option_letter(expected, question):
        return "choice"
    if _YEAR.fullmatch(expected) and _ASKS_WHEN.search(question):
        return "name"
    if parse_number(expected) is not None or parse_words(expected) is not None:
        return "name" if any(answer_kind(alias) == "name" for alias in aliases) else "number"
    if expected.strip(" .").casefold() in TRUTHS:
        return "yes_no"
    is_name = _WORD.search(expected) and len(expected) <= MAX_NAME and not _FORMULA.search(expected)
    return "name" if is_name else "text"
