"""Whether a text says a name or phrase: it has one of its spellings, does not deny it, and names no alternative."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from workings.answers.number_words import read_words
from workings.answers.sentences import sentences

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
          r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?")
_DAY = r"(\d\d?)(?:st|nd|rd|th)?"
_DAY_FIRST = re.compile(rf"\b{_DAY}(?: of)? {_MONTH}(?:,? (\d{{4}}))?\b", re.IGNORECASE)
_MONTH_FIRST = re.compile(rf"\b{_MONTH} {_DAY}(?!\d)(?:,? (\d{{4}})\b)?", re.IGNORECASE)
_ISO = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b")


def dates_alike(text: str) -> str:
    """A text with its dates as day, short month and year in lower case.

    >>> dates_alike("on July 20, 1969"), dates_alike("1969-07-20"), dates_alike("May 3rd")
    ('on 20 jul 1969', '20 jul 1969', '3 may')
    """
    text = _ISO.sub(lambda date: f"{int(date[3])} {_MONTHS[int(date[2]) - 1]} {date[1]}", text)
    text = _MONTH_FIRST.sub(lambda date: _written(date[2], date[1], date[3]), text)
    return _DAY_FIRST.sub(lambda date: _written(date[1], date[2], date[3]), text)


def _written(day: str, month: str, year: str | None) -> str:
    return f"{int(day)} {month[:3].casefold()}" + (f" {year}" if year else "")


MIN_GLUED = 8
"""Minimum length of a spelling that counts without spaces around it."""
MAX_BETWEEN = 2
"""Maximum words between the first and the last word of a name."""
# Search engines glue words and footnotes together: "isParis12."
_GLUED = re.compile(r"(?<=[a-z]{2})(?=[A-Z][a-z])|(?<=[a-z]{3})(?:\d{1,3}(?=[\s.,;]|$)|(?=\d))|(?<=\d{4})(?=[a-z]{2})")
_IGNORED = frozenset(("the", "a", "an", "of", "s"))
_LEADING = frozenset(("in", "at", "on", "from", "by", "about", "approximately", "around", "over", "under", "into",
    "to", "with", "for", "as", "roughly", "mr", "mrs", "ms", "dr", "sir", "lady", "lord", "saint", "st"))
_DENIALS = frozenset(("not", "never", "nor", "neither", "without", "except", "unlike", "isnt", "wasnt", "arent",
    "werent", "than", "instead", "nobody"))
_REJECTIONS = frozenset(("wrong", "incorrect", "false"))
NEAR = 4
"""Words before a name that are searched for a negation."""
_GUESSES = re.compile(r"\b(?:could|might|may|either|perhaps|maybe|possibly)\b.* or ", re.IGNORECASE)


def says(text: str, expected: Sequence[str]) -> bool:
    """Whether a text says one of the spellings of a name or phrase; of a list of them, each part.

    >>> says("Brant Daugherty plays the character of Noel Kahn.", ["Noel Kahn"]), says("Red and blue", ["blue, red"])
    (True, True)
    >>> says("It is not Paris.", ["Paris"]), says("It is Paris or Rome.", ["Paris"])
    (False, False)
    """
    statements = [sentence for sentence in sentences(text) if not _GUESSES.search(sentence)]
    sentence_words = [_words(sentence) for sentence in statements]
    return any(_says_spelling(sentence_words, spelling) or _says_glued(statements, spelling) for spelling in expected)


def _says_spelling(sentence_words: list[tuple[str, ...]], spelling: str) -> bool:
    return any(names and all(any(_says_name(words, name) for words in sentence_words) for name in names)
               for names in _alternatives(spelling))


def _says_glued(statements: list[str], spelling: str) -> bool:
    """Whether a sentence has a spelling within a word: "TheHouston Astroswon", as search engines quote."""
    if len(spelling) < MIN_GLUED or not spelling[0].isupper():
        return False
    return any(spelling in sentence and " or " not in sentence and not _DENIALS.intersection(_words(sentence))
               for sentence in statements)


def _alternatives(spelling: str) -> Iterator[list[tuple[str, ...]]]:
    """What a text must say: all names of one of these lists. "blue, red" gives ["blue red"] and ["blue", "red"]."""
    name = _words(spelling)
    while len(name) > 1 and name[0] in _LEADING:
        name = name[1:]
    yield [name] if name else []
    if " or " in spelling:
        for part in spelling.split(" or "):
            yield [_words(part)] if len(_words(part)) > 1 else []
    parts = [_words(part) for part in re.split(r",\s*(?:and\s+)?|;\s*|\s+and\s+|\s+&\s+", spelling)]
    if len(parts) > 1 and all(parts) and not (len(parts) < 4 and any(char.isdigit() for char in spelling)):
        yield parts


def _says_name(words: tuple[str, ...], name: tuple[str, ...]) -> bool:
    return any(not _is_denied(words, start, end) for start, end in _find(words, name))


def _find(words: tuple[str, ...], name: tuple[str, ...]) -> list[tuple[int, int]]:
    """(start, end) of each place of a name: its words side by side, or its first and last one with few between."""
    size, joined = len(name), "".join(name)
    # "rear view" and "rearview" are one.
    found = [(start, start + width) for width in {max(1, size - 1), size, size + 1}
             for start in range(len(words) - width + 1)
             if joined.startswith(words[start]) and "".join(words[start:start + width]) == joined]
    if found or size not in (2, 3) or not all(map(str.isalpha, name)):
        return found
    # "George Herbert Walker Bush" says "George Bush", at (0, 4).
    return [(start, last + 1) for start, word in enumerate(words) if word == name[0]
            for last in range(start + 1, min(start + 2 + MAX_BETWEEN, len(words))) if words[last] == name[-1]]


def _is_denied(words: tuple[str, ...], start: int, end: int) -> bool:
    """Whether the words around a name deny it, or name an alternative."""
    before, after = words[max(0, start - NEAR):start], words[end:end + 2]
    has_alternative = before[-1:] == ("or",) or after[:1] == ("or",)
    return has_alternative or bool(_DENIALS.intersection(before) or _REJECTIONS.intersection(after))


@lru_cache(maxsize=4096)
def _words(text: str) -> tuple[str, ...]:
    """The words of a text in one spelling: no case, accents, articles; numbers and dates in digits."""
    text = "".join(character for character in unicodedata.normalize("NFKD", _GLUED.sub(" ", text)).casefold()
                   if not unicodedata.combining(character))
    text = dates_alike(re.sub(r"['’`´]", "", text))
    words = [word for word in re.findall(r"\d+(?:\.\d+)?|[^\W\d_]+", text) if word not in _IGNORED]
    # "echidnas" and "echidna" are one; "Pari" is no Paris.
    return tuple(word[:-1] if len(word) > 5 and word.endswith("s") else word for word in _in_digits(words))


def _in_digits(words: list[str]) -> list[str]:
    result, index = [], 0
    while index < len(words):
        value, length = read_words(words[index:index + 8]) or (words[index], 1)
        result.append(str(value))
        index += length
    return result
