"""A cache of results computed from files, valid until one of the files changes."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")
Stamp = tuple[tuple[int, int, int], ...]
"""Time of the last change, bytes and number of each file; zeros for a missing one."""


@dataclass
class FileCache:
    """Results computed from files, newest last, each valid until its files change. Thread-safe."""

    most: int
    """Maximum number of results in the cache."""
    entries: dict[Hashable, tuple[Stamp, Any]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def get(self, files: Path | Sequence[Path], read: Callable[[], T], *, key: Hashable = None) -> T:
        """The result of ``read`` for these files; ``key`` tells apart several results from the same files."""
        paths = (files,) if isinstance(files, Path) else tuple(files)
        stamp, place = tuple(map(_state, paths)), (paths, key)
        with self.lock:
            entry = self.entries.pop(place, None)
            if entry is not None and entry[0] == stamp:
                self.entries[place] = entry  # now the newest
                value: T = entry[1]
                return value
        # Outside the lock, because other pages should not wait for a large file.
        value = read()
        with self.lock:
            self.entries[place] = stamp, value
            if len(self.entries) > self.most:
                del self.entries[next(iter(self.entries))]
        return value


def _state(path: Path) -> tuple[int, int, int]:
    try:
        state = path.stat()
    except OSError:
        return 0, 0, 0
    return state.st_mtime_ns, state.st_size, state.st_ino
