"""The form of a completion, and the steps in it: whether it keeps to its form, and how much of its arithmetic holds."""

import re
from dataclasses import dataclass

from workings.data.equations.check import Equation, find_equations

CHANNEL = "channel"
"""The form of Gemma 4's thinking."""
_FORMS = {
    "tags": re.compile(r"\s*<reasoning>.*?</reasoning>\s*<answer>(?P<answer>.*?)</answer>\s*", re.DOTALL),
    "think": re.compile(r"\s*<think>.*?</think>(?P<answer>.*)", re.DOTALL),
    CHANNEL: re.compile(r"\s*<\|channel>thought\n.*?<channel\|>(?P<answer>.*)", re.DOTALL),
    "hashes": re.compile(r".*\n?####(?P<answer>[^\n]*+)\s*", re.DOTALL),
    "answer_only": re.compile(r"(?P<answer>[^\n]*+)\s*"),
}
_TAGS = re.compile(r"</?(?:reasoning|answer|think)>|####")
_CHANNEL_MARKS = re.compile(r"<\|channel>|<channel\|>")
FORMS = ("any", *_FORMS)
"""Expected forms; ``any``: no check."""


def keeps_form(text: str, form: str) -> bool:
    """Whether a completion has exactly this form: each part once, in order, nothing around it, an answer in it."""
    if form == "any":
        return True
    # No tag may come twice. With thousands of tags the pattern below would begin again at each of them.
    tags = (_CHANNEL_MARKS if form == CHANNEL else _TAGS).findall(text)
    if len(tags) != len(set(tags)):
        return False
    match = _FORMS[form].fullmatch(text)
    return match is not None and bool(match["answer"].strip())


def reasoning_text(text: str) -> str:
    """The text before the answer: inside the reasoning tags, before ``####`` or ``<answer>``; else all of it."""
    for opening, closing in (("<reasoning>", "</reasoning>"), ("<think>", "</think>"),
                             ("<|channel>thought\n", "<channel|>")):
        if opening in text:
            # Without a closing tag the rest is reasoning: the completion was cut off.
            return text.split(opening, 1)[1].split(closing, 1)[0]
    for mark in ("<answer>", "####"):
        if mark in text:
            return text.split(mark, 1)[0]
    return text


STEPS_VERSION = 2
"""Increased with every change of the checker; step validity of different versions is not comparable."""
MAX_CHARACTERS = 100_000
"""Maximum characters of a completion to check."""
MAX_SHOWN = 5
"""Maximum number of wrong equations that are kept with a completion."""


@dataclass(frozen=True, slots=True)
class StepCheck:
    """How many equations were worked out, how many hold, and the first few that do not, as written."""

    checked: int
    valid: int
    wrong: tuple[str, ...]


def checked_equations(text: str) -> list[Equation]:
    """The evaluated equations of a text, correct and wrong, in order."""
    return [equation for equation in find_equations(text[:MAX_CHARACTERS]) if equation.verdict != "not read"]


def check_steps(text: str) -> StepCheck:
    """Work out every equation of a text.

    >>> check_steps("7+5=12, carry 1; 4+2+1=8")
    StepCheck(checked=2, valid=1, wrong=('4+2+1=8',))
    """
    equations = checked_equations(text)
    wrong = [equation.written for equation in equations if equation.verdict == "wrong"]
    return StepCheck(len(equations), len(equations) - len(wrong), tuple(wrong[:MAX_SHOWN]))
