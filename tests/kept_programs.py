"""Programs that XLA compiled for tests, kept between sessions.

JAX's compilation cache writes its files in place, so two processes that share a folder may read half a program. Every
worker therefore has a folder of its own, filled with links to what is kept, and gives the kept folder what it compiled
when a test has ended and nobody writes.
"""

import atexit
import contextlib
import importlib.metadata
import os
import shutil
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from workings.engines.hardware_probe import cpu_features

DAY = 24 * 3600
MAX_BYTES = 1 << 30
"""Of kept programs; the ones made longest ago go first."""


class KeptPrograms:
    """A folder for this process's compilation cache, exchanged with the one below ``place``."""

    def __init__(self, place: Path) -> None:
        self.kept = place / _machine()
        self.kept.mkdir(parents=True, exist_ok=True)
        for left in place.glob("own-*"):  # by a session that was killed
            if left.stat().st_mtime < time.time() - DAY:
                shutil.rmtree(left, ignore_errors=True)
        self.folder = Path(tempfile.mkdtemp(prefix="own-", dir=place))  # links need one file system
        self._known: set[str] = set()
        self._changed: tuple[int, ...] = ()
        atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        _drop_oldest(self.kept)
        self.exchange()

    def exchange(self) -> None:
        """Give what is new here, take what is new there."""
        if self._times() == self._changed:  # a test rarely compiles, and thousands of names take a while to list
            return
        for source, target in ((self.folder, self.kept), (self.kept, self.folder)):
            for name in {entry.name for entry in os.scandir(source)} - self._known:
                with contextlib.suppress(FileExistsError, FileNotFoundError):
                    os.link(source / name, target / name)
                self._known.add(name)
        self._changed = self._times()

    def _times(self) -> tuple[int, ...]:
        """When a name was last added to or taken from either folder."""
        return tuple(folder.stat().st_mtime_ns for folder in (self.folder, self.kept))


def _machine() -> str:
    """Kept programs are machine code: of these libraries, for this kind of processor."""
    versions = "-".join(importlib.metadata.version(name) for name in ("jax", "jaxlib"))
    return f"{versions}-{sha256(cpu_features().encode()).hexdigest()[:12]}"


def _drop_oldest(folder: Path) -> None:
    left = MAX_BYTES
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.stat().st_mtime, reverse=True):
        left -= entry.stat().st_size
        if left < 0:
            with contextlib.suppress(FileNotFoundError):  # another worker drops it too
                Path(entry.path).unlink()
