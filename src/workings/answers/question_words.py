"""Words of questions and of what answers them, without endings, and what is said behind a number."""

import re
from dataclasses import dataclass
from functools import lru_cache

from workings.answers.number_words import read_words
from workings.answers.units import read_unit

MAX_QUESTION = 600
"""Characters of a question that are looked at: its end."""
_WORD = re.compile(r"#\d+|\b\d+(?:st|nd|rd|th)\b|[^\W\d_]+")
_WORD_OR_NUMBER = re.compile(r"\d+(?:[.,/]\d+)*%?|[^\W\d_]+")
NAME = re.compile(r"#\d+|\b(?![AI]\b|[A-Z]\s?=)[A-Z]\w*")
"""A name in a text: a word with a capital letter, or `#3`."""
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
MONEY_UNIT = re.compile(r"[$€£]|\b(?:dollars?|cents?|euros?|pesos?)\b")
"""What makes a number money."""
_MONEY_BEHIND = re.compile(r"\W{0,3}(?:[^\W\d_]+\W{1,3})?(?<!per )(?:dollars?|cents?|euros?|pesos?)\b")
NEXT_WORD = re.compile(r"\W{0,3}(?:of (?:the |those )?\d+ )?([^\W\d_]+)")
"""The word behind a number."""
SILENT = re.compile(
    "an?|the|of|in|on|at|to|for|from|by|with|and|or|as|if|so|then|there|it|its|s?he|they|them|his|her|their|i|you|we|s"
    "|this|that|these|those|is|are|was|were|be|been|being|do|does|did|would|can|could|should|must|has|have|had"
    "|how|many|much|what|which|when|number|amount|find|calculate|determine|compute", re.IGNORECASE)
"""Words that do not tell what a text is about."""
_SAME = {other: word for word, others in {
    "left": "remain remains remained remaining leftover still now currently",
    "total": "altogether together combined all", "each": "every per",
    "buy": "bought", "keep": "kept", "find": "found", "bring": "brought", "catch": "caught", "hold": "held",
    "grow": "grew grown", "throw": "threw thrown", "wear": "wore worn", "feed": "fed", "meet": "met", "sell": "sold",
    "spend": "spent", "eat": "ate", "pay": "paid", "make": "made", "get": "got gotten", "lose": "lost", "win": "won",
    "give": "gave given", "take": "took taken", "run": "ran", "drive": "drove", "go": "goes went",
    "write": "wrote written", "begin": "began begun", "fall": "fell fallen", "build": "built", "become": "became",
    "lead": "led", "draw": "drew drawn", "sing": "sang sung", "break": "broke broken", "speak": "spoke spoken",
    "more": "farther further longer older taller extra additional difference exceed exceeds",
    "average": "mean", "few": "fewer", "person": "people",
    "foot": "feet", "child": "children kid kids", "need": "needed"}.items()
    for other in others.split()}
_EACH = re.compile(r"\b(?:each|every|per) ([^\W\d_]+)", re.IGNORECASE)
_THE_OTHER = re.compile(r"\bthe (?:remaining|other)\b", re.IGNORECASE)
_MEASURE_ASKED = re.compile(r"\bhow many (?:more |fewer |total )?((?:square |cubic )?[a-z]+)\b(?! per\b| an? )",
                            re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NumberAt:
    """A number as written, where it stands in its sentence, and whether it is only a circumstance ("for 2 weeks")."""

    text: str
    start: int
    end: int
    circumstance: bool = False


def words_of(text: str) -> frozenset[str]:
    """The telling words of a text without their endings, and "each hour" beside "hour"; nothing of its digits."""
    text = _THE_OTHER.sub("", text)
    found = [stem(word) for word in _WORD.findall(text) if not SILENT.fullmatch(word)]
    return frozenset((*found, *(f"each {stem(word)}" for word in _EACH.findall(text))))


def named(text: str) -> frozenset[str]:
    """The words of the names in a text."""
    return words_of(" ".join(NAME.findall(text)))


@lru_cache(maxsize=10_000)
def stem(word: str) -> str:
    """A word without what English adds to its end: "saving" and "saves" are "sav", as "save" is."""
    word = _SAME.get(word.casefold(), word.casefold())
    word = re.sub(r"(?<=..)(?:ing|ed|es|(?<!s)s|e|ers?)$" if len(word) > 3 else r"$", "", word)
    return re.sub(r"(?<=..)([^aeiouls])\1$", r"\1", re.sub("i$", "y", word))


def telling_words(text: str) -> list[str]:
    """The numbers of a text, and its words that say what it is about without their endings, in their order.

    >>> telling_words("So 91 is divisible by the number 7.")
    ['91', 'divisibl', '7']
    """
    return [stem(word) for word in _WORD_OR_NUMBER.findall(text) if not SILENT.fullmatch(word)]


def digits_of(text: str) -> list[str]:
    """The numbers in digits of a text, without signs and the commas of thousands."""
    return _DIGITS.findall(text.replace(",", ""))


def amounts_of(text: str) -> frozenset[int]:
    """The whole numbers of more than one in a text, in digits and in words."""
    read = [read_words([word.casefold()]) for word in _WORD.findall(text)]
    return frozenset((*(int(digits) for digits in digits_of(text) if "." not in digits and len(digits) < 10),
                      *(int(number.value) for number in read if number is not None))) - {0, 1}


def measure_asked(question: str) -> str:
    """The measure that a question wants its answer in: "How many minutes …" minutes; empty where it says none."""
    asked = list(_MEASURE_ASKED.finditer(question[-MAX_QUESTION:]))
    unit = read_unit(asked[-1][1]) if asked else None
    return unit.measure if unit is not None and not unit.words else ""


def word_behind(sentence: str, end: int) -> str:
    """The word that ends a number or stands right behind it; empty where it does not say what is counted."""
    if sentence[end - 1].isalpha():
        return stem(_WORD.findall(sentence[max(0, end - 30):end])[-1])
    word = NEXT_WORD.match(sentence, end)
    return "" if word is None or SILENT.fullmatch(word[1]) else stem(word[1])


def is_money(sentence: str, number: NumberAt) -> bool:
    """Whether a number of a sentence is an amount of money."""
    return MONEY_UNIT.search(number.text) is not None or _MONEY_BEHIND.match(sentence, number.end) is not None
