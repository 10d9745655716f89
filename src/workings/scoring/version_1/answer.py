"""Extraction and the scorer `answer` of version 1, as records that were made with them name them. They never change."""

import re
import unicodedata
from collections.abc import Sequence

from workings.answers.extraction import Extraction
from workings.scoring.items import Item
from workings.scoring.version_1.extract import extract, only_number
from workings.scoring.version_1.numbers import equal_numbers, parse_number


def find(text: str, item: Item, rules: Sequence[str], form: str) -> Extraction:
    """The answer in a completion."""
    said = text.rpartition("<channel|>")[2] if form == "channel" else text
    return extract(said, "number" if parse_number(item.expected_answer) is not None else "text", rules)


def answer(given: str, item: Item) -> float:
    """Numbers by value, texts by normalised match."""
    number = parse_number(given) or parse_number(only_number(given))
    for expected in (item.expected_answer, *item.aliases):
        target = parse_number(expected)
        if target is not None and number is not None:
            if equal_numbers(number, target, item.tolerance):
                return 1.0
        elif normalise_text(given) == normalise_text(expected):
            return 1.0
    return 0.0


def vote(answer: str) -> tuple[object, ...]:
    """Equal for answers that a majority counts as one."""
    number = parse_number(answer)
    return ("text", normalise_text(answer)) if number is None else ("number", number.value, number.percent)


def normalise_text(text: str) -> str:
    """Lower case, one space between words, no outer punctuation, no leading article."""
    text = unicodedata.normalize("NFKC", text).casefold()
    text = re.sub(r"\\(?:text|mathrm|mbox)\s*\{([^{}]*)\}", r"\1", text)
    text = " ".join(text.split()).strip(" \"'`*_.,;:!?()[]{}$")
    return re.sub(r"^(?:the|an|a) (?=.)", "", text)
