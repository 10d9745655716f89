"""A growing JSON-lines file: each line is parsed once, an incomplete last line waits."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, TypeVar

from workings.errors import RecordError
from workings.record.untrusted_files import open_plain, parsed_bytes

T = TypeVar("T")
BLOCK_BYTES = 4 << 20
"""Bytes per read: parsing temporarily takes several times as much memory."""
MAX_LINE_BYTES = 32 << 20
"""Longest valid line of a log."""


class Tail:
    """Content of a growing file. `lines` continues where it stopped."""

    def __init__(self, path: Path, make_room: Callable[["Tail", int], None]) -> None:
        """``make_room``: called with what is about to be parsed takes in memory; raises where that is too much."""
        self.path = path
        self._make_room = make_room
        self._place = 0
        self._lines: list[dict[str, Any]] = []
        self._lock = Lock()
        self._file = -1
        self._derived: dict[str, tuple[int, Any]] = {}
        self.bytes = 0
        """Approximate bytes of the lines in memory."""

    def continues(self) -> bool:
        """Whether the file is still the one that was read, only longer."""
        try:
            facts = self.path.stat()
        except OSError:
            return False
        # A replaced file has another inode; one truncated by a resume is shorter.
        return facts.st_size >= self._place and self._file in (-1, facts.st_ino)

    def lines(self) -> list[dict[str, Any]]:
        """All lines so far that are JSON objects; a damaged line is left out (`workings verify` names it).

        The returned list does not change; later lines are in a new one.

        Raises:
            RecordError: it is no regular file, or would fill the memory.
        """
        with self._lock:
            if not os.path.lexists(self.path):
                return self._lines
            with open_plain(self.path) as file:
                self._file = os.fstat(file.fileno()).st_ino
                # Continue where it stopped, so that a long log is read once.
                file.seek(self._place)
                while data := self._complete_lines(file):
                    needed = parsed_bytes(data, lines=True)
                    self._make_room(self, needed)
                    self.bytes += needed
                    self._place += len(data)
                    self._lines = [*self._lines, *_objects(data.split(b"\n"))]
            return self._lines

    def derived(self, key: str, start: T, grow: Callable[[T, list[dict[str, Any]]], T]) -> T:
        """A value that follows from all lines so far, cached under a key.

        Args:
            key: names the value.
            start: the value without lines.
            grow: makes a new value of one and the lines after it, because another thread may use the old one.
        """
        lines = self.lines()
        # One tuple, so that no other thread mixes its count with this value.
        seen, value = self._derived.get(key, (0, start))
        if seen != len(lines):
            value = grow(value, lines[seen:])
            self._derived[key] = len(lines), value
        return value

    def _complete_lines(self, file: BinaryIO) -> bytes:
        """The next lines; nothing at the end, where the writer may be in the middle of a line."""
        data = file.read(BLOCK_BYTES)
        # Read the part after the last line break again with the next block.
        while (end := data.rfind(b"\n") + 1) == 0 and (more := file.read(BLOCK_BYTES)):
            data += more
            if len(data) > MAX_LINE_BYTES:
                raise RecordError(f"{self.path.name}: a line of more than {MAX_LINE_BYTES:,} bytes")
        file.seek(end - len(data), os.SEEK_CUR)
        return data[:end]


def _objects(lines: list[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects of all undamaged lines."""
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            if isinstance(value := json.loads(line), dict):
                yield value
