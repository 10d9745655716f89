"""Numbers in texts, each with its source: `claims.json` of a pack.

A claim says: at this place of this document stands this number; it is that value of that file of the record, in this
unit, rounded to this many digits. So a number that somebody edits, in the text or in the record, is found by a machine.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workings.errors import RecordError

CLAIMS = "claims.json"
SCHEMA = "claims/1"
UNITS: dict[str, float] = {"number": 1.0, "percent": 100.0, "points": 100.0, "thousands": 1e-3, "millions": 1e-6,
                           "minutes": 1 / 60, "hours": 1 / 3600, "KiB": 2.0**-10, "MiB": 2.0**-20, "GiB": 2.0**-30,
                           "below": 1.0}
"""Factor of each unit, by which a source's value is multiplied before it is rounded. `below` is said of 0.001
alone: the value is smaller, as in "p < 0.001"."""
SMALL_P = "0.001"
"""Number that a p value is said to be below."""
CONSTANTS = {"95": "the confidence level of every interval"}
"""Numbers that are not results and need no source."""
# A float has 15 to 17 digits; more in a format string would only cost time.
MAX_DIGITS = 12

_NUMBER = re.compile(r"(?<![\w./#@:,-])(?:(?<!\S)[+\-\u2212]|(?<=\()[+\-\u2212]|)\d+(?:[,\u202f]\d{3})*(?:\.\d+)?"
                     r"(?:e[+-]?\d{1,3})?(?!\w|\.\d|[,\u202f]\d{3})")
# Code, comments, drawings, quoted answers, addresses and dates: numbers in them are not results.
_ENCLOSED = {"code": re.compile("```"), "comment": re.compile("-->"),
             "drawing": re.compile("</(?:style|svg|script|pre)>"), "section": re.compile("</section>"),
             "kicker": re.compile("</p>")}
"""Pattern of the end of a skipped part, by the group of `_SKIPPED` that finds its beginning."""
_SHORT = re.compile(r"`[^`\n]*`|<[^<>]*>|https?://\S+|&#?\w+;|\b\d{4}-\d\d-\d\d\b")
_SKIPPED = re.compile(
    r"(?P<code>```)|(?P<comment><!--)|(?P<drawing><(?:style|svg|script|pre)\b)"
    r"|(?P<section><section aria-labelledby=\"(?:samples|commands)\">)|(?P<kicker><p class=\"kicker\">)|"
    + _SHORT.pattern)


@dataclass(frozen=True, kw_only=True)
class ClaimSource:
    """Source of a number."""

    file: str
    """Path in the pack."""
    pointer: str
    """RFC 6901, e.g. `/scorecard/overall/mean`."""
    line: int = 0
    """Line of a JSON-lines file, from 1; 0 for a JSON file."""

    def to_json(self) -> dict[str, Any]:
        """JSON object of the source; without a line for a JSON file."""
        value: dict[str, Any] = {"file": self.file, "pointer": self.pointer}
        return value | {"line": self.line} if self.line else value


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One number in a document."""

    document: str
    at: int
    """Offset in characters."""
    text: str
    """The number in the document."""
    source: ClaimSource
    unit: str
    digits: int
    """Digits behind the point."""

    def to_json(self) -> dict[str, Any]:
        """A row of `claims.json`."""
        return {"document": self.document, "at": self.at, "text": self.text, "source": self.source.to_json(),
                "as": self.unit, "digits": self.digits}


class ClaimedText:
    """Builder of a document together with its claims."""

    def __init__(self, document: str) -> None:
        self.document = document
        self.claims: list[Claim] = []
        self._parts: list[str] = []
        self._length = 0

    def say(self, text: str) -> "ClaimedText":
        """Add text without numbers of its own."""
        self._parts.append(text)
        self._length += len(text)
        return self

    def number(self, value: float, source: ClaimSource, unit: str = "number", digits: int = 0, *,
               signed: bool = False) -> "ClaimedText":
        """Add a number with its source."""
        text = format_number(value, unit, digits, signed=signed)
        self.claims.append(Claim(document=self.document, at=self._length, text=text, source=source, unit=unit,
                                 digits=digits))
        return self.say(text)

    @property
    def text(self) -> str:
        """The document so far."""
        return "".join(self._parts)


def format_number(value: float, unit: str, digits: int, *, signed: bool = False) -> str:
    """Text of a value: in the unit, rounded, thousands with commas."""
    return format(value * UNITS[unit], f"{'+' if signed else ''},.{digits}f")


def agrees(text: str, value: Any, unit: str, digits: int) -> bool:
    """Whether a number in a text is this value in this unit at this many digits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    if unit == "below":
        # With any other number the claim would hold of values that nobody would write so.
        return text == SMALL_P and value < float(SMALL_P)
    # Powers of ten are compared as they are formatted: as plain decimals a tiny p value would be zero.
    if "e" in text:
        return text == format(value * UNITS[unit], f".{digits}e")
    # Pages group digits with a thin space and set a real minus sign; both mean the same number.
    shown = text.replace(",", "").replace("\u202f", "").replace("\u2212", "-").removeprefix("+")
    return shown == format_number(value, unit, digits).replace(",", "")


def resolve(value: Any, pointer: str) -> Any:
    """Value at an RFC 6901 pointer in a JSON value. Raises `RecordError`."""
    if pointer and not pointer.startswith("/"):
        raise RecordError(f"not a JSON pointer: {pointer[:80]!r}")
    for part in pointer.split("/")[1:]:
        # In this order, as RFC 6901 asks: `~01` means `~1` and not a slash.
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise RecordError(f"nothing at {pointer[:80]!r}")
    return value


def pointer_to(*names: str) -> str:
    """RFC 6901 pointer to nested keys."""
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in names)


def numbers_in(text: str) -> Iterator[tuple[int, str]]:
    """Numbers in a text with their offsets; code, comments, tags, drawings and addresses are skipped."""
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
            # Looked for once: each of a thousand openings would search the whole rest of the text in vain.
            if closing is None:
                unclosed.add(match.lastgroup)
        skipped = closing or (_SHORT.match(text, match.start()) if match.lastgroup else match)
        at = skipped.end() if skipped else match.start() + 1
        if skipped:
            yield match.start(), at


def unsourced(document: str, text: str, claims: list[Claim]) -> list[str]:
    """Numbers of a document without a claim, except constants."""
    known = {claim.at for claim in claims if claim.document == document}
    return [number for at, number in numbers_in(text) if at not in known and number not in CONSTANTS]


def claims_json(claims: list[Claim]) -> dict[str, Any]:
    """The contents of `claims.json`."""
    ordered = sorted(claims, key=lambda claim: (claim.document, claim.at))
    return {"schema": SCHEMA, "claims": [claim.to_json() for claim in ordered]}


def parse_claims(value: Any) -> list[Claim]:
    """Read a `claims.json`. Raises `RecordError`."""
    if not isinstance(value, dict) or set(value) != {"schema", "claims"} or value["schema"] != SCHEMA \
            or not isinstance(value["claims"], list):
        raise RecordError(f"{CLAIMS}: not the keys of {SCHEMA}")
    return [_claim(row, number) for number, row in enumerate(value["claims"], start=1)]


def _claim(row: Any, number: int) -> Claim:
    source = row.get("source") if isinstance(row, dict) else None
    if not isinstance(source, dict) or set(row) != {"document", "at", "text", "source", "as", "digits"} \
            or not {"file", "pointer"} <= set(source) <= {"file", "pointer", "line"}:
        raise RecordError(f"{CLAIMS}: claim {number} does not have its keys")
    texts = (row["document"], row["text"], row["as"], source["file"], source["pointer"])
    counts = (row["at"], row["digits"], source.get("line", 0))
    # `type` is asked for counts, because `True` would pass as an int.
    if not all(isinstance(text, str) for text in texts) or row["as"] not in UNITS \
            or not all(type(count) is int and count >= 0 for count in counts) or row["digits"] > MAX_DIGITS:
        raise RecordError(f"{CLAIMS}: claim {number} has a value of a wrong kind")
    return Claim(document=row["document"], at=row["at"], text=row["text"], unit=row["as"], digits=row["digits"],
                 source=ClaimSource(file=source["file"], pointer=source["pointer"], line=source.get("line", 0)))
