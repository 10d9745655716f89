"""A cache of parsed files of a record, limited by the memory that their values take."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workings.errors import RecordError
from workings.record.untrusted_files import MEMORY_VARIABLE, TooLarge, memory_limit, refuse_too_large

Key = tuple[str, str, str]
"""Path of a unit, kind of value, and name."""
T = TypeVar("T")
MAX_TOTAL_FACTOR = 14
"""Limit of all bytes that were ever parsed, as a multiple of the memory that is allowed at once."""


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
