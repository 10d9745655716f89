"""Limits on the cost of verifying one record, apart from memory: text that is searched, and time for scoring.

A check that reaches a limit has the verdict `not_checked`, and its level is not reached. Text is counted in bytes, so
that every machine gives the same answer. Scoring is limited by time, because its cost depends on the completions.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from workings.record.untrusted_files import MEMORY_MIB, MEMORY_VARIABLE, TooLarge, memory_limit

TEXT_BYTES = 512 << 20
"""Bytes of text of a record that are searched for tokens, keys and home folders; more where more memory is allowed."""
SCORING_SECONDS = 15
"""Time limit for scoring and rewarding all completions of a record, in seconds."""
CHUNK_COMPLETIONS = 2
"""Completions that are scored before the time is checked again; each takes up to some seconds."""
SECONDS_VARIABLE = "WORKINGS_VERIFY_SECONDS"
"""Environment variable with another time limit."""


def refuse_too_much_text(size: int) -> None:
    """Raise `TooLarge` if the texts of a record have too many bytes to be searched."""
    default_limit = MEMORY_MIB << 20
    if size * default_limit > TEXT_BYTES * memory_limit():
        limit = TEXT_BYTES * memory_limit() // default_limit
        raise TooLarge(f"texts of {size:,} bytes, and at most {limit:,} are looked through; "
                       f"{MEMORY_VARIABLE}={size * MEMORY_MIB // TEXT_BYTES + 1} allows more, for a record "
                       "that you trust")


def seconds_limit() -> int:
    """Time limit for scoring a record, in seconds."""
    setting = os.environ.get(SECONDS_VARIABLE, "")
    return int(setting) if setting.isdecimal() and len(setting) < 10 else SCORING_SECONDS


@dataclass
class ScoringTime:
    """Time that scoring a record has taken so far, over all its units."""

    seconds: float = 0.0

    @property
    def reason_over(self) -> str:
        """Why scoring stops; empty while the time is not over."""
        limit = seconds_limit()
        return "" if self.seconds < limit else (
            f"scoring takes longer than the {limit} s that it may take for a record; {SECONDS_VARIABLE}="
            f"{20 * max(limit, 1)} allows more, for a record that you trust")

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Context manager that adds the time of its body."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - begun
