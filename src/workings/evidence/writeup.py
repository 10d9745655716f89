"""A user's text about runs: each number can name its source in a comment after it, which the pack keeps.

    98.8<!-- from runs/with-steps/eval/items/eval_summary.json: scorecard.overall.mean as percent -->

Markdown does not show comments, so the published text names its sources itself, and `verify` looks each number up.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from workings.errors import RecordError, RequestError

WRITEUP = "WRITEUP.md"
UNITS: dict[str, float] = {"number": 1.0, "percent": 100.0, "points": 100.0, "thousands": 1e-3, "millions": 1e-6,
                           "minutes": 1 / 60, "hours": 1 / 3600, "KiB": 2.0**-10, "MiB": 2.0**-20, "GiB": 2.0**-30,
                           "below": 1.0}
"""Factor of each unit, by which a source's value is multiplied before rounding. `below` is only for 0.001:
the value is smaller, as in "p < 0.001"."""
SMALL_P = "0.001"
"""Bound of a p value that is given as "below"."""
CONSTANTS = {"95": "the confidence level of every interval"}
"""Numbers that are not results and need no source."""
Reader = Callable[[str, int], Any]
"""Gives the JSON value of a file of the pack, or of one of its lines, from 1; 0 for the whole file."""

_SOURCE = re.compile(r"<!--\s*from\s+([^\s:]+)(?::(\d+))?:\s+(\S+?)(?:\s+as\s+(\w+))?\s*-->")
_NUMBER = re.compile(r"(?<![\w./#@:,-])(?:(?<!\S)[+\-\u2212]|(?<=\()[+\-\u2212]|)\d+(?:[,\u202f]\d{3})*(?:\.\d+)?"
                     r"(?:e[+-]?\d{1,3})?(?!\w|\.\d|[,\u202f]\d{3})")
# Code, comments, tags, addresses and dates: numbers in them are not results.
_ENCLOSED = {"code": re.compile("```"), "comment": re.compile("-->")}
"""Pattern of the end of a skipped part, by the group of `_SKIPPED` that finds its beginning."""
_SHORT = re.compile(r"`[^`\n]*`|<[^<>]*>|https?://\S+|&#?\w+;|\b\d{4}-\d\d-\d\d\b")
_SKIPPED = re.compile(r"(?P<code>```)|(?P<comment><!--)|" + _SHORT.pattern)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A number of the text, and its source from the comment after it."""

    text: str
    """The number; empty if none precedes the comment."""
    at: int
    """Its offset in characters."""
    file: str
    """Path in the pack."""
    line: int
    """Line of a JSON-lines file, from 1; 0 for a JSON file."""
    place: str
    """Keys with dots between them."""
    unit: str

    @property
    def digits(self) -> int:
        """Digits after the point, as the writer rounded."""
        return len(self.text.rpartition(".")[2]) if "." in self.text else 0

    def problem(self, read: Reader) -> RequestError | None:
        """The error of the number or its source, and what to write instead; None if they agree."""
        if not self.text:
            return RequestError(f"{WRITEUP}: a source of {self.file} without a number", "a number in front of the "
                                "comment", "98.8<!-- from FILE: PLACE as percent -->")
        if self.unit not in UNITS:
            return RequestError(f"{WRITEUP}: unit {self.unit!r}", f"one of {', '.join(UNITS)}", "percent")
        try:
            value = resolve(read(self.file, self.line), self.place)
        except RecordError as error:
            return RequestError(f"{WRITEUP}: {self.file}: {self.place} ({error})", "a value of the pack",
                                "a file as `workings pack --dry-run` lists it")
        if agrees(self.text, value, self.unit, self.digits):
            return None
        right = format_number(value, self.unit, self.digits) if isinstance(value, int | float) else str(value)[:60]
        return RequestError(f"{WRITEUP}: {self.text}, from {self.file}: {self.place}",
                            f"{right}, which is what is there", right)


def claims_in(text: str) -> Iterator[Claim]:
    """Every number that names its source."""
    for match in _SOURCE.finditer(text):
        # The number directly precedes its comment, so there is no need to search the whole text.
        start = max(0, match.start() - 200)
        tail = text[start:match.start()]
        # Only a percent sign, emphasis or spaces may be between.
        numbers = [(at, number) for at, number in numbers_in(tail) if not tail[at + len(number):].strip(" %*_\u00a0")]
        at, number = numbers[-1] if numbers else (0, "")
        yield Claim(text=number, at=start + at, file=match[1], line=int(match[2] or 0), place=match[3],
                    unit=match[4] or "number")


def published(text: str, read: Reader) -> str:
    """The text without comments that are notes of the writer. Raises `RequestError` for a number that is wrong."""
    for claim in claims_in(text):
        if problem := claim.problem(read):
            raise problem
    return _without_comments(text, keep=_SOURCE)


def words_in(text: str) -> int:
    """Number of words without comments, as `wc -w` counts them."""
    return len(_without_comments(text).split())


def unsourced(text: str) -> list[str]:
    """Numbers that name no source, except constants."""
    known = {claim.at for claim in claims_in(text)}
    return [number for at, number in numbers_in(text) if at not in known and number not in CONSTANTS]


def agrees(text: str, value: Any, unit: str, digits: int) -> bool:
    """Whether a number in a text is this value in this unit at this many digits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    if unit == "below":
        # With any other number the claim would hold of values that are never written so.
        return text == SMALL_P and value < float(SMALL_P)
    # Powers of ten are compared as they are formatted: as plain decimals a tiny p value would be zero.
    if "e" in text:
        return text == format(value * UNITS[unit], f".{digits}e")
    # Texts group digits with a thin space and set a real minus sign; both mean the same number.
    shown = text.replace(",", "").replace("\u202f", "").replace("\u2212", "-").removeprefix("+")
    return shown == format_number(value, unit, digits).replace(",", "")


def format_number(value: float, unit: str, digits: int) -> str:
    """Text of a value: in the unit, rounded, thousands with commas."""
    return format(value * UNITS[unit], f",.{digits}f")


def resolve(value: Any, place: str) -> Any:
    """Value at keys with dots between them. Raises `RecordError`."""
    for name in place.split("."):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and len(name) < 10 and int(name) < len(value):
            value = value[int(name)]
        else:
            raise RecordError(f"nothing at {place[:80]!r}")
    return value


def numbers_in(text: str) -> Iterator[tuple[int, str]]:
    """Numbers in a text with their offsets; code, comments, tags and addresses are skipped."""
    # Blanks of the same length, so that offsets in the rest stay what they are in the text.
    parts, end = list[str](), 0
    for start, stop in _skipped(text):
        parts += (text[end:start], " " * (stop - start))
        end = stop
    return ((match.start(), match.group(0)) for match in _NUMBER.finditer("".join([*parts, text[end:]])))


def _skipped(text: str) -> Iterator[tuple[int, int]]:
    """Begin and end of each part of a text that is skipped."""
    at, unclosed = 0, set[str]()
    while match := _SKIPPED.search(text, at):
        at, closing = match.end(), None
        if match.lastgroup and match.lastgroup not in unclosed:
            closing = _ENCLOSED[match.lastgroup].search(text, at)
            # Search once: a thousand openings would each search the rest of the text.
            if closing is None:
                unclosed.add(match.lastgroup)
        skipped = closing or (_SHORT.match(text, match.start()) if match.lastgroup else match)
        at = skipped.end() if skipped else match.start() + 1
        if skipped:
            yield match.start(), at


def _without_comments(text: str, keep: re.Pattern[str] | None = None) -> str:
    # No pattern finds them: with many openings and no end, each opening would search the whole rest of the text.
    parts, at = list[str](), 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        kept = keep is not None and keep.fullmatch(text, begin, end + 3)
        parts.append(text[at:end + 3] if kept else text[at:begin])
        at = end + 3
    return "".join([*parts, text[at:]])
