"""Shared by all generators: an order that is the same on every machine, and evaluation items.

`random.Random` promises its stream only for `random()`; generators sort by SHA-256 instead, so that a seed names the
same data for good, on every machine and in every version of Python. Items are JSON lines with exactly the keys that
`workings eval --items` reads.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from workings.data.row_fields import lines_bytes
from workings.data.traces import Trace
from workings.record import atomic


def rank(*parts: object) -> bytes:
    """SHA-256 of the parts joined by `/`, as 32 bytes: sorting by it shuffles."""
    return hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()


@dataclass(frozen=True, kw_only=True)
class ItemRecord:
    """One question with a known answer; the evaluation never shows the answer to the model."""

    id: str
    prompt: str
    expected_answer: str
    section: str
    category: str
    difficulty: str


def as_item(trace: Trace) -> ItemRecord:
    """The question of a trace with its answer as the expected one; the steps stay hidden."""
    return ItemRecord(id=trace.id, prompt=trace.prompt, expected_answer=trace.answer, section=trace.section,
                      category=trace.category, difficulty=trace.difficulty)


def items_bytes(items: Iterable[ItemRecord]) -> bytes:
    """The items as JSON lines."""
    # Keys in the order of the fields: digests of shipped sets depend on it.
    return lines_bytes(map(asdict, items))


def write_items(path: Path, items: Iterable[ItemRecord]) -> None:
    """Write items as JSON lines, atomically."""
    atomic.write_bytes(path, items_bytes(items))
