"""What was read from files, kept until the files change."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class FileCache:
    """What is kept until its file changes, the newest last. Safe to use from several threads."""

    most: int
    """Files of which something is kept."""
    found: dict[Path, tuple[object, Any]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def of(self, path: Path, read: Callable[[], T]) -> T:
        """What ``read`` gave for this file."""
        try:
            state = path.stat()
        except OSError:
            return read()  # says what is missing
        stamp = (state.st_mtime_ns, state.st_size, state.st_ino)
        with self.lock:
            kept = self.found.pop(path, None)
            if kept is not None and kept[0] == stamp:
                self.found[path] = kept
                value: T = kept[1]
                return value
        # Outside the lock: a large file takes a while, and other pages should not wait for it.
        value = read()
        with self.lock:
            self.found[path] = (stamp, value)
            for old in list(self.found)[:-self.most]:
                del self.found[old]
        return value
