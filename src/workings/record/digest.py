"""SHA-256 of bytes, files and JSON values, in lower-case hexadecimal; and the progress of hashing, in words."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from workings.record.canonical import dumps

CHUNK_BYTES = 1 << 20
"""Bytes read at a time: hashing stays at disk speed and in constant memory."""
EVERY_SECONDS = 2.0
"""Seconds between two lines of progress. What takes less says nothing."""
SMALL_BYTES = 64 << 20
"""Less than this is hashed before anybody asks."""

DIGEST_PATTERN = r"[0-9a-f]{64}"
"""SHA-256 in lower-case hexadecimal."""
Progress = Callable[[int], None]
"""Called with the number of bytes hashed since the last call."""


def is_digest(value: object) -> bool:
    """Whether a value is the text of a SHA-256 digest."""
    return isinstance(value, str) and re.fullmatch(DIGEST_PATTERN, value) is not None


def bytes_digest(data: bytes) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """All that a stream still holds, `CHUNK_BYTES` at a time."""
    # An empty read is the end of the stream.
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk


def stream_digest(stream: IO[bytes], progress: Progress | None = None) -> tuple[str, int]:
    """SHA-256 and length in bytes of all that a stream still holds."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks(stream):
        digest.update(chunk)
        size += len(chunk)
        if progress is not None:
            progress(len(chunk))
    return digest.hexdigest(), size


def file_digest(path: Path, progress: Progress | None = None) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return stream_digest(stream, progress)[0]


def json_digest(obj: Any) -> str:
    """SHA-256 of a value's canonical JSON (`workings.record.canonical.dumps`)."""
    return bytes_digest(dumps(obj))


class HashProgress:
    """Call it with the bytes hashed since the last call; it says how far it is."""

    def __init__(self, say: Callable[[str], object], total_bytes: int = 0, *,
                 clock: Callable[[], float] = time.monotonic) -> None:
        """``total_bytes``: bytes to hash; 0 if unknown."""
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
        # Without a total, show only the amount done.
        share = f" of {self._total / 2**30:.2f}" if self._total else ""
        # At least `EVERY_SECONDS` have passed since the start, so nothing is divided by zero.
        speed = self.done_bytes / 2**20 / (now - self._started)
        self._say(f"hashed {self.done_bytes / 2**30:.2f}{share} GiB ({speed:.0f} MiB/s)")
