"""Progress of hashing, for people: nothing for small records, a line now and then for large ones."""

import time
from collections.abc import Callable

EVERY_SECONDS = 2.0
"""Time between two lines. What takes less says nothing."""
SMALL_BYTES = 64 << 20
"""Less than this is hashed before anybody asks."""


class HashProgress:
    """Call it with the bytes hashed since the last call; it says how far it is."""

    def __init__(self, say: Callable[[str], object], total_bytes: int = 0, *,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """``total_bytes``: what there is to hash; 0 where that is not known."""
        self.done_bytes = 0
        self._say, self._total, self._clock = say, total_bytes, clock
        self._started = self._said = clock()

    def __call__(self, count: int) -> None:
        """Add bytes; at most every `EVERY_SECONDS` a line."""
        self.done_bytes += count
        now = self._clock()
        if now - self._said < EVERY_SECONDS or self.done_bytes < SMALL_BYTES:
            return
        self._said = now
        share = f" of {self._total / 2**30:.2f}" if self._total else ""
        speed = self.done_bytes / 2**20 / (now - self._started)
        self._say(f"hashed {self.done_bytes / 2**30:.2f}{share} GiB ({speed:.0f} MiB/s)")
