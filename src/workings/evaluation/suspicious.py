"""Completions that say nothing about a model: error messages and cut-off texts.

They are scored like any others, so a scorecard of them looks like that of a bad model. It is worked out from the sealed
completions whenever it is asked for, and is in no record.
"""

import re
from dataclasses import dataclass
from typing import Any

ERRORS_FROM = 0.1
"""Share of completions that look like error messages from which they are named; a model writes none."""
CUT_OFF_FROM = 0.2
"""Share of completions that were cut off at the length limit from which they are named: a limit that is too low can
halve a score."""
MIN_COMPLETIONS = 10
"""Minimum completions for a warning: three equal answers are not a pattern."""
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
    cut_off: int = 0
    errors: int = 0
    first_error: str = ""

    def add(self, sample: dict[str, Any]) -> None:
        """Count one record."""
        self.completions += 1
        self.cut_off += bool(sample.get("truncated"))
        text = sample["completion"]
        # `match`, because a message begins with the error; a solution may speak of one further on.
        if isinstance(text, str) and len(text) <= _LONGEST_MESSAGE and _ERROR.match(text):
            self.errors += 1
            self.first_error = self.first_error or text

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
        if self.cut_off >= CUT_OFF_FROM * total:
            texts.append(f"{_of(self.cut_off, total)} were cut off at the limit on new tokens")
        return texts


def _of(count: int, total: int) -> str:
    return f"all {total:,} completions" if count == total else f"{count:,} of {total:,} completions"


def _quoted(text: str) -> str:
    flat = " ".join(text.split())
    return f"\"{flat if len(flat) <= 60 else flat[:59] + '…'}\""
