"""The letter of a choice, or the yes or no, that a text says."""

import re
from functools import lru_cache

from workings.answers.latex import plain
from workings.answers.sentences import sentences, tidy

TRUTHS = frozenset(("yes", "no", "true", "false"))
LETTERS = "ABCDEFGHIJ"
_OPTION = re.compile(r"(?:^|(?<=[\s,;]))(?:[(\[]?([A-J])[)\].:]|\(?([a-j])\))(?=\s*\S)", re.MULTILINE)
_HEDGE = (r"(?:(?:most|very|quite) likely|probably|likely|technically|most probably|clearly|definitely|simply|then"
          r"|therefore|thus|so|to be|either of)")
_LEAD = re.compile(rf"^[\s*_\"“]*(?:(?:{_HEDGE}|option|choice|answer|letter|is|the)\W+)*", re.IGNORECASE)
# "B", "(B)", "B.", "B, Mars", "B because …" at the beginning; not "A number".
_LETTER_FIRST = re.compile(
    r"[(\[]([A-Ja-j])[)\]]|([A-J])(?:[).\]:,;*\"]|\s*[-–—(]|\s+(?:because|since|as|is|and not|not"
    r"|with|which)\b|\W*$)")
_LETTER_SAID = re.compile(r"[(\[]([A-J])[)\]]|\b(?:option|choice|answer|letter)\s+(?:is\s+)?[*\"]*([A-J])(?![\w'’])"
                          r"|\*\*([A-J])\b|(?<![\w'’.])([B-HJ])(?=[.)]|\W*$)", re.IGNORECASE)
_SEVERAL = re.compile(r"(?<![\w'’])[(\[]?([A-J])[)\]]?[^\w()\[\]]{0,3}(?:,\s*(?:and|or)?|\s(?:and|or|&)|/)\s*(?:option "
                      r"|choice )?[(\[]?([A-J])(?![\w'’])")
_UNDECIDED = re.compile(
    r"\b(?:depends|not necessarily|can(?:not|['’]t) (?:say|be (?:determined|known))|impossible to (?:say|tell|know)"
    r"|unclear|unknown|not (?:known|clear|sure|certain)|neither|both)\b", re.IGNORECASE)
# "No" as an answer, and not as in "no evidence".
_NO = r"no(?=\W*$|[\"'”*_)]*\s*[.,;:!(–—-]|\s+(?:because|as|since|it|he|she|they|we|you|this|that|there|the|an?|not)\b)"
# "Yes or no" says neither.
_TRUTH = re.compile(rf"(?<![\w'’])(?<! or )(?:yes|true|false|{_NO})(?![\w'’]| or )", re.IGNORECASE)


@lru_cache(maxsize=256)
def options(question: str) -> dict[str, str]:
    """The choices that a question lists, by letter; empty with fewer than two.

    >>> options("Which is red? (A) Venus (B) Mars")
    {'A': 'Venus', 'B': 'Mars'}
    """
    marks: list[re.Match[str]] = []
    for mark in _OPTION.finditer(question):
        letter = (mark[1] or mark[2]).upper()
        # Begin again at each A: an example before the options may have letters, too.
        if letter == "A":
            marks = [mark]
        elif marks and len(marks) < len(LETTERS) and letter == LETTERS[len(marks)]:
            marks.append(mark)
    if len(marks) < 2:
        return {}
    ends = [*(mark.start() for mark in marks[1:]), len(question)]
    texts = [question[mark.end():end].strip() for mark, end in zip(marks, ends, strict=True)]
    # The last option ends with its line, or before the words that ask for an answer.
    texts[-1] = texts[-1].split("\n", 1)[0].strip()
    return {letter: text.rstrip(" ,;") for letter, text in zip(LETTERS, texts, strict=False)}


def option_letter(text: str, question: str) -> str:
    """The letter of the option that equals a text; "" without one, or with two equal options."""
    wanted = _words(text)
    letters = [letter for letter, option in options(question).items() if wanted and _words(option) == wanted]
    return letters[0] if len(letters) == 1 else ""


def choice_in(text: str, question: str = "") -> str | None:
    """The letter (upper case) that a text chooses, by itself or by an option's text; None for none and for several.

    >>> choice_in("(B) Paris"), choice_in("A or B"), choice_in("A number of people"), choice_in("D, 5%")
    ('B', None, None, 'D')
    """
    answer = _LEAD.sub("", tidy(plain(text)).replace("**", ""), count=1)
    several = _SEVERAL.search(answer)
    if several and several[1] != several[2]:
        return None
    if first := _LETTER_FIRST.match(answer):
        return (first[1] or first[2]).upper()
    # Each alternative of the pattern has a group, and only one of them matches.
    letters = {match[match.lastindex or 0].upper() for match in _LETTER_SAID.finditer(answer)}
    if not letters:
        answer_words = f" {_words(answer)} "
        option_words = {letter: _words(option) for letter, option in options(question).items()}
        letters = {letter for letter, words in option_words.items() if words and f" {words} " in answer_words}
    return letters.pop() if len(letters) == 1 else None


def truth_in(text: str) -> str | None:
    """Yes, no, true or false (lower case) if a text says only this one; else None.

    >>> truth_in("most likely No."), truth_in("It depends."), truth_in("no evidence of it"), truth_in("Yes and no.")
    ('no', None, None, None)
    """
    truths = {match[0].casefold() for match in _TRUTH.finditer(text)}
    is_undecided = _UNDECIDED.search(text.split("\n", 1)[0])
    return truths.pop() if len(truths) == 1 and not is_undecided else None


def first_truth(text: str) -> str | None:
    """The yes, no, true or false that a text begins with; None for another beginning."""
    opening = re.match(rf"\W*({'|'.join(sorted(TRUTHS))})(?=[\W_])", f"{text[:200].strip()} ", re.IGNORECASE)
    return truth_in(sentences(text[:500])[0]) if opening else None


def _words(text: str) -> str:
    return " ".join(re.findall(r"[^\W_]+|[$%/.+*-](?=\d)", re.sub(r"\b(?:the|an?)\b", " ", text.casefold())))
