"""Numbers that the documentation quotes from result files, and whether they equal their source.

A quoted number is followed by a comment that names its file and its place in it, and a unit where the text writes it
in another one than the file::

    with steps 99.5 %<!-- from proof/quickstart.json: values.traces_accuracy as percent -->

The number is the last one before the comment on its line. It must be the source's value rounded to the digits that the
text shows. A place is a dotted path through the JSON; whole numbers are positions in a list.
"""

import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tools.generated import ROOT

SOURCES = ("proof/", "benchmarks/results/", "examples/runs/")
"""Folders whose JSON files may be quoted."""

UNITS = {"": Decimal(1), "percent": Decimal(100), "points": Decimal(100), "GiB": 1 / Decimal(2**30),
         "MiB": 1 / Decimal(2**20), "minutes": 1 / Decimal(60), "hours": 1 / Decimal(3600),
         "thousands": 1 / Decimal(1000), "millions": 1 / Decimal(10**6)}
"""What the source's value is multiplied with before it is compared."""

_QUOTE = re.compile(r"<!-- from (?P<file>[^\s:]+): (?P<place>[^\s]+)(?: as (?P<unit>\w+))? -->")
_NUMBER = re.compile(r"[-\u2212]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", flags=re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Quote:
    """One quoted number."""

    line: int
    written: str
    file: str
    place: str
    unit: str


def quotes(text: str) -> list[Quote]:
    """All quoted numbers of a page, fences left out. Raises `ValueError` for a comment without a number before it."""
    found = []
    fenced = False  # a comment inside a fence is an example of one
    for number, line in enumerate(text.splitlines(), start=1):
        fenced ^= line.lstrip().startswith("```")
        if fenced:
            continue
        for match in _QUOTE.finditer(line):
            before = re.sub(r"<!--.*?-->", "", line[:match.start()])
            written = _NUMBER.findall(before)
            if not written:
                raise ValueError(f"line {number}: no number before {match.group(0)}")
            found.append(Quote(line=number, written=written[-1], file=match["file"], place=match["place"],
                               unit=match["unit"] or ""))
    return found


def wrong(quote: Quote) -> str:
    """Empty if the number equals its source at the digits shown, else what is wrong."""
    if not quote.file.startswith(SOURCES):
        return f"{quote.file}: only files below {', '.join(SOURCES)} are quoted"
    if quote.unit not in UNITS:
        return f"unit {quote.unit!r}; there are: {', '.join(filter(None, UNITS))}"
    try:
        source = value_at(json.loads((ROOT / quote.file).read_text(encoding="utf-8"), parse_float=Decimal), quote.place)
    except (OSError, KeyError, IndexError, ValueError) as error:
        return f"{quote.file}: {quote.place}: {type(error).__name__}: {error}"
    if isinstance(source, bool) or not isinstance(source, int | Decimal):
        return f"{quote.file}: {quote.place} is {source!r}, not a number"
    shown = Decimal(quote.written.replace(",", "").replace("\u2212", "-"))
    value = Decimal(source) * UNITS[quote.unit]
    digit = Decimal((0, (1,), int(shown.as_tuple().exponent)))  # the last digit shown
    if abs(value - shown) * 2 > digit:
        return f"{quote.file}: {quote.place} is {value}, written as {quote.written}"
    return ""


def value_at(document: Any, place: str) -> Any:
    """The value at a dotted path, with + for a space. Raises `KeyError` or `IndexError` if there is none."""
    parts = place.replace("+", " ").split(".")
    while parts:
        # A key may have its own dots, as in a model's name.
        count = next((count for count in range(1, len(parts) + 1)
                      if isinstance(document, dict) and ".".join(parts[:count]) in document), 1)
        key, parts = ".".join(parts[:count]), parts[count:]
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document
