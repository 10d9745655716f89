"""A user's text about runs: each number can name its source in a comment behind it, and is then checked.

    98.8<!-- from runs/with-steps/eval/items/eval_summary.json: scorecard.overall.mean as percent -->

The comments are removed from the published text; `claims.json` has their content.
"""

import re
from collections.abc import Callable
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evidence.claims import UNITS, Claim, ClaimSource, agrees, format_number, numbers_in, pointer_to, resolve

WRITEUP = "WRITEUP.md"
_SOURCE = re.compile(r"(?<![ \t])[ \t]*<!--\s*from\s+([^\s:]+)(?::(\d+))?:\s+(\S+?)(?:\s+as\s+(\w+))?\s*-->")


def published(text: str, read: Callable[[str, int], Any]) -> tuple[str, list[Claim]]:
    """The text without its comments, and a claim for every number that names its source.

    Args:
        text: Markdown.
        read: gives the JSON value of a file of the pack (and of one of its lines, from 1; 0 for the whole file).

    Raises:
        RequestError: an invalid source, or a number that is not the value of its source.
    """
    parts: list[str] = []
    claims: list[Claim] = []
    end = length = 0
    for match in _SOURCE.finditer(text):
        # Other comments go as well: they are notes of the writer, and nobody would look for them in a published text.
        before = _without_comments(text[end:match.start()])
        parts.append(before)
        length += len(before)
        claims.append(_claim("".join(parts), match, read))
        end = match.end()
    parts.append(_without_comments(text[end:]))
    return "".join(parts), claims


def _without_comments(text: str) -> str:
    # No pattern: with many openings and no end, each opening would search the whole rest of the text.
    parts, at = list[str](), 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        parts.append(text[at:begin])
        at = end + 3
    return "".join([*parts, text[at:]])


def words_in(text: str) -> int:
    """Number of words, as `wc -w` counts them."""
    return len(text.split())


def _claim(before: str, match: re.Match[str], read: Callable[[str, int], Any]) -> Claim:
    file, line, place, unit = match.group(1), int(match.group(2) or 0), match.group(3), match.group(4) or "number"
    # The number stands right before its comment, so the whole text need not be searched once for each claim.
    tail = before[-200:]
    # Between number and comment only a percent sign, emphasis or spaces may stand, else the comment is about other
    # words.
    numbers = [(at, number) for at, number in numbers_in(tail) if not tail[at + len(number):].strip(" %*_\u00a0")]
    if not numbers:
        raise RequestError(f"{WRITEUP}: {match.group(0).strip()}", "a number in front of the comment",
                           "98.8<!-- from FILE: PLACE as percent -->")
    at, number = numbers[-1]
    if unit not in UNITS:
        raise RequestError(f"{WRITEUP}: unit {unit!r}", f"one of {', '.join(UNITS)}", "percent")
    # The writer's rounding is kept: as many digits as stand there are compared.
    digits = len(number.rpartition(".")[2]) if "." in number else 0
    source = ClaimSource(file=file, pointer=pointer_to(*place.split(".")), line=line)
    try:
        value = resolve(read(file, line), source.pointer)
    except RecordError as error:
        raise RequestError(f"{WRITEUP}: {file}: {place} ({error})", "a value of the pack",
                           "a file as `workings pack --dry-run` lists it") from None
    if not agrees(number, value, unit, digits):
        right = format_number(value, unit, digits) if isinstance(value, int | float) else str(value)[:60]
        raise RequestError(f"{WRITEUP}: {number}, from {file}: {place}", f"{right}, which is what stands there", right)
    # An offset in the published text, in which this comment and all before it are gone.
    return Claim(document=WRITEUP, at=len(before) - len(tail) + at, text=number, source=source, unit=unit,
                 digits=digits)
