"""JSON lines that are appended one at a time. A process killed in between leaves at most a torn last line."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

from workings.errors import RecordError
from workings.record import atomic
from workings.record.canonical import loads, record_line
from workings.record.storage import PRIVATE, memory_limit, parsed_bytes, read_plain, refuse_too_large, storage


class Appender:
    """An open JSON-lines file. Each value is one ``write`` call, so that lines of two processes never mix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with storage(path, "open"):
            self.descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | PRIVATE, 0o644)

    def append(self, obj: dict[str, Any]) -> None:
        """Add one line. It survives the death of this process at once, and that of the machine after `sync`.

        Raises `RecordError` for a null or what cannot be JSON, and `StorageError`, after which no part of it is left.
        """
        self.append_bytes(record_line(obj, self.path.name))

    def append_bytes(self, data: bytes) -> None:
        """Append all of ``data`` or nothing: a partial write is truncated. Raises `StorageError`."""
        with storage(self.path, "append to"):
            before = os.fstat(self.descriptor).st_size
            written = 0
            try:
                while written < len(data):  # a short write means a full disk: the next one says so
                    written += os.write(self.descriptor, data[written:])
            except OSError:
                # A partial line is only harmless at the end, where it can be truncated.
                if written:
                    os.ftruncate(self.descriptor, before)
                raise

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        with storage(self.path, "write"):
            os.fsync(self.descriptor)

    def close(self) -> None:
        """Close the file; appending afterwards is an error."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def append(path: Path, obj: dict[str, Any]) -> None:
    """Append one line to a file and wait until it is on the disk."""
    with closing(Appender(path)) as appender:
        appender.append(obj)
        appender.sync()


def parse(data: bytes, name: str) -> tuple[list[dict[str, Any]], str | None]:
    """Rows of a JSON-lines file, and its last line if it is torn, that is, has no newline.

    Raises `RecordError`, which names file and line, for any other line that is not a JSON object.
    """
    lines = data.split(b"\n")
    torn = lines.pop()
    rows = []
    for number, text in enumerate(lines, start=1):
        try:
            row = loads(text)
        except RecordError as error:
            raise RecordError(f"{name}, line {number} is damaged: {error}") from None
        if not isinstance(row, dict):
            raise RecordError(f"{name}, line {number} is damaged: not a JSON object")
        rows.append(row)
    return rows, torn.decode("utf-8", errors="replace") if torn else None


def read(path: Path, *, bounded: bool = False) -> tuple[list[dict[str, Any]], str | None]:
    """`parse` of a plain file; no rows if there is none. Raises `RecordError`.

    ``bounded``: refuse a file that would fill the memory, as one of someone else's run could.
    """
    # A link that leads nowhere is not an absent file: it is refused below.
    if not os.path.lexists(path):
        return [], None
    data = read_plain(path, memory_limit() if bounded else None)
    if bounded:
        refuse_too_large(parsed_bytes(data, lines=True), path.name)
    return parse(data, path.name)


def cut_torn_line(path: Path) -> str | None:
    """Remove a torn last line, atomically, and return it; None if there was none."""
    if not path.exists():
        return None
    data = read_plain(path, None)
    # 0 where there is no newline at all, and then all of it is torn.
    end = data.rfind(b"\n") + 1
    if end == len(data):
        return None
    atomic.write_bytes(path, data[:end])
    return data[end:].decode("utf-8", errors="replace")
