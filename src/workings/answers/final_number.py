"""The number of a sentence: in bold, after its last equals sign, or its last one."""

import re
from functools import lru_cache
from itertools import pairwise

from workings.answers.latex import plain, spaced_digits
from workings.answers.number_words import WORDS
from workings.answers.numbers import NumberAt, equal_numbers, names_a_value, numbers_in, parse_number, parse_words
from workings.answers.sentences import sentences

MAX_SENTENCE = 2_000
MAX_SENTENCES = 40
"""Sentences to read at the end of a text."""
_DIGIT = re.compile(r"[\d¼-¾⅐-⅞]")
# "$5$" is mathematics, and "$5 and $7" is money.
_MATH = re.compile(r"(?<!\\)\$([^$]*)(?<!\\)\$(?!\d)")
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
# A reason or a contrast follows.
_REASON = re.compile(
    r"[\s,;(]+(?:because|since|given that|as (?:he|she|it|they|we|there)\b|where|rather than|instead of"
    r"|(?:but |and )?not|never|except|than|e\.g\.|for example)\b.*", re.IGNORECASE | re.DOTALL)
# A sentence that supposes, denies or asks says no answer.
_NO_STATEMENT = re.compile(
    r"\W*(?:suppose|assume)\b|.*\?\W*$|.*\b(?:(?:ca|is|are|was)n['’]t|cannot|not enough)\b", re.IGNORECASE | re.DOTALL)
_ASIDE = re.compile(
    r"\W*(?:(?:let['’]?s |to |we can |you can )?(?:check|verif|double[- ]check|note\b|remember|hint|source)"
    r"|p\.?s\b|if you\b|feel free|let me know)", re.IGNORECASE)
_OPERATOR_BEFORE = re.compile(r"[√^±<>≤≥]\s*$|[\d\w)]\s?[+*×·÷]\s*$|[a-z]\s?-\s*$|\b(?:log|ln|sin|cos|tan)\s?\(?$")
_OPERATOR_AFTER = re.compile(r"\s?[√^!](?!\s|$)|\s*[+*×·÷/]\s*[\da-z(]")
# Two numbers joined by one of these are several answers, or the ends of a range.
_JOINED = re.compile(r"\s?(?:[^\W\d_]+\s){0,3}?(?:or|to|and|nor)\s\$?|\s?[-–—]\s?|, ")
_DATE = re.compile(r"[0-3]?\d, [12]\d{3}")
_ONE_WORD = "|".join(sorted(WORDS, reverse=True))
_IN_WORDS = re.compile(
    rf"(?<![\w-])(?<!no )(?!one of\b)(?:{_ONE_WORD})\b(?:(?:[ -]|,? and )(?:{_ONE_WORD})\b)*(?![\w-])", re.IGNORECASE)
_LEADS_IN = re.compile(
    r"\b(?:is|are|was|were|so|that|and|have|get|gives|then|thus|hence|therefore|of|be|total)\b|[:;]|,\s", re.IGNORECASE)


def final_number(text: str) -> str:
    """The number that the last sentence with a number says; "" if that sentence says several side by side.

    >>> final_number("3 + 4 = 7 apples for 2 people."), final_number("He has 3 or 4."), final_number("It occurs twice.")
    ('7', '', 'twice')
    """
    first, *later = sentences(text)[-MAX_SENTENCES:] or [""]
    statements = [first, *(sentence for sentence in later if not (_ASIDE.match(sentence) or sentence.endswith("?")))]
    with_digits = [sentence for sentence in statements if _DIGIT.search(sentence)]
    if not with_digits:
        return next(filter(None, map(_number_in_words, reversed(statements))), "")
    in_bold = [sentence for sentence in with_digits if any(parse_number(bold) for bold in _BOLD.findall(sentence))]
    return sentence_number((in_bold or with_digits)[-1]) or ""


@lru_cache(maxsize=256)
def sentence_number(sentence: str) -> str | None:
    """The number that a sentence says in digits, else in words; None if it says none, or several side by side."""
    sentence = _MATH.sub(r"\1", spaced_digits(plain(sentence[-MAX_SENTENCE:])))
    numbers = numbers_in(sentence)
    if _NO_STATEMENT.match(sentence):
        return None
    if not numbers:
        return _number_in_words(sentence) or None
    bold_spans = [match.span(1) for match in _BOLD.finditer(sentence)]
    in_bold = [one for one in numbers if any(start <= one.start and one.end <= end for start, end in bold_spans)]
    equals = sentence.rfind("=")
    if equals >= 0 and (not in_bold or in_bold[-1].start < equals):
        return _right_side(sentence, equals, [one for one in numbers if one.start > equals])
    reason_start = len(_REASON.sub("", sentence, count=1))
    answers = in_bold or [one for one in numbers if one.end <= reason_start]
    # "5 apples on the 3rd day": an ordinal is the answer only without another number.
    cardinals = [one for one in answers if not re.match("(?:st|nd|rd|th)", sentence[one.end:])]
    answers = cardinals or answers
    if not answers or answers[-1].number is None or _is_open(sentence, numbers, answers[-1]):
        return None
    return answers[-1].text


def _right_side(sentence: str, equals: int, after: list[NumberAt]) -> str | None:
    """The first of the numbers after the equals sign; None for an equation with unknowns, as `x + 2y = 7`."""
    left = sentence[:equals].strip(" *$")
    if not (names_a_value(_LEADS_IN.split(left)[-1]) or names_a_value(left)):
        return None
    # Only signs such as `$` may come before it, no word and no root.
    if not after or re.search(r"[^\W\d_]{2}|[({\[±√]", sentence[equals + 1:after[0].start].replace("Rs", "")):
        return None
    return None if after[0].number is None or _is_open(sentence, after, after[0]) else after[0].text


def _is_open(sentence: str, numbers: list[NumberAt], chosen: NumberAt) -> bool:
    """Whether a number is part of an expression, or joined with the one next to it: "3 or 4", "3 to 4"."""
    if _OPERATOR_BEFORE.search(sentence[:chosen.start][-12:]) or _OPERATOR_AFTER.match(sentence, chosen.end):
        return True
    index = numbers.index(chosen)
    for earlier, later in pairwise(numbers[max(0, index - 1):index + 2]):
        between = sentence[earlier.end:later.start].replace("*", "")
        if not between.strip():  # "12 12 12"
            return True
        if not _JOINED.fullmatch(between) or _DATE.fullmatch(sentence[earlier.start:later.end]):
            continue
        if earlier.number is None or later.number is None or not equal_numbers(earlier.number, later.number):
            return True
    return False


def _number_in_words(sentence: str) -> str:
    """The last number in words of a sentence; "one" only without another."""
    said = [words for words in reversed(_IN_WORDS.findall(sentence)) if parse_words(words)]
    return next((words for words in said if words.casefold() != "one"), said[0] if said else "")
