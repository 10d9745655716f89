"""The number that a question asks for, of several in a sentence: the one whose clause says the most of its words.

"The winner received 60 votes and the loser received 20 votes" says two numbers. Asked for the votes of the loser, a
reader takes the one whose clause speaks of the loser. Where two clauses say as much of the question, none is chosen.
Questions in English only: no clause says anything of another one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from workings.answers.numbers import parse_number
from workings.answers.question_words import (
    MAX_QUESTION,
    MONEY_UNIT,
    NAME,
    NEXT_WORD,
    SILENT,
    NumberAt,
    amounts_of,
    digits_of,
    is_money,
    measure_asked,
    named,
    stem,
    word_behind,
    words_of,
)
from workings.answers.units import NO_UNIT, read_unit

MAX_NUMBERS = 12
"""Numbers of a sentence; one with more is a list."""
_ASKING = re.compile(r"\bhow\b|\b(?:what|which|calculate|find|determine|compute)\b", re.IGNORECASE)
# "Give only the number of boxes as the answer."
_ONLY = re.compile(r"\b(?:give|write|state|report|answer with|return)\s(?:only|just)\s"
                   r"(?=the (?:number|amount) of\b)", re.IGNORECASE)
_SUPPOSED = re.compile(r",?\s(?:if|assuming|given)\s.*", re.IGNORECASE | re.DOTALL)
_COUNTED = re.compile(
    r"\b(?:how (?:many|much|(?=[a-z]))|(?:number|amount) of)\s?(.*?)(?=\b(?:do|does|did|is|are|was|were|will|would|can"
    r"|could|should|must|has|have|had)\b|[,?.]|$)", re.IGNORECASE | re.DOTALL)
# "glasses of 250 ml": glasses are counted.
_OF_A_SIZE = re.compile(r"\bof \d[\d.,]*\s?[^\W\d_]+")
_MONEY = re.compile(r"money|dollar|\$|profit|salary|income|revenue|\b(?:price|cost) (?:of|difference)\b"
                    r"|how much\b.*\b(?:cost|pay|spen[dt]|earn|save|owe|charge|profit|change|price|make"
                    r"|worth|raise)", re.IGNORECASE | re.DOTALL)
_COINS = re.compile(r"how many (?:more )?(?:dollars|cents|euros|pesos)", re.IGNORECASE)
_PARTICIPLE = re.compile(r",\s[a-z]+ing\b")
_RATE = re.compile(r"(?:\s[^\W\d_]+){0,2}?\s(?:an?|per|each|every)\s([^\W\d_]+)")
_OF_THOSE = re.compile(r"\s(?:[^\W\d_]+\s)?of (?:those|these|them|which|whom)\b")
_SUBJECT = re.compile(r"(?:\s[^\W\d_]+){0,2}?\s(?:is|are|was|were|has|have|had|will|can)\b")
_SO = re.compile(r"[,;]\s(?:so|therefore|thus|hence)\b")
# "So Ann is", "Ann's share is".
_SOMEBODY = re.compile(r"\W*(?:(?:[Ss]o|[Tt]hus|[Tt]herefore|[Hh]ence|[Tt]hen|[Nn]ow|[Ff]inally)\b,?\s)?([A-Z][a-z]+)"
                       r"(?:['’]s(?:\s[a-z]+){1,2})?\s(?:is|was|has|had|will (?:be|have)|gets|got|earns|earned|pays"
                       r"|paid|needs|spends|spent)\b")
_COMPARED = re.compile(r"\b(?:than|as|times|older|younger|taller|shorter|more|fewer|less|both|each|together|total)\b",
                       re.IGNORECASE)
ELLIPTIC = re.compile(r"(?:,|\band)\s[A-Z][^\W\d_]+\s$")
"""What stands before a number of "Ann has 5 pens, Ben 7 and Mia 9", behind the first one."""
_RANGE = re.compile(r"\s*(?:[^\W\d_]+\s)?(?:or|to|through|[-–])\s*")
_DIFFERENCE = re.compile(r"\s(?:[^\W\d_]+\s)?(?:more|less|fewer) than\b")
_OTHER_CASE = re.compile(r"\W*(?:if|had|including|with|without|counting|otherwise|instead)\b", re.IGNORECASE)
_BOUNDARY = re.compile(r"[;:—–(]|,\s|\s-\s|\b(?:and|while|whereas|but|instead of|so|which|or|because|since|when|than|if"
                       r"|after)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """What a question asks for."""

    counted: frozenset[str] = frozenset()
    """Words of what is counted: of "how many minutes early will Toby be" minutes and early."""
    other: frozenset[str] = frozenset()
    many: bool = False
    money: bool = False
    percent: bool = False
    names: frozenset[str] = frozenset()
    measure: str = ""
    amounts: frozenset[int] = frozenset()
    """Whole numbers of more than one, in digits and in words."""


@lru_cache(maxsize=1_000)
def read_question(question: str) -> ParsedQuestion:
    """What a question asks for, by the last of its sentences that asks; nothing where none does.

    One with a question mark comes before "Use E for how much Evan earned."
    """
    question = question[-MAX_QUESTION:]
    from_the_end = re.split(r"(?<=[.?!])\s+", question)[::-1]
    # Sentences with a question mark first, and of each kind the last of the text.
    for sentence in sorted(from_the_end, key=lambda each: (_ONLY.search(each) is None, not each.endswith("?"))):
        if only := _ONLY.search(sentence):
            sentence = f"what is {sentence[only.end():]}"
        matches = list(_ASKING.finditer(sentence))
        if not matches:
            continue
        # "If she is 3 years old, how old is he?": what is supposed is not asked for.
        how = [match for match in matches if match.group().casefold() == "how"]
        asking = _SUPPOSED.sub("", sentence[(how[-1] if how else matches[0]).start():])
        counted = _COUNTED.search(asking)
        counted_words = words_of(_OF_A_SIZE.sub("", counted[1])) if counted else frozenset()
        asks_how_many = "how many" in asking.casefold()
        words = words_of(asking) | words_of(sentence) & MEAN  # "On average, how many …"
        if YEAR_ASKED.search(asking):  # an answer to "which year" need not say "year"
            words -= {"year"}
        asks_for_money = (_COINS if asks_how_many else _MONEY).search(asking) is not None or (
            counted is not None and not counted_words and not asks_how_many and bool(MONEY_UNIT.search(question)))
        return ParsedQuestion(counted_words, words - counted_words, asks_how_many, asks_for_money,
                              "percent" in question or "%" in question, named(asking[1:]),
                              measure_asked(asking), amounts_of(asking))
    return ParsedQuestion()


def asked_for(sentence: str, numbers: Sequence[NumberAt], question: str, stated: str | None) -> str | None:
    """The number that a question asks for, of several in a sentence; ``stated`` where the question decides nothing.

    A number is asked for the more, the more of the question's words its clause says and the fewer others; if it is of
    the kind that is asked for, and not given by the question; and the stated one more than the others.
    """
    ranges = any(_RANGE.fullmatch(sentence, earlier.end, later.start) for earlier, later in pairwise(numbers))
    question = question[-MAX_QUESTION:]
    parsed_question, question_numbers = read_question(question), frozenset(digits_of(question))
    words = parsed_question.counted | parsed_question.other
    if ranges or " between " in sentence or not 1 < len(numbers) <= MAX_NUMBERS or not words:
        return stated
    counted = _inherited([_counted(sentence, number, parsed_question) for number in numbers])
    clauses = _clauses(sentence, numbers)
    names = [named(clause) for clause in clauses]
    inherited_names = _inherited([name or None for name in names])
    # One name alone chooses nothing: the other clauses may be about the same person.
    choosing = _CHOOSING | parsed_question.names if sum(map(bool, names)) > 1 else _CHOOSING
    stated_index = next((index for index in reversed(range(len(numbers))) if numbers[index].text == stated), -1)
    so = max((word.end() for word in _SO.finditer(sentence)), default=len(sentence))
    if stated and sentence[so:].strip(" .*") == stated:
        return stated
    points = []
    for index, (number, clause, counted_words, name_words) in enumerate(
            zip(numbers, clauses, counted, inherited_names, strict=True)):
        clause_words = words_of(clause) | name_words & words
        points.append(5 * len(clause_words & words) / len(words) + 2 * len(clause_words & words & choosing)
                      - (len(clause_words - words) + len(name_words - words)) / 2
                      + 2 * _kind(sentence, number, parsed_question, counts=bool(counted_words))
                      - (not question_numbers.isdisjoint(digits_of(number.text)))
                      + (index == stated_index) * (1 + (number.start > so)))
    best = max(points)
    chosen = numbers[points.index(best)].text
    other_points = [point for point, number in zip(points, numbers, strict=True) if number.text != chosen]
    return chosen if best - max(other_points, default=best - 1) >= 1 else stated


def _kind(sentence: str, number: NumberAt, asked: ParsedQuestion, *, counts: bool) -> int:
    """1 for a number of the kind that is asked for, -1 for one of another kind, 0 where nobody knows."""
    money = is_money(sentence, number)
    if counts or (asked.money and money) or (
            asked.measure and (read := parse_number(number.text)) and read.unit.measure == asked.measure):
        return 1
    rate = _RATE.match(sentence, number.end)
    if rate and not {"each", stem(rate[1])} & (asked.counted | asked.other):
        return -1
    if "%" in number.text or "percent" in number.text:
        percent = {"percent", "percentag"} & (asked.counted | asked.other)
        return 1 if percent else 0 if asked.percent else -1
    word = word_behind(sentence, number.end)
    return -1 if (asked.money and word and not money) or (asked.many and not asked.money and (
        money or (read_unit(number.text.lstrip("0123456789.,/ ")) or NO_UNIT).measure)) else 0


def _counted(sentence: str, number: NumberAt, asked: ParsedQuestion) -> frozenset[str] | None:
    """The word for what a number counts, where that is asked for; None where it says nothing of what it counts."""
    word = word_behind(sentence, number.end)
    says = (word and word not in _CHOOSING) or is_money(sentence, number)
    return frozenset((word,)) & asked.counted if says else None


def _inherited(words: Sequence[frozenset[str] | None]) -> list[frozenset[str]]:
    """Words by clause; a clause that says none has those of the one before it."""
    latest = frozenset[str]()
    return [latest := latest if clause_words is None else clause_words for clause_words in words]


def how_much_asked(name: str, question: str) -> float:
    """How much of a question a name says; what else it says counts against it."""
    parsed_question = read_question(question)
    name_words, words = words_of(name), parsed_question.counted | parsed_question.other
    return len(name_words & words) + 2 * len(name_words & words & _CHOOSING) - len(name_words - words) / 2


def asks_about(name: str, question: str) -> bool:
    """Whether a text names the only one that a question asks about, and nobody else in the question."""
    names = read_question(question).names
    return len(names) == 1 and named(name) & named(question) == names


def asks_total(question: str) -> bool:
    """Whether a question asks for what all of something is."""
    return asks_of("total", question) or "in all" in question


def is_of_another(sentence: str, question: str) -> bool:
    """Whether a sentence says of somebody in the question what it asks of another one, and compares nothing.

    >>> is_of_another("So Ann is 12 years old.", "Ann is older than Ben. How old is Ben?")
    True
    """
    names, subject = read_question(question).names, _SOMEBODY.match(sentence)
    if len(names) != 1 or subject is None or SILENT.fullmatch(subject[1]) or "=" in sentence or _COMPARED.search(
            sentence):
        return False
    return subject[1] in NAME.findall(question) and not names & named(sentence)


def says_question(sentence: str, question: str) -> bool:
    """Whether a sentence says all words of a question, or all but one of five."""
    asked = read_question(question)
    words = asked.counted | asked.other
    return len(words) > 1 and 5 * len(words & words_of(sentence)) >= 4 * len(words)


def answers_before(sentence: str, remark: str, said: str, question: str) -> bool:
    """Whether a sentence says nearly every word of a question, and the remark behind it at most a third as many."""
    parsed_question = read_question(question)
    words = parsed_question.counted | parsed_question.other
    kind = "$" in said or "dollar" in said if parsed_question.money else bool(words_of(said) & parsed_question.counted)
    return not kind and not _goes_on_to_asked(sentence, remark, question) and says_question(sentence, question) and (
        3 * len(words & words_of(remark)) <= len(words & words_of(sentence)))


def _goes_on_to_asked(earlier: str, sentence: str, question: str) -> bool:
    """Whether a sentence says a number of what is asked for, and the one before it does not.

    >>> _goes_on_to_asked("One bus fits 50 people.", "Three fit 150.", "How many people fit in 3 buses?")
    True
    """
    asked = read_question(question).amounts
    return not asked & amounts_of(sentence) <= amounts_of(earlier) and not _OTHER_CASE.match(sentence)


def counts_asked(word: str, question: str) -> bool:
    """Whether a word is what a question counts."""
    return stem(word) in read_question(question).counted


def asks_how_many(question: str) -> bool:
    """Whether a question asks how many there are of something."""
    return read_question(question).many


def counts_things(question: str) -> bool:
    """Whether a question asks how many of something there are that is no money."""
    asked = read_question(question)
    return asked.many and not asked.money and bool(asked.counted - _CHOOSING)


def asks_of(word: str, question: str) -> bool:
    """Whether a question asks with a word."""
    return stem(word) in (asked := read_question(question)).counted | asked.other


def is_named_count(sentence: str, number: NumberAt, question: str) -> bool:
    """Whether a number counts something that a question names and does not ask for."""
    asked = read_question(question)
    return word_behind(sentence, number.end) in words_of(question) - asked.counted - asked.other - _CHOOSING


def counts_otherwise(sentence: str, numbers: Sequence[NumberAt], at: int, question: str) -> bool:
    """Whether a number is nothing that its question may ask for.

    "10 crayons" are no money, and "50 more than Ben" is an answer only where a question asks for more.
    """
    asked = read_question(question)
    words, number = asked.counted | asked.other, numbers[at]
    if words and _DIFFERENCE.match(sentence, number.end):
        return not words & _DIFFERENT
    if not asked.money or is_money(sentence, number):
        return False
    word = NEXT_WORD.match(sentence, number.end)
    # A number with a measure ("80 pesos") ends with it.
    return word is not None and not sentence[number.end - 1].isalpha() and word[1].endswith("s") and not (
        read_unit(word[1]) or NO_UNIT).measure


def counts_another(sentence: str, numbers: Sequence[NumberAt], at: int, question: str) -> bool:
    """Whether a number counts what a question speaks of and does not ask for, and another one what it asks for."""
    asked = read_question(question)
    counted = [word_behind(sentence, number.end) for number in numbers]
    known = words_of(question) if ";" not in sentence[:numbers[at].start] else frozenset(counted) - {""}
    others = {word for word, number in zip(counted, numbers, strict=True) if number.text not in question}
    return counted[at] in known - asked.counted - asked.other and not asked.counted.isdisjoint(others)


def _clauses(sentence: str, numbers: Sequence[NumberAt]) -> list[str]:
    """The clause around every number; numbers with nothing between that ends a clause have the same one.

    Of "she makes $26 from lawns and $54 from juice" the second clause begins as the first one does.
    """
    cuts = [_WHEN.match(sentence).end()]  # type: ignore[union-attr]
    for earlier, later in pairwise(numbers):
        between = list(_BOUNDARY.finditer(sentence, earlier.end, later.start))
        cuts.append(between[-1].start() if between else cuts[-1])
    clauses: list[str] = []
    head = ""
    for number, start in zip(numbers, cuts, strict=True):
        lead = sentence[start:number.start]
        # "88 are ruins and 44 of those are unmanned": what those are stands in the clause before.
        if clauses and _OF_THOSE.match(sentence, number.end):
            head = clauses[-1] + lead
        elif clauses and ELLIPTIC.search(sentence[:number.start]):
            # What the clause before says of another one is meant of this one too.
            head = NAME.sub("", clauses[-1]) + lead
        elif (words_of(lead) - _CHOOSING and not _PARTICIPLE.match(lead)) or _SUBJECT.match(sentence, number.end):
            head = lead
        else:
            head += lead
        clauses.append(head + sentence[number.start:next((cut for cut in cuts if cut > start), len(sentence))])
    return clauses


YEAR_ASKED = re.compile(r"\b(?:which|what) year\b|^\W*when (?:did|was|were)\b", re.IGNORECASE)
"""What asks for a year."""
# Of a whole sentence: "Right now, Sara is 36 and her son is 12."
_WHEN = re.compile(r"(?:\W*(?:(?:right )?now|currently|today|at present|at the moment),)?", re.IGNORECASE)
# What chooses among the numbers of one story.
_CHOOSING = frozenset(map(stem, (
    "left", "total", "each", "more", "less", "fewer", "early", "late", "average", "highest", "lowest", "largest",
    "smallest", "longest", "shortest", "oldest", "youngest", "most", "least")))
MEAN = frozenset((stem("average"),))
"""The word for an average, as a question's words are kept."""
_DIFFERENT = frozenset(map(stem, ("more", "less", "fewer", "than", "exceed", "increase", "above", "below")))
