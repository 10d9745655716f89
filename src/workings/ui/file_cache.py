"""A cache of results computed from files, valid until one of the files changes."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")
Stamp = tuple[tuple[int, int, int], ...]
"""Time of the last change, bytes and number of each file; zeros for a missing one."""
MAX_BYTES_KEPT = 128 << 20
"""Approximate upper limit of the memory of one cache, apart from its newest entry."""


@dataclass
class FileCache:
    """Results computed from files, newest last, each valid until its files change. Thread-safe."""

    most: int
    """Maximum number of results in the cache."""
    entries: dict[Hashable, tuple[Stamp, int, Any]] = field(default_factory=dict)
    """Stamp, bytes in memory, and result."""
    taken: int = 0
    """Sum of these bytes."""
    lock: Lock = field(default_factory=Lock)

    def get(self, files: Path | Sequence[Path], read: Callable[[], T], weigh: Callable[[T], int] | None = None, *,
            key: Hashable = None) -> T:
        """The result of ``read`` for these files.

        Args:
            files: files that the result depends on.
            read: makes the result.
            weigh: approximate bytes of the result in memory; None: four times the bytes of the files.
            key: tells apart several results from the same files.
        """
        paths = (files,) if isinstance(files, Path) else tuple(files)
        stamp, place = tuple(map(_state, paths)), (paths, key)
        with self.lock:
            entry = self.entries.get(place)
            if entry is not None and entry[0] == stamp:
                self.entries[place] = self.entries.pop(place)  # now the newest
                value: T = entry[2]
                return value
        # Outside the lock, because other pages should not wait for a large file.
        value = read()
        with self.lock:
            if place in self.entries:
                self.taken -= self.entries.pop(place)[1]
            weight = weigh(value) if weigh else 4 * sum(size for _, size, _ in stamp)
            self.entries[place] = (stamp, weight, value)
            self.taken += weight
            while len(self.entries) > 1 and (len(self.entries) > self.most or self.taken > MAX_BYTES_KEPT):
                self.taken -= self.entries.pop(next(iter(self.entries)))[1]
        return value


def _state(path: Path) -> tuple[int, int, int]:
    try:
        state = path.stat()
    except OSError:
        return 0, 0, 0
    return state.st_mtime_ns, state.st_size, state.st_ino
