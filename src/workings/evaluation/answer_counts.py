"""Counts of answers, distinct answers and cut-off completions, which tell what an accuracy is worth."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from workings.answers.numbers import parse_number
from workings.answers.texts import normalise_text
from workings.data.checking.run import mentions
from workings.evaluation.settings import answer_key
from workings.record.number_text import percent

CUT_OFF_FROM = 0.2
"""Share of completions that were cut off at the length limit, from which there is a warning."""
MIN_COMPLETIONS = 10
"""Completions that this warning needs at least."""
_KEY_CHARS = 200
"""Leading characters that identify an answer."""
_SEARCHED_CHARS = 20_000
"""Trailing characters of a completion that are searched for the expected answer."""
_TIMES = re.compile(r"\b(?:once|twice|thrice)\b", re.IGNORECASE)
_TIMES_AS_NUMBERS = {"once": "1", "twice": "2", "thrice": "3"}


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerCounts:
    """The answers of an evaluation, counted by value."""

    no_answer: float
    """Share of completions without a found answer."""
    unread: float
    """Share of completions without a found answer that contain the expected one."""
    distinct_answers: int
    """Number of different answers."""
    same_answer: float
    """Share of the completions that give the most frequent answer."""
    majority_accuracy: float
    """Accuracy of always giving the most frequent expected answer."""

    def text(self) -> str:
        """For humans, one line."""
        unread = f" ({percent(self.unread)} contain the expected one)" if self.unread else ""
        answers = f"{self.distinct_answers:,} different answers, the most frequent in {percent(self.same_answer)}"
        if self.distinct_answers == 0:
            answers = "no answer at all"
        elif self.distinct_answers == 1:
            answers = f"one answer in {percent(self.same_answer)}"
        return (f"no answer found in {percent(self.no_answer)}{unread}; {answers}; always giving the most frequent "
                f"expected answer would reach {percent(self.majority_accuracy)}")


@dataclass
class AnswerCounter:
    """Counts the answers of an evaluation, prediction by prediction."""

    completions: int = 0
    cut_off: int = 0
    unread: int = 0
    answers: Counter[object] = field(default_factory=Counter)
    expected: Counter[object] = field(default_factory=Counter)

    def add(self, sample: dict[str, Any]) -> None:
        """Count one line of the predictions."""
        self.completions += 1
        self.cut_off += bool(sample.get("truncated"))
        self.expected[answer_key(str(sample.get("gold"))[:_KEY_CHARS])] += 1
        if has_answer(sample):
            said = sample["extracted"] if isinstance(sample["extracted"], str) else sample["completion"]
            self.answers[answer_key(said[:_KEY_CHARS])] += 1
        else:
            self.unread += names_expected(sample)

    def warning(self, name: str) -> str:
        """Why the completions of the evaluation ``name`` say little about a model; empty if they do not."""
        if self.completions < MIN_COMPLETIONS or self.cut_off < CUT_OFF_FROM * self.completions:
            return ""
        share = "all" if self.cut_off == self.completions else f"{self.cut_off:,} of"
        return (f"{name} says little about a model: {share} {self.completions:,} completions were cut off at the limit "
                "on new tokens.")

    def counts(self) -> AnswerCounts:
        """The shares over all completions that were added (at least one)."""
        return AnswerCounts(no_answer=1 - self.answers.total() / self.completions,
                            unread=self.unread / self.completions, distinct_answers=len(self.answers),
                            same_answer=max(self.answers.values(), default=0) / self.completions,
                            majority_accuracy=max(self.expected.values()) / self.completions)


def has_answer(sample: dict[str, Any]) -> bool:
    """Whether a completion has an answer: one that a rule extracted, or any text if a judge scored it."""
    if "judge" in sample:
        return isinstance(sample["completion"], str) and bool(sample["completion"].strip())
    return isinstance(sample.get("extracted"), str)


def names_expected(sample: dict[str, Any]) -> bool:
    """Whether a completion without an answer contains the expected one: an upper bound of what the rules missed."""
    completion = sample.get("completion")
    if has_answer(sample) or not isinstance(completion, str):
        return False
    text = completion[-_SEARCHED_CHARS:]
    for expected in (str(sample.get("gold")), *sample.get("aliases", ())):
        number, words = parse_number(expected), normalise_text(expected)
        if number:
            with_numbers = _TIMES.sub(lambda match: _TIMES_AS_NUMBERS[match.group().casefold()], text)
            if mentions([with_numbers], number.value):
                return True
        elif words and re.search(rf"(?<!\w){re.escape(words)}(?!\w)", normalise_text(text)):
            return True
    return False
