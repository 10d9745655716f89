"""A JSON-lines file that grows: every line is parsed once, a torn last line waits until it is whole."""

import contextlib
import json
from pathlib import Path
from threading import Lock
from typing import Any


class Tail:
    """What a file holds so far. `lines` reads on from where it stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._place = 0
        self._lines: list[dict[str, Any]] = []
        self._lock = Lock()
        self._file = -1
        self.derived: Any = None
        """What a reader made of the lines and wants to keep beside them."""
        self.seen = 0
        """Lines that `derived` was made of."""

    def continues(self) -> bool:
        """Whether the file is still the one that was read, only longer."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        # A file that was replaced has another number, and one that a resume has cut is shorter than what was read.
        return found.st_size >= self._place and self._file in (-1, found.st_ino)

    def lines(self) -> list[dict[str, Any]]:
        """All lines so far that are JSON objects; a damaged line is left out (`workings verify` names it)."""
        with self._lock:
            try:
                with self.path.open("rb") as file:
                    # From where it stopped: a log of a million lines is read once, and then only its new end.
                    file.seek(self._place)
                    data = file.read()
                    self._file = self.path.stat().st_ino
            except OSError:
                return self._lines
            # The writer may be in the middle of a line; what stands behind the last line break is read again next time.
            end = data.rfind(b"\n") + 1
            self._place += end
            self._lines += [value for value in _parsed(data[:end].split(b"\n")) if isinstance(value, dict)]
            return self._lines


def _parsed(lines: list[bytes]) -> list[Any]:
    """The JSON values of lines: all in one go, or, where some are damaged, those that are not."""
    written = [line for line in lines if line.strip()]
    try:
        # One call for all lines takes less than half the time of one a line. A damaged line could still make a valid
        # list of another length, so the number of values is compared.
        values = json.loads(b"[" + b",".join(written) + b"]")
        if len(values) == len(written):
            return list(values)
    except (ValueError, RecursionError):
        pass
    found = []
    for line in written:
        with contextlib.suppress(ValueError, RecursionError):
            found.append(json.loads(line))
    return found
