"""What one record may ask of whoever verifies it, beside memory: text that is looked through, time that scoring takes.

A check that ends at a limit is not checked, and its level is not reached. Text is counted in bytes, so that every
machine gives the same answer. Scoring has a clock: what a completion costs is decided by what it says.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from workings.record.plain import MEMORY_MIB, MEMORY_VARIABLE, TooLarge, memory_limit

TEXT_BYTES = 512 << 20
"""Texts of a record that are looked through for tokens, keys and home folders. More where more memory is allowed."""
SCORING_SECONDS = 15
"""Seconds that scoring and rewarding all completions of a record again may take."""
AT_ONCE = 2
"""Completions that are scored between two looks at the clock: one of them takes up to some seconds."""
SECONDS_VARIABLE = "WORKINGS_VERIFY_SECONDS"
"""Environment variable with another number of them."""


def refuse_too_much_text(size: int) -> None:
    """Raise `TooLarge` where the texts of a record have more bytes than are looked through."""
    default_limit = MEMORY_MIB << 20
    if size * default_limit > TEXT_BYTES * memory_limit():
        most = TEXT_BYTES * memory_limit() // default_limit
        raise TooLarge(f"texts of {size:,} bytes, and at most {most:,} are looked through; "
                       f"{MEMORY_VARIABLE}={size * MEMORY_MIB // TEXT_BYTES + 1} allows more, for a record "
                       "that you trust")


def seconds_limit() -> int:
    """Seconds that scoring a record again may take."""
    said = os.environ.get(SECONDS_VARIABLE, "")
    return int(said) if said.isdecimal() and len(said) < 10 else SCORING_SECONDS


@dataclass
class ScoringTime:
    """The time that scoring a record again has taken so far, over all its units."""

    seconds: float = 0.0

    @property
    def why_over(self) -> str:
        """Why nothing more is scored; empty where something is."""
        limit = seconds_limit()
        return "" if self.seconds < limit else (
            f"scoring takes longer than the {limit} s that it may take for a record; {SECONDS_VARIABLE}="
            f"{20 * max(limit, 1)} allows more, for a record that you trust")

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Add the time that the body takes."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - begun
