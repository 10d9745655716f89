"""Shared by all generators: choices that are the same on every machine, problems, and evaluation items.

`random.Random` promises its stream only for `random()`; generators draw from SHA-256 instead, so that a seed names the
same data for good, on every machine and in every version of Python. Items are JSON lines with exactly the keys that
`workings eval --items` reads.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from workings.data.row_fields import lines_bytes
from workings.record import atomic

Choice = TypeVar("Choice")


def rank(*parts: object) -> bytes:
    """SHA-256 of the parts joined by `/`, as 32 bytes: sorting by it shuffles."""
    return hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()


class Draw:
    """A stream of choices named by its parts; equal parts give equal streams."""

    def __init__(self, *parts: object) -> None:
        self._name = "/".join(str(part) for part in parts)
        self._count = 0

    def integer(self, low: int, high: int) -> int:
        """A whole number from ``low`` to ``high``, both included (bias below 2 ** -64 for any range of int32)."""
        # The counter makes every choice a hash of its own: a stream has no state but its name and a number.
        number = int.from_bytes(rank(self._name, self._count)[:16], "big")
        self._count += 1
        return low + number % (high - low + 1)

    def choice(self, options: Sequence[Choice]) -> Choice:
        """One of the options."""
        return options[self.integer(0, len(options) - 1)]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One generated problem, right by construction: every number in it was computed, none was typed."""

    prompt: str
    steps: tuple[str, ...]
    answer: str
    key: tuple[object, ...]
    """Identity of the problem, whatever its words: operation and operands in a fixed order. Training
    and evaluation never share a key."""
    category: str
    section: str = "core"
    """`core`, `trace_sensitive` (wrong without its intermediate results) or `edge_case`."""
    difficulty: str = "medium"
    """`easy`, `medium` or `hard`."""


Template = Callable[[Draw], Problem]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of problem: templates for training, and others for evaluation."""

    name: str
    trained: tuple[Template, ...]
    asked: tuple[Template, ...]


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
    # Keys in the order of the fields: digests of shipped sets depend on it.
    return lines_bytes(map(asdict, items))


def write_items(path: Path, items: Iterable[ItemRecord]) -> None:
    """Write items as JSON lines, atomically."""
    atomic.write_bytes(path, items_bytes(items))
