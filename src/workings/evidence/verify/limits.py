"""Limits on the cost of verifying one record: text that is searched, time for scoring, memory of parsed files.

A check that reaches a limit has the verdict `not_checked`, and its level is not reached. Text is counted in bytes, so
that every machine gives the same answer. Scoring is limited by processor time, because its cost depends on the
completions, and by their number: what else a machine does changes no verdict.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from workings.errors import RecordError
from workings.record.storage import (
    MEMORY_MIB,
    MEMORY_VARIABLE,
    TooLarge,
    limit_from_environment,
    memory_limit,
    refuse_too_large,
)

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

Key = tuple[str, str]
"""Path of a unit, and name of a value."""
T = TypeVar("T")
MAX_TOTAL_FACTOR = 14
"""Limit of all bytes that were ever parsed, as a multiple of the memory that is allowed at once."""


def refuse_too_much_text(size: int) -> None:
    """Raise `TooLarge` if the texts of a record have too many bytes to be searched."""
    default_limit = MEMORY_MIB << 20
    if size * default_limit > TEXT_BYTES * memory_limit():
        limit = TEXT_BYTES * memory_limit() // default_limit
        raise TooLarge(f"texts of {size:,} bytes, and at most {limit:,} are looked through; "
                       f"{MEMORY_VARIABLE}={size * MEMORY_MIB // TEXT_BYTES + 1} allows more, for a record "
                       "that you trust")


@dataclass
class ScoringTime:
    """Processor time of scoring a record so far, over all its units."""

    seconds: float = 0.0
    completions: int = 0

    @property
    def reason_over(self) -> str:
        """Why scoring stops; empty while it may continue."""
        limit = limit_from_environment(SECONDS_VARIABLE, SCORING_SECONDS)
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


@dataclass
class ParseCache:
    """Parsed values of a record. Where they would fill the memory, the least recently used are dropped."""

    _values: dict[Key, Any] = field(default_factory=dict)
    _bytes: dict[Key, int] = field(default_factory=dict)
    """Bytes of the values that have a size, in the same order."""
    # A stack: making one value may ask for another, and each pays for its own bytes.
    _making: list[Key] = field(default_factory=list)
    _held_bytes: int = 0
    total_bytes: int = 0
    """Bytes of all values that were parsed so far, dropped ones included."""

    def get_or_make(self, key: Key, make: Callable[[], T], where: str) -> T:
        """The cached value, or a new one from ``make``. A `RecordError`, which names ``where``, is cached as well."""
        # `self` marks a missing entry, because None is a valid one. Reinserted below, so that the first entry is the
        # least recently used.
        value = self._values.pop(key, self)
        if value is self:
            self._making.append(key)
            try:
                value = make()
            # Cache errors too, so that a hostile file is parsed once, not once per check.
            except RecordError as error:
                kind, text = type(error), str(error)
                value = (kind if kind is TooLarge else RecordError)(text if where in text else f"{where}: {text}")
                self._drop(key)
            finally:
                self._making.pop()
        self._values[key] = value
        if key in self._bytes:
            self._bytes[key] = self._bytes.pop(key)
        if isinstance(value, RecordError):
            # A new exception each time: raising the kept one again would add to its traceback with every check.
            raise type(value)(str(value))
        return value

    def reserve(self, needed: int) -> None:
        """Make room for bytes of the value that is being made. Raises `TooLarge` where there can be none."""
        key = self._making[-1]
        self._bytes[key] = self._bytes.get(key, 0) + needed
        self._held_bytes += needed
        refuse_too_large(self._bytes[key], "it")
        self._make_room(0, needed)

    def check_transient(self, needed: int) -> None:
        """Make room for bytes that are freed before the next call. Raises `TooLarge` where there can be none."""
        refuse_too_large(needed, "it")
        self._make_room(needed, needed)

    def _make_room(self, transient: int, needed: int) -> None:
        limit = memory_limit()
        self.total_bytes += needed
        # Files that were dropped are read again by the next check: without an end to it a record of many large ones
        # would take minutes.
        if self.total_bytes > MAX_TOTAL_FACTOR * limit:
            raise TooLarge("all that is read of this record would take more than "
                           f"{MAX_TOTAL_FACTOR * limit >> 20:,} MiB one after the other; {MEMORY_VARIABLE} allows "
                           "more, for a record that you trust")
        while self._held_bytes + transient > limit:
            # The oldest is first, but for the few that are being made. No other is looked at: there may be a
            # hundred thousand files.
            old = next((key for key in self._bytes if key in self._values), None)
            if old is None:
                break
            self._drop(old)
            del self._values[old]

    def _drop(self, key: Key) -> None:
        self._held_bytes -= self._bytes.pop(key, 0)
