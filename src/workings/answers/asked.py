"""Which of several numbers of a sentence its question asks for: the one whose clause says the most of its words.

"The winner received 60 votes and the loser received 20 votes" says two numbers. Asked for the votes of the loser, a
reader takes the one whose clause speaks of the loser. Where two clauses say as much of the question, none is chosen.
Questions in English only: no clause says anything of another one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from workings.answers.units import NO_UNIT, read_unit

MAX_QUESTION = 600
"""Characters of a question that are looked at: its end."""
MAX_NUMBERS = 12
"""Numbers of a sentence; one with more is a list."""
_ASKING = re.compile(r"\bhow\b|\b(?:what|which|calculate|find|determine|compute)\b", re.IGNORECASE)
_SUPPOSED = re.compile(r",?\s(?:if|assuming|given)\s.*", re.IGNORECASE | re.DOTALL)
_COUNTED = re.compile(
    r"\b(?:how (?:many|much|(?=[a-z]))|(?:number|amount) of)\s?(.*?)(?=\b(?:do|does|did|is|are|was|were|will|would|can"
    r"|could|should|must|has|have|had)\b|[,?.]|$)", re.IGNORECASE | re.DOTALL)
_MONEY = re.compile(r"money|dollar|\$|profit|salary|income|revenue|\b(?:price|cost) (?:of|difference)\b"
                    r"|how much\b.*\b(?:cost|pay|spen[dt]|earn|save|owe|charge|profit|change|price|make"
                    r"|worth|raise)", re.IGNORECASE | re.DOTALL)
_COINS = re.compile(r"how many (?:more )?(?:dollars|cents|euros|pesos)", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_NAME = re.compile(r"[A-Z]")
_NEXT_WORD = re.compile(r"\W{0,3}([^\W\d_]+)")
_SILENT = re.compile(
    "an?|the|of|in|on|at|to|for|from|by|with|and|or|as|if|so|then|there|it|its|s?he|they|them|his|her|their|i|you|we|s"
    "|this|that|these|those|is|are|was|were|be|been|being|do|does|did|will|would|can|could|should|must|has|have|had"
    "|how|many|much|what|which|when|number|amount|find|calculate|determine|compute", re.IGNORECASE)
_SAME = {other: word for word, others in {
    "left": "remain remains remained remaining leftover", "total": "altogether together combined all",
    "each": "every per", "buy": "bought", "sell": "sold", "spend": "spent", "eat": "ate", "pay": "paid", "make": "made",
    "get": "got gotten", "lose": "lost", "win": "won", "give": "gave given", "take": "took taken", "run": "ran",
    "drive": "drove", "go": "goes went",
    "more": "farther further longer older taller extra additional difference", "few": "fewer", "person": "people",
    "foot": "feet", "child": "children", "need": "needed"}.items()
    for other in others.split()}
_THE_OTHER = re.compile(r"\bthe (?:remaining|other)\b", re.IGNORECASE)
_RANGE = re.compile(r"\s*(?:[^\W\d_]+\s)?(?:or|to|through|[-–])\s*")
_DIFFERENCE = re.compile(r"\s(?:[^\W\d_]+\s)?(?:more|less|fewer) than\b")
_BOUNDARY = re.compile(r"[;:—–(]|,\s|\s-\s|\b(?:and|while|whereas|but|instead of|so|which|or)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class NumberAt:
    """A number as written, where it stands in its sentence, and whether it is only a circumstance ("for 2 weeks")."""

    text: str
    start: int
    end: int
    circumstance: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What a question asks for."""

    counted: frozenset[str] = frozenset()
    """Words of what is counted: of "how many minutes early will Toby be" minutes and early."""
    other: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    money: bool = False


@lru_cache(maxsize=1_000)
def read_question(question: str) -> Asked:
    """What a question asks for, by the last of its sentences that asks; nothing where none does."""
    for sentence in reversed(re.split(r"(?<=[.?!])\s+", question)):
        places = list(_ASKING.finditer(sentence))
        if not places:
            continue
        # "If she is 3 years old, how old is he?": what is supposed is not asked for.
        how = [place for place in places if place.group().casefold() == "how"]
        asking = _SUPPOSED.sub("", sentence[(how[-1] if how else places[0]).start():])
        counted = _COUNTED.search(asking)
        names = frozenset(_stem(name) for name in _WORD.findall(asking)[1:] if name[0].isupper())
        what = _words(counted[1]) if counted else frozenset()
        return Asked(what - names, _words(asking) - what - names, names,
                     (_MONEY if "how many" not in asking.casefold() else _COINS).search(asking) is not None)
    return Asked()


def asked_for(sentence: str, numbers: Sequence[NumberAt], question: str, said: str | None) -> str | None:
    """Of several numbers of a sentence the one that its question asks for; ``said`` where the question decides nothing.

    Only one behind it takes the place of the said one: what a sentence comes to stands at its end.
    """
    ranges = any(_RANGE.fullmatch(sentence, one.end, other.start) for one, other in pairwise(numbers))
    if ranges or " between " in sentence or not 1 < len(numbers) <= MAX_NUMBERS:
        return said
    asked = read_question(question[-MAX_QUESTION:])
    texts = _clauses(sentence, numbers)
    counts = _inherited([_counted(sentence, number, asked) for number in numbers])
    named = _inherited([_words(text) & asked.names if _NAME.search(text) else None for text in texts])
    clauses = [_words(text) | word for text, word in zip(texts, counts, strict=True)]
    scores = [0 if number.circumstance or _in_brackets(sentence, number) else _agreement(clause, asked) + len(names) / 2
              + 2 * bool(word) + 2 * (asked.money and _is_money(sentence, number))
              for number, clause, word, names in zip(numbers, clauses, counts, named, strict=True)]
    *_, second, best = sorted(scores)
    at = scores.index(best)
    # Of "32 cards have an A, the other 9 a B" the second clause leaves out what the first one says.
    sure = best - second >= 1 or len(named[at]) == max(map(len, named))
    if best <= max(second, 0) or not sure:
        return said
    place = next((place for place in reversed(range(len(numbers))) if numbers[place].text == said), -1)
    return numbers[at].text if at > place and (said is None or place >= 0) else said


def _counted(sentence: str, number: NumberAt, asked: Asked) -> frozenset[str] | None:
    """The word for what a number counts, where that is asked for; None where it says nothing of what it counts."""
    word = _behind(sentence, number.end)
    return frozenset((word,)) & asked.counted if word else None


def _inherited(words: Sequence[frozenset[str] | None]) -> list[frozenset[str]]:
    """Words by clause; a clause that says none has those of the one before it."""
    found: list[frozenset[str]] = []
    for each in words:
        found.append(each if each is not None else found[-1] if found else frozenset())
    return found


def answers_before(sentence: str, remark: str, said: str, question: str) -> bool:
    """Whether a sentence says every word of a question, and the remark behind it, which says a number, none."""
    asked = read_question(question[-MAX_QUESTION:])
    words = asked.counted | asked.other | asked.names
    kind = "$" in said or "dollar" in said if asked.money else bool(_words(said) & asked.counted)
    return len(words) > 1 and not kind and words <= _words(sentence) and not _words(remark) & words


def counts_otherwise(sentence: str, numbers: Sequence[NumberAt], at: int, question: str) -> bool:
    """Whether a number is nothing that its question may ask for.

    "10 crayons" are no money, and "50 more than Ben" is an answer only where a question asks for more.
    """
    asked = read_question(question[-MAX_QUESTION:])
    words, number = asked.counted | asked.other, numbers[at]
    if words and _DIFFERENCE.match(sentence, number.end):
        return not words & _DIFFERENT
    if not asked.money or _is_money(sentence, number):
        return False
    word = _NEXT_WORD.match(sentence, number.end)
    # A number with a measure ("80 pesos") ends with it.
    return word is not None and not sentence[number.end - 1].isalpha() and word[1].endswith("s") and not (
        read_unit(word[1]) or NO_UNIT).measure


def _behind(sentence: str, end: int) -> str:
    """The word that ends a number or stands right behind it; empty where it does not say what is counted."""
    if sentence[end - 1].isalpha():
        return _stem(_WORD.findall(sentence[max(0, end - 30):end])[-1])
    word = _NEXT_WORD.match(sentence, end)
    return "" if word is None or _SILENT.fullmatch(word[1]) else _stem(word[1])


def _in_brackets(sentence: str, number: NumberAt) -> bool:
    return sentence.rfind("(", 0, number.start) > sentence.rfind(")", 0, number.start)


def _is_money(sentence: str, number: NumberAt) -> bool:
    return re.search(r"[$€£]|dollar|cent|euro|peso", sentence[number.start:number.end + 20]) is not None


def _agreement(clause: frozenset[str], asked: Asked) -> float:
    """How much of a question a clause says; less where it speaks of what is left, or of each, and no question does."""
    words = asked.counted | asked.other
    otherwise = (clause & _CHOOSING) - words - (frozenset() if "each" in words else {"total"})
    return (2 * len(clause & asked.counted) + len(clause & asked.other)
            + 4 * len(clause & words & _CHOOSING) - len(otherwise))


def _clauses(sentence: str, numbers: Sequence[NumberAt]) -> list[str]:
    """The clause around every number; numbers with nothing between that ends a clause have the same one.

    Of "she makes $26 from lawns and $54 from juice" the second clause begins as the first one does.
    """
    cuts = [0]
    for one, other in pairwise(numbers):
        between = list(_BOUNDARY.finditer(sentence, one.end, other.start))
        cuts.append(between[-1].start() if between else cuts[-1])
    clauses: list[str] = []
    head = ""
    for number, start in zip(numbers, cuts, strict=True):
        own = sentence[start:number.start]
        head = own if _words(own) else head
        clauses.append(head + sentence[number.start:next((cut for cut in cuts if cut > start), len(sentence))])
    return clauses


def _words(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in _WORD.findall(_THE_OTHER.sub("", text)) if not _SILENT.fullmatch(word))


def _stem(word: str) -> str:
    """A word without what English adds to its end: "saving" and "saves" are "sav", as "save" is."""
    word = _SAME.get(word.casefold(), word.casefold())
    word = re.sub(r"(?<=..)(?:ing|ed|es|s|e|er)$" if len(word) > 3 else r"$", "", word)
    return re.sub(r"(?<=..)([^aeiouls])\1$", r"\1", re.sub("i$", "y", word))


# They choose among the numbers of one story: a clause that says another one than the question speaks of another number.
_CHOOSING = frozenset(map(_stem, ("left", "total", "each", "more", "less", "fewer", "early", "late")))
_DIFFERENT = frozenset(map(_stem, ("more", "less", "fewer", "than", "exceed", "increase", "above", "below")))
