"""A cache of parsed files, valid until the files change."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")
Stamp = tuple[int, int, int]
"""Time of the last change, bytes and number of a file."""
MAX_BYTES_KEPT = 128 << 20
"""Approximate upper limit of the memory of one cache, apart from its newest entry."""


@dataclass
class FileCache:
    """Parsed contents of files, the newest last, each valid until its file changes. Safe for several threads."""

    most: int
    """Maximum number of files in the cache."""
    entries: dict[Path, tuple[Stamp, int, Any]] = field(default_factory=dict)
    """Stamp, bytes in memory, and content."""
    taken: int = 0
    """Sum of these bytes."""
    lock: Lock = field(default_factory=Lock)

    def get(self, path: Path, read: Callable[[], T], weigh: Callable[[T], int] | None = None) -> T:
        """The result of ``read`` for this file.

        Args:
            path: the file.
            read: reads it.
            weigh: bytes that this takes in memory, about; None: a few times as many as the file has.
        """
        try:
            state = path.stat()
        except OSError:
            return read()  # says what is missing
        stamp = (state.st_mtime_ns, state.st_size, state.st_ino)
        with self.lock:
            entry = self.entries.get(path)
            if entry is not None and entry[0] == stamp:
                self.entries[path] = self.entries.pop(path)  # the newest now
                value: T = entry[2]
                return value
        # Outside the lock: a large file takes a while, and other pages should not wait for it.
        value = read()
        with self.lock:
            if path in self.entries:
                self.taken -= self.entries.pop(path)[1]
            weight = weigh(value) if weigh else 4 * state.st_size
            self.entries[path] = (stamp, weight, value)
            self.taken += weight
            while len(self.entries) > 1 and (len(self.entries) > self.most or self.taken > MAX_BYTES_KEPT):
                self.taken -= self.entries.pop(next(iter(self.entries)))[1]
        return value
