"""Completions that say nothing about a model: error messages, nothing at all, one text over and over, cut-off texts.

They are scored like any others, so a scorecard of them looks like that of a bad model. It is worked out from the sealed
completions whenever it is asked for, and is in no record.
"""

import re
from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

ERRORS_FROM = 0.1
"""Share of completions that look like error messages from which they are named; a model writes none."""
EMPTY_FROM = 0.5
"""Share of items without a completion, or with an empty one, from which they are named."""
SAME_FROM = 0.9
"""Share of completions that are one text from which it is named, where the expected answers are not one as well."""
CUT_OFF_FROM = 0.2
"""Share of completions that were cut off at the length limit from which they are named: a limit that is too low can
halve a score."""
MIN_COMPLETIONS = 10
"""Minimum completions for a warning: three equal answers are not a pattern."""
_KNOWN_BY = 400
"""First characters by which, with its length, a completion is known."""
_MAX_TEXTS = 1_000
"""Different texts that are counted at a time."""
_ERROR = re.compile(r"""[\s\[({"'*\#`<>!:]*(?:
    # "Error 429: …", "API error (…)", {"error": …}, "[ERROR] …"; "The error is 5%" is not one.
    (?:(?:api|https?|server|internal|request|client|fatal|runtime)[\s._]*)?
        (?:error|exception|traceback)\b["'\s]*(?:[:(\[\]\-=]|\d{3}\b|(?:code|occurred|calling|while|in)\b|$)
    # "openai.RateLimitError: …"
    | (?-i:[\w.]{1,80}(?:Error|Exception|Timeout))(?:[:(\s]|$)
    # "HTTP/1.1 503 …", "status code 500", "429 Too Many Requests"
    | (?:https?|status)(?:/[\d.]+)?\W*(?:code\W*)?[45]\d\d\b
    | [45]\d\d\s+(?:client|server|bad|not|too|internal|service|gateway|unauthorized|forbidden)\b
    | (?:html>\W*<?(?:head>)?\W*<?(?:title>)?\W*)?[45]\d\d\s+bad\ gateway
    | too\ many\ requests | rate\ limit | (?:internal\ )?server\ error | service\ unavailable | bad\ gateway
    | gateway\ time-?out | connection\ (?:refused|reset|error|aborted|timed\ out) | \w+\ timed\ out
    | unauthorized\b | access\ denied | forbidden\b | invalid\ (?:api\ )?key | (?:insufficient\ )?quota
    | overloaded\b | model\ (?:not\ found|is\ overloaded) | (?:cuda\ )?out\ of\ memory
    | failed\ to\ (?:generate|fetch|connect))""", re.IGNORECASE | re.VERBOSE)
# A solution that speaks of an error ("Error: I misread the question") continues; a message is short.
_LONGEST_MESSAGE = 2_000


@dataclass
class Suspicions:
    """Counts of suspicious completions of an evaluation, one prediction after the other."""

    completions: int = 0
    absent: int = 0
    empty: int = 0
    cut_off: int = 0
    errors: int = 0
    first_error: str = ""
    texts: Counter[tuple[str, int]] = field(default_factory=Counter)
    expected: Counter[str] = field(default_factory=Counter)

    def add(self, sample: dict[str, Any]) -> None:
        """Count one record."""
        self.completions += 1
        self.cut_off += bool(sample.get("truncated"))
        text = sample["completion"]
        # An object in place of the text says why none exists; a task that compares log likelihoods needs none.
        if not isinstance(text, str):
            self.absent += "error" in sample
            return
        if not text.strip():
            self.empty += 1
            return
        # `match`, because a message begins with the error; a solution may speak of one further on.
        if len(text) <= _LONGEST_MESSAGE and _ERROR.match(text):
            self.errors += 1
            self.first_error = self.first_error or text
        _count(self.texts, (text.strip()[:_KNOWN_BY], len(text.strip())))
        _count(self.expected, str(sample.get("gold"))[:_KNOWN_BY])

    def warning(self, name: str) -> str:
        """One sentence why they say nothing about a model, of an evaluation with this name; mostly empty."""
        return f"{name} says little about a model: {'; '.join(sentences)}." if (sentences := self.sentences()) else ""

    def sentences(self) -> list[str]:
        """Reasons why the completions say nothing about a model; empty without such reasons."""
        total = self.completions
        if total < MIN_COMPLETIONS:
            return []
        texts = []
        if self.errors >= ERRORS_FROM * total:
            texts.append(f"{_of(self.errors, total)} look like error messages, the first: {_quoted(self.first_error)}")
        if self.absent + self.empty >= EMPTY_FROM * total:
            texts.append(f"{_of(self.absent + self.empty, total)} are empty or missing")
        if self.cut_off >= CUT_OFF_FROM * total:
            texts.append(f"{_of(self.cut_off, total)} were cut off at the limit on new tokens")
        (text, _), times = max(self.texts.items(), key=itemgetter(1), default=(("", 0), 0))
        # Of questions that all have one answer a model may rightly say it each time.
        one_answer = max(self.expected.values(), default=0) >= SAME_FROM * total
        # Not where it was named already: one error message over and over is also one text.
        if times >= SAME_FROM * total and not texts and not one_answer:
            texts.append(f"{_of(times, total)} are the same text: {_quoted(text)}")
        return texts


def _count(counter: Counter[Any], key: object) -> None:
    counter[key] += 1
    if len(counter) > _MAX_TEXTS:
        # One of each is taken away (Misra and Gries): a text that is nearly all of them stays whenever it comes, and
        # its count falls short by at most a thousandth.
        for each in list(counter):
            counter[each] -= 1
            if counter[each] == 0:
                del counter[each]


def _of(count: int, total: int) -> str:
    return f"all {total:,} completions" if count == total else f"{count:,} of {total:,} completions"


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return f"\"{flat if len(flat) <= 60 else flat[:59] + '…'}\""
