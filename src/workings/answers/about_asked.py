"""What a sentence says of what its question asks: nothing of others, and what is asked for as a value."""

import re
from collections.abc import Sequence

from workings.answers.latex import plain
from workings.answers.main_clause import last_clause, without_lead, without_relative_clause
from workings.answers.numbers import parse_number
from workings.answers.question import (
    MEAN,
    YEAR_ASKED,
    asks_about,
    asks_how_many,
    asks_of,
    asks_total,
    counts_things,
    read_question,
    says_question,
)
from workings.answers.question_words import MAX_QUESTION, NumberAt, measure_asked, telling_words, words_of
from workings.answers.units import MONEY

# "Six – unlike a scorpion, which has 8.", "…; insects, in contrast, have six".
_CONTRAST = re.compile(r"(?:[,;]|\s[-–—])\s(?:unlike|in contrast (?:to|with)|as opposed to|compared (?:to|with))\b.*"
                       r"|[;,]\s[^;,]*,\s(?:in|by) (?:contrast|comparison),.*", re.IGNORECASE | re.DOTALL)
_IN_CONTRAST = re.compile(r",\s(?:(?:in|by) (?:contrast|comparison)|on the other hand),", re.IGNORECASE)
# "75% passed and 25% did not": the others.
_OTHERS = re.compile(r",?\s(?:and|while|but)\s(?:[^\W\d_]+\s){0,3}\W{0,3}\d[^,;=]*\s(?:did|do|does|was|were|had|have"
                     r"|has|is|are)(?:\snot|n['’]t)\W*$", re.IGNORECASE)
# "300 cones were sold on Sunday, for a weekend total of 540": what all of it is.
_IN_TOTAL = re.compile(r"(?<!^),?\s(?:for|making|bringing|giving)\b[^,;=]*\b(?:total|in all|altogether)\b[^,;=]*$",
                       re.IGNORECASE)
# "He will be 27, and his brother will be 14": somebody else.
_RELATIVE_OF_HIS = re.compile(r",?\s(?:and|while|but)\s(?:his|her|their)\s([^\W\d_]+)\s(?![A-Z])[^,;:=]*\d[^,;:=]*$")
# "Girls 4 × 40 = 160, boys 5 × 40 = 200".
_NEXT_EQUATION, _LABELLED = re.compile(r"[,;]\s(?:and\s)?"), re.compile(r"\W*([^\W\d_]{2,})[:\s]\D{0,3}\d")
_LISTED = re.compile(r"\d[^=]*(?:,|\band)\s[^=]*\d")
# It says whose the number is: "48 is what Ben has".
_OF_WHOM = re.compile(r"\d\W{0,3}\sis (?:what|how many|how much|the number) ([A-Z][a-z]+)\b")
# "Find a/b", "the value of x + y": an operation without words.
_EXPRESSION = re.compile(r"\b(?:find|value of|what is|compute|determine|evaluate|simplify|expand|factor)\s+\$?\s*"
                         r"((?:(?![a-z]{3})[^,.?$;:]){1,40}[-+*/^](?:(?![a-z]{3}|\sif\b)[^,.?$;:]){1,40})",
                         re.IGNORECASE)
_IN_HOW_MANY = re.compile(r"\b(?:in|after) how many ([a-z]+?)s?\b", re.IGNORECASE)
_RATE = re.compile(r"^\W*(?:each|every)\b|\d(?:[^\d,;=]*\s)?(?:per|each|every) [^\W\d_]+\W*$", re.IGNORECASE)
_RATE_ASKED = re.compile(r"\b(?:per|each|every|rate)\b", re.IGNORECASE)
_YEAR = re.compile(r"(?<![\d.,$€£])[12]\d{3}(?![\d%]|[.,]\d)")
_AVERAGE = re.compile(r"[,;] (?:or |for |with )?an? (?:average|mean) of (?:about )?\W{0,3}"
                      r"(?=\d[\d.]*+(?!,? and\b|, \d))")
# "Of the 308 rooms, 245 were taken and 63 were free."
_OF_ALL = re.compile(r"^\W*(?:out )?of (?:the|these|those|its|their) \d[\d,]*\s[a-z]+,\s(?=.*\d)", re.IGNORECASE)
_IN_BRACKETS = re.compile(r"\s\((?:not\b[^()]*|[^()]*\b(?:would|for (?:instance|example))\b[^()]*)\)")
_NUMBERS = re.compile(r"\d+")
# "Since she can't make a third of a dress, …": why it is rounded down.
_NO_PART = re.compile(r"^\W*(?:since|because|as)\b[^,]*\b(?:can(?:no|['’])t|cannot)\s(?!determine|tell|know|calculate"
                      r"|answer|say)[^,]*,\s(?=[^,]*\d)", re.IGNORECASE)
_THEN = re.compile(r"\s(?:before|until|till|by the time)\s[^,;:=]*$")
# Where the most of something is asked for, "at most 10" says it.
_MOST = re.compile(r"\b(?:most|maximum|(?:long|larg|great|high|farth|furth|bigg)est"
                   r"|how (?:many|much|far|long)\b[^?]*\bcan)\b", re.IGNORECASE)
_AT_MOST = re.compile(r"\b(?:at most|up to|no more than)\s(?=\W{0,3}\d)", re.IGNORECASE)
# "So some write -2, but …".
_SOME = re.compile(r"(?:^|,\s)(?:so\s)?(?:some|many|most|people|others)\b[^,;:=]*, but\s", re.IGNORECASE)
_ORDINAL = re.compile(r"(?<=\bfrom the )\d+(?:st|nd|rd|th)\b", re.IGNORECASE)
# "The maximum is 5, attained at x = 2": where it is.
_PLACE = re.compile(r"(?<=\d)\W{0,3}\s(?:attained |reached |achieved |which occurs |occurring )?"
                    r"(?:at|when|where|for)\s\W{0,2}[a-z]\s?=\s?[^,;=]*$")
_PLACE_ASKED = re.compile(r"\b(?:values? of \W?[a-z]\b(?!\(|\s*[-+*/^])|where|when|which \W?[a-z]\b"
                          r"|for what)", re.IGNORECASE)
_IS_NUMBER = re.compile(r"\b(?:is|are|equals)\s\W{0,3}\d[\d.,/]*\W*$")
_WHICH = re.compile(r"\bwhich (day|week|month|year|page|row|floor|step|level|round|number)\b", re.IGNORECASE)
# "In other words, it cost ten times as much as the yoghurt."
_TIMES_AS = re.compile(r"\b(?:[a-z]+(?:-[a-z]+)?|\d[\d.]*) times as (?=[a-z]+ as\b)")
# "…, but the question only asks how much he spent, which is 66 dollars."
_QUESTION_ASKS = re.compile(r"^.*\bquestion (?:only |just )?asks (?:only |just )?(?:for\b|how\b|about\b)[^;=]*, which "
                            r"(?:is|was|equals) (?=\W{0,3}\d)", re.IGNORECASE)
# "six 1-hour tanks", "three $100 bills": of which kind they are.
_COUNTED_IN_WORDS = re.compile(r"\b(two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)(\**) "
                               r"(?:\$\d[\d,.]*|\d+-[a-z]+) (?=[a-z])", re.IGNORECASE)
# "That is 80 trees — if 5 more grew, he'd have 85."
_IF_BEHIND = re.compile(r"(?<=\w)(?:\s?[–—]|;|\s-)\s?if\s[^;–—]*(?:\bwould|['’]d)\b[^;–—]*$")
_DENIAL = re.compile(r"\b(?:not|without|fail\w*|never|remain\w*|left|rest|other)\b|n['’]t\b", re.IGNORECASE)
# "I can't give advice on that, but …": it is answered all the same.
_ANSWERED = re.compile(
    r"^\W*(?:i['’]m sorry, (?:but )?)?i (?:can(?:no|['’])t|am unable to|['’]m unable to|can not) "
    r"(?:give|offer|provide|help|assist|browse|access|recommend)\b[^;:=\d]*?, but\s", re.IGNORECASE)


def about_asked(sentence: str, question: str) -> str:
    """A sentence without what it says of others, and with a name for the expression that is asked for.

    >>> about_asked("Spiders have 8 legs, unlike insects, which have 6.", "How many legs has a spider?")
    'Spiders have 8 legs'
    >>> about_asked("So x + y = 12.", "Find x + y if …")
    'So value = 12.'
    """
    *_, last_cell = sentence.strip("| ").split("|")
    if sentence.startswith("|") and "=" in sentence and parse_number(last_cell.strip(" *")):
        sentence = last_cell  # "| Book | 1/4 × 72 = 18 | $54 |"
    if asks_how_many(question):
        sentence = _ORDINAL.sub("that", sentence)
    if unit := _IN_HOW_MANY.search(question):
        times = re.findall(rf"\b(?:in|after)\b\W{{1,3}}(\d[\d,.]*\s{unit[1]})", sentence, re.IGNORECASE)
        sentence = f"It is {times[0]}." if len(times) == 1 else sentence
    head, _, check = sentence.partition(": ")
    left, _, right = check.rpartition("=")
    given, said, operands, result = (set(_NUMBERS.findall(text)) for text in (question, head, left, right))
    if left and _IS_NUMBER.search(head) and "=" not in head and result <= given and said & operands:
        sentence = head  # "The number is 20: (20 - 7) × 2 = 26."
    sentence = _NO_PART.sub("", _IN_BRACKETS.sub("", sentence), count=1)
    # "At the end of those 4 hours, he is 45 miles from home", "It lasts 10 hours before it reaches 20%".
    for rest in (without_lead(sentence), _THEN.sub("", sentence, count=1)):
        left_out, said = (set(_NUMBERS.findall(text)) for text in (sentence.replace(rest, ""), rest))
        if left_out and left_out <= given and not said <= given:
            sentence = rest
    sentence = _SOME.sub(", ", sentence)
    sentence = _OF_ALL.sub("", sentence)
    if not _PLACE_ASKED.search(question):
        sentence = _PLACE.sub("", sentence)
    if not re.search(r"\b(?:if|would)\b", question, re.IGNORECASE):
        sentence = _IF_BEHIND.sub("", sentence)
    sentence = _QUESTION_ASKS.sub("It is ", sentence)
    sentence = _COUNTED_IN_WORDS.sub(r"\1\2 ", sentence)
    if "times" not in question:
        sentence = _TIMES_AS.sub("as ", sentence)
    sentence = _of_two_clauses(sentence, question)
    sentence = without_which(sentence, question)
    if "undefined" in question:  # where something is
        sentence = sentence.replace("undefined", "special")
    if _MOST.search(question):
        sentence = _AT_MOST.sub("", sentence)
    return _without_others(_ANSWERED.sub("", value_for_asked(sentence, question)), question)


def _of_two_clauses(sentence: str, question: str) -> str:
    """The one of two clauses that says what is asked, where the other one is an equation; else both.

    >>> _of_two_clauses("So 33 = 3 · 11, and its largest prime factor is 11.", "Find the largest prime factor of 33.")
    'its largest prime factor is 11.'
    >>> _of_two_clauses("So the maximum is 5, and f(2) = 5.", "Find the maximum of f.")
    'So the maximum is 5'
    """
    told, _, more = sentence.rpartition(", and ")
    if "=" in told and "=" not in more and not asks_how_many(question) and says_question(more, question):
        return more
    return told if re.match(r"\W*[a-z]\([^()]*\)\s*=", more) and _IS_NUMBER.search(told) else sentence


def without_which(text: str, question: str) -> str:
    """A text without the word that is asked for before a number: "Day 8" where a question asks on which day."""
    which = _WHICH.search(question)
    return re.sub(rf"\b{which[1]} (?=\d)", "", text, flags=re.IGNORECASE) if which else text


def is_said_of_another(sentence: str, question: str) -> bool:
    """Whether a sentence says whose number it is, of somebody in the question whom it does not ask about."""
    whose = _OF_WHOM.search(sentence)
    return whose is not None and not asks_about(whose[1], question) and whose[1] in question


def is_rate(sentence: str, question: str) -> bool:
    """Whether a sentence says what one of several things takes or has, where the question asks for no rate."""
    asking = re.split(r"(?<=[.?!])\s", question.strip())[-1]
    return asking.endswith("?") and "=" not in sentence and _RATE.search(sentence) is not None and (
        not _RATE_ASKED.search(asking))


def year_asked(sentence: str, said: str, question: str) -> str:
    """The first year of a sentence that says another number, where a question asks for a year; else empty."""
    if not YEAR_ASKED.search(question[-MAX_QUESTION:]) or _YEAR.search(said):
        return ""
    return next((year[0] for year in _YEAR.finditer(sentence) if year[0] not in question), "")


def average_asked(sentence: str, numbers: Sequence[NumberAt], question: str) -> str:
    """The average that a sentence adds ("…, an average of 3.5"), where a question asks for one; else empty."""
    asked = read_question(question)
    average = _AVERAGE.search(sentence) if MEAN & (asked.counted | asked.other) else None
    return next((number.text for number in numbers if number.end > average.end()), "") if average else ""


def is_in_another(said: str | None, question: str) -> bool:
    """Whether a number is in another measure than the one that is asked for, or money where things are counted.

    A rate of the measure that is asked for is in none.
    """
    number = parse_number(said or "") if question else None
    own = "" if number is None else number.unit.measure
    measure = measure_asked(question)
    if not own or measure:
        return bool(own) and own.partition("/")[0] != measure
    return own in MONEY and counts_things(question) and words_of(said or "").isdisjoint(words_of(question))


def _without_others(sentence: str, question: str) -> str:
    if not _DENIAL.search(question):
        sentence = _OTHERS.sub("", sentence)
    equations = _NEXT_EQUATION.split(sentence)
    if all("=" in each for each in equations) and len(asked := [each for each in equations if (
            label := _LABELLED.match(each)) and asks_of(label[1], question)]) == 1:
        sentence = asked[0]
    relative = _RELATIVE_OF_HIS.search(sentence)
    if relative and not asks_of(relative[1], question) and re.search(r"\d", sentence[:relative.start()]):
        sentence = sentence[:relative.start()]
    # Reading words takes time, and most sentences say nothing of others.
    if (told := _IN_TOTAL.sub("", sentence)) != sentence and says_question(told, question) and not (
            asks_total(question) or _LISTED.search(last_clause(told) or told)):
        sentence = told
    for cut in (lambda text: _CONTRAST.sub("", text), without_relative_clause):
        rest = cut(sentence)
        if rest != sentence and re.search(r"\w", rest) and (
                set(telling_words(sentence)) & set(telling_words(question)) <= set(telling_words(rest))):
            sentence = rest
    return _IN_CONTRAST.sub("", sentence)


def value_for_asked(sentence: str, question: str) -> str:
    """A sentence in which the expression that a question asks for is called a value, where it is equal to something.

    >>> value_for_asked("i^23 = i^3 = -i", "Simplify i^{23}.")
    'value = i^3 = -i'
    """
    asked = _EXPRESSION.search(plain(question)) if question else None
    if asked is None or not re.search("[a-z]", asked[1]):
        return sentence
    written = r"\s*".join(re.escape(each) for each in asked[1] if not each.isspace())
    return re.sub(rf"(?<![\w)])(?<![-+*/^]\s)(?<![-+*/^]){written}(?=\s*=)", "value", plain(sentence))
