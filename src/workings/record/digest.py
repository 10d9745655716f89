"""SHA-256 of bytes, files and JSON values, in lower-case hexadecimal."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from workings.record.canonical import dumps

CHUNK_BYTES = 1 << 20
"""Bytes read at a time: hashing stays at disk speed and in constant memory."""

Progress = Callable[[int], None]
"""Called with the number of bytes hashed since the last call."""


def bytes_digest(data: bytes) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """All that a stream still holds, `CHUNK_BYTES` at a time."""
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
