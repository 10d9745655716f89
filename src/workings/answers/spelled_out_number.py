"""The number that a conclusion says in words and not in digits: "So she has thirty-eight stickers"."""

import re
from collections.abc import Callable
from fractions import Fraction

from workings.answers.main_clause import VERBS_OF_RESULT
from workings.answers.number_words import WORDS, InWords, read_words
from workings.answers.numbers_in_sentence import CIRCUMSTANCE
from workings.answers.sentences import is_conclusion, without_reason
from workings.answers.states_a_result import states_no_result

_SAYS = re.compile(rf"\b(?:{VERBS_OF_RESULT}|that s|needs?|takes?|there are|left with|with|total of)"
                   r"(?: (?:only|exactly|about|just|simply|a total of|now))?$")
_NOT_PLAIN = re.compile(r"\b(?:not|no|or|nor|never|either|if|whether|than)\b|n['’]t\b|\?", re.IGNORECASE)
_NONE_LEFT = re.compile(r"\b(?:has|have|are|is|with|leaving)\s(?:no|zero)\s(?:[^\W\d_]+\s){0,3}(?:left|remaining)\b"
                        r"|\bnone (?:is|are) left\b", re.IGNORECASE)
_CONDITION = re.compile(r"^\W*if\b[^,]*,\s(?:then\s)?", re.IGNORECASE)
_DOZEN = {("a", "dozen"): 12, ("one", "dozen"): 12, ("half", "a", "dozen"): 6}
_WORD = re.compile(r"[^\W\d_]+")


def spelled_out_number(sentence: str, is_counted: Callable[[str], bool] = lambda word: False) -> str:
    """The number that a conclusion without digits says in words behind a verb; empty where it says none or several.

    Before a word that ``is_counted`` it needs no such verb.
    """
    if any(map(str.isdigit, sentence)):
        return ""
    sentence = without_reason(re.split(r"\b(?:that is|i\.e\.),\s", sentence)[-1])
    sentence = _CONDITION.sub("", sentence)
    if _NONE_LEFT.search(sentence):
        return "0"
    if _NOT_PLAIN.search(sentence) or states_no_result(sentence):
        return ""
    matches = list(_WORD.finditer(sentence))
    words = [match.group().casefold() for match in matches]
    runs, at = [], 0
    while at < len(words):
        begins = words[at] in WORDS or words[at] in ("a", "minus", "negative")
        number = _dozen(words[at:]) or (read_words(words[at:]) if begins else None)
        if number is not None:
            runs.append((at, number))
        at += number.taken if number is not None else 1
    if counted := [run for run in runs if any(map(is_counted, words[run[0] + run[1].taken:][:2]))]:
        runs = counted  # "six sides and eight angles"
    if len({number.value for _, number in runs}) == 1:  # "a dozen is twelve"
        runs = runs[-1:]
    if len(runs) == 2 and (coins := _in_coins(words, *runs)):
        return sentence[matches[runs[0][0]].start():matches[coins].end()]
    if len(runs) > 1:  # "nine dollars in two weeks"
        runs = [run for run in runs if not CIRCUMSTANCE.search(f"{' '.join(words[max(0, run[0] - 4):run[0]])} ")]
    if len(runs) != 1 or runs[0][1].value == 1:
        return ""
    begin, number = runs[0]
    words_after = words[begin + number.taken:begin + number.taken + 2]
    words_before = " ".join(words[max(0, begin - 4):begin])
    of_them = words_after == ["of", "them"] and words_before.endswith("there are")
    part_of = words_after[:1] == ["of"] and not of_them and number.value.denominator == 1
    concluded = _is_concluded(sentence, words_before) or (words_before == "in" and 1100 <= number.value < 2100)
    if part_of or not (not begin or _SAYS.search(words_before) or concluded or any(map(is_counted, words_after))):
        return ""
    return sentence[matches[begin].start():matches[begin + number.taken - 1].end()]


def _is_concluded(sentence: str, words_before: str) -> bool:
    return is_conclusion(sentence) and not CIRCUMSTANCE.search(f"{words_before} ") and not words_before.endswith(" of")


def _dozen(words: list[str]) -> InWords | None:
    """`a dozen` and `half a dozen`; "two dozen" is a number with its unit."""
    dozen_words = next((spelling for spelling in _DOZEN if tuple(words[:len(spelling)]) == spelling), ())
    return InWords(Fraction(_DOZEN[dozen_words]), len(dozen_words)) if dozen_words else None


def _in_coins(words: list[str], one: tuple[int, InWords], other: tuple[int, InWords]) -> int:
    """Place of the last word where two numbers are one amount, "ten dollars and fifty cents"; else 0."""
    behind = other[0] + other[1].taken
    between = words[one[0] + one[1].taken:other[0]]
    return behind if between == ["dollars", "and"] and words[behind:behind + 1] == ["cents"] else 0
