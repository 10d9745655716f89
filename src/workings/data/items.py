"""Evaluation items as a generator makes them: JSON lines with exactly the keys that `workings eval --items` reads."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from workings.record import atomic


@dataclass(frozen=True, kw_only=True)
class ItemRecord:
    """One question whose answer is known; the evaluation never shows the answer to the model."""

    id: str
    prompt: str
    expected_answer: str
    section: str
    category: str
    difficulty: str


def items_bytes(items: Iterable[ItemRecord]) -> bytes:
    """The items as JSON lines."""
    return b"".join(json.dumps(asdict(item), ensure_ascii=False).encode() + b"\n" for item in items)


def write_items(path: Path, items: Iterable[ItemRecord]) -> None:
    """Write items as JSON lines, atomically."""
    atomic.write_bytes(path, items_bytes(items))
