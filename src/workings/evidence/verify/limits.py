"""Limits on the cost of verifying one record: text that is searched, time for scoring, memory of parsed files.

A check that reaches a limit has the verdict `not_checked`. Text is counted in bytes, and scoring in processor time for
each completion, so that what else a machine does changes no verdict.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workings.errors import RecordError, RequestError, RewardError
from workings.record import storage
from workings.record.storage import MEMORY_VARIABLE, TooLarge, memory_limit, refuse_too_large
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

Key = tuple[str, str]
"""Path of a unit, and name of a value."""
T = TypeVar("T")
MAX_TOTAL_FACTOR = 14
"""Limit of all bytes that were ever parsed, as a multiple of the memory that is allowed at once."""
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, RequestError, RewardError, TypeError,
             ValueError)
"""Exceptions that a value of a wrong type or wrong settings can cause. A check that meets one fails."""


def said(error: Exception) -> str:
    """Kind and beginning of an error, in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


def refuse_too_much_text(size: int) -> None:
    """Raise `TooLarge` if the texts of a record have too many bytes to be searched."""
    limit = TEXT_BYTES * memory_limit() // (storage.MEMORY_MIB << 20)
    if size > limit:
        needed_mib = size * storage.MEMORY_MIB // TEXT_BYTES + 1
        raise TooLarge(f"texts of {size:,} bytes, and at most {limit:,} are looked through; "
                       f"{MEMORY_VARIABLE}={needed_mib} allows more, for a record that you trust")


@dataclass
class ScoringTime:
    """Processor time of scoring a record so far, over all its units."""

    seconds: float = 0.0
    completions: int = 0

    @property
    def reason_over(self) -> str:
        """Why scoring stops; empty while it may continue."""
        limit = storage.limit_from_environment(SECONDS_VARIABLE, SCORING_SECONDS)
        if self.seconds < limit + COMPLETION_SECONDS * self.completions:
            return ""
        return (f"scoring takes more than {limit} s of processor time and {COMPLETION_SECONDS:g} s for each "
                f"completion; {SECONDS_VARIABLE}={20 * max(limit, 1)} allows more, for a record that you trust")

    def chunks(self, process: Worker, completions: Sequence[T]) -> Iterator[Sequence[T]]:
        """Yield a few completions at a time while there is time left; what the caller does with them is measured."""
        for start in range(0, len(completions), CHUNK_COMPLETIONS):
            if self.reason_over:
                return
            chunk = completions[start:start + CHUNK_COMPLETIONS]
            with self.measured(process, len(chunk)):
                yield chunk

    @contextmanager
    def measured(self, process: Worker, completions: int) -> Iterator[None]:
        """Context manager that adds the processor time of its body and of the process that scores in it."""
        begun = time.process_time() + process.processor_seconds
        try:
            yield
        finally:
            self.seconds += time.process_time() + process.processor_seconds - begun
            self.completions += completions


@dataclass
class ParseCache:
    """Parsed values of a record. Where they would fill the memory, all of them are dropped."""

    _values: dict[Key, Any] = field(default_factory=dict)
    _held_bytes: int = 0
    total_bytes: int = 0
    """Bytes of all values that were parsed so far, dropped ones included."""

    def get_or_make(self, key: Key, make: Callable[[], T], where: str) -> T:
        """The cached value, or a new one from ``make``. An error is cached as well; it names ``where``, if given."""
        if key not in self._values:
            try:
                made: Any = make()
            except (RecordError, *MALFORMED) as error:
                text = str(error)
                if not isinstance(error, RecordError):
                    text = f"{key[1]}: not of the form that is read ({said(error)})"
                kind = TooLarge if isinstance(error, TooLarge) else RecordError
                made = kind(text if where in text else f"{where}: {text}")
            self._values[key] = made
        value = self._values[key]
        if isinstance(value, RecordError):
            raise type(value)(str(value))  # a new one each time, so that its traceback does not grow
        return value

    def reserve(self, needed: int) -> None:
        """Make room for bytes of the value that is being made. Raises `TooLarge` where there can be none."""
        self.check_transient(needed)
        self._held_bytes += needed

    def check_transient(self, needed: int) -> None:
        """Make room for bytes that are freed before the next call. Raises `TooLarge` where there can be none."""
        refuse_too_large(needed, "it")
        self.total_bytes += needed
        # The next check parses dropped files again, which would take minutes for many large ones.
        if self.total_bytes > MAX_TOTAL_FACTOR * memory_limit():
            raise TooLarge("all that is read of this record would take more than "
                           f"{MAX_TOTAL_FACTOR * memory_limit() >> 20:,} MiB one after the other; {MEMORY_VARIABLE} "
                           "allows more, for a record that you trust")
        if self._held_bytes + needed > memory_limit():
            self._values.clear()
            self._held_bytes = 0
