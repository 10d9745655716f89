"""Pseudo-random choices that are the same on every machine and in every version of Python.

`random.Random` promises its stream only for `random()`; generators here draw from SHA-256 instead, so that a seed
names the same data for good.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

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
        number = int.from_bytes(rank(self._name, self._count)[:16], "big")
        self._count += 1
        return low + number % (high - low + 1)

    def choice(self, options: Sequence[Choice]) -> Choice:
        """One of the options."""
        return options[self.integer(0, len(options) - 1)]
