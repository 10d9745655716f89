"""Limits on the cost of verifying one record, apart from memory: text that is searched, and time for scoring.

A check that reaches a limit has the verdict `not_checked`, and its level is not reached. Text is counted in bytes, so
that every machine gives the same answer. Scoring is limited by processor time, because its cost depends on the
completions, and by their number: what else a machine does changes no verdict.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workings.record.untrusted_files import MEMORY_MIB, MEMORY_VARIABLE, TooLarge, memory_limit

if TYPE_CHECKING:
    from workings.scoring.worker_pool import Worker

TEXT_BYTES = 512 << 20
"""Bytes of text of a record that are searched for tokens, keys and home folders; more where more memory is allowed."""
SCORING_SECONDS = 15
"""Processor seconds for scoring and rewarding the completions of a record, apart from `COMPLETION_SECONDS`."""
COMPLETION_SECONDS = 0.02
"""Processor seconds for each completion: about thirty times what one takes on average (`python -m proof.scoring`)."""
CHUNK_COMPLETIONS = 2
"""Completions that are scored before the time is checked again; each takes up to some seconds."""
SECONDS_VARIABLE = "WORKINGS_VERIFY_SECONDS"
"""Environment variable with other seconds than `SCORING_SECONDS`."""


def refuse_too_much_text(size: int) -> None:
    """Raise `TooLarge` if the texts of a record have too many bytes to be searched."""
    default_limit = MEMORY_MIB << 20
    if size * default_limit > TEXT_BYTES * memory_limit():
        limit = TEXT_BYTES * memory_limit() // default_limit
        raise TooLarge(f"texts of {size:,} bytes, and at most {limit:,} are looked through; "
                       f"{MEMORY_VARIABLE}={size * MEMORY_MIB // TEXT_BYTES + 1} allows more, for a record "
                       "that you trust")


def seconds_limit() -> int:
    """Processor seconds for scoring a record, apart from those for each completion."""
    setting = os.environ.get(SECONDS_VARIABLE, "")
    return int(setting) if setting.isdecimal() and len(setting) < 10 else SCORING_SECONDS


@dataclass
class ScoringTime:
    """Processor time of scoring a record so far, over all its units."""

    seconds: float = 0.0
    completions: int = 0

    @property
    def reason_over(self) -> str:
        """Why scoring stops; empty while it may continue."""
        limit = seconds_limit()
        return "" if self.seconds < limit + COMPLETION_SECONDS * self.completions else (
            f"scoring takes more than {limit} s of processor time and {COMPLETION_SECONDS:g} s for each completion; "
            f"{SECONDS_VARIABLE}={20 * max(limit, 1)} allows more, for a record that you trust")

    @contextmanager
    def measured(self, process: "Worker", completions: int) -> Iterator[None]:
        """Context manager that adds the processor time of its body and of the process that scores in it."""
        begun = time.process_time() + process.processor_seconds
        try:
            yield
        finally:
            self.seconds += time.process_time() + process.processor_seconds - begun
            self.completions += completions
