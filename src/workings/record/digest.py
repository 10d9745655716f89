"""SHA-256 of bytes, files and JSON values, in lower-case hexadecimal."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from workings.record.canonical import dumps

CHUNK_BYTES = 1 << 20
"""Bytes read at a time: hashing stays at disk speed and in constant memory."""
DIGEST_PATTERN = r"[0-9a-f]{64}"
"""SHA-256 in lower-case hexadecimal."""


def is_digest(value: object) -> bool:
    """Whether a value is the text of a SHA-256 digest."""
    return isinstance(value, str) and re.fullmatch(DIGEST_PATTERN, value) is not None


def bytes_digest(data: bytes) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def chunks(stream: IO[bytes]) -> Iterator[bytes]:
    """All that a stream still holds, `CHUNK_BYTES` at a time."""
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk


def stream_digest(stream: IO[bytes]) -> tuple[str, int]:
    """SHA-256 and length in bytes of all that a stream still holds."""
    digest, size = hashlib.sha256(), 0
    for chunk in chunks(stream):
        digest.update(chunk)
        size += len(chunk)
    return digest.hexdigest(), size


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return stream_digest(stream)[0]


def json_digest(obj: Any) -> str:
    """SHA-256 of a value's canonical JSON (`workings.record.canonical.dumps`)."""
    return bytes_digest(dumps(obj))
