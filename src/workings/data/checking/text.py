"""Texts as words, for comparisons that look through case, white space and punctuation but never through a number."""

import re
import unicodedata

_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[^\w\s.,;:!?\"'“”‘’`´()\[\]{}]")
_GROUPED = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")


def words(text: str) -> list[str]:
    """Numbers (without grouping commas), words in one case, and signs that carry meaning (`+`, `-`, `%`)."""
    found = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return [word.replace(",", "") if _GROUPED.fullmatch(word) else word for word in found]


def numbers(text: list[str]) -> tuple[str, ...]:
    """The numbers among words, sorted."""
    return tuple(sorted(word for word in text if word[0].isdigit()))
