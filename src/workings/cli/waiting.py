"""A line on standard error while something slow runs: `compiling the step … 12 s, 3 of 8, about 20 s left`."""

import sys
import threading
import time
from dataclasses import dataclass, field
from math import ceil

from workings.cli.output import say
from workings.record.progress import ProgressListener

FIRST_SECONDS = 2.0
"""Longest silence in seconds before a line about a new operation."""
TERMINAL_SECONDS, LOG_SECONDS = 1.0, 15.0
"""Seconds between two lines: on a terminal one replaces the other, in a file they accumulate."""


@dataclass
class _Operation:
    what: str
    began: float = field(default_factory=time.monotonic)
    progress: tuple[int, int, str] = (0, 0, "")


class WaitingLine(ProgressListener):
    """Reports the innermost of the running operations, from a thread that ends with the outermost one."""

    def __init__(self) -> None:
        self._operations: list[_Operation] = []
        self._changed = threading.Condition()
        self._said_at = self._next_at = 0.0
        self._has_thread = self._is_shown = False

    def begins(self, what: str) -> None:
        """Report this operation from now on, not the one around it."""
        with self._changed:
            if not self._operations:
                self._said_at = time.monotonic()
            self._operations.append(_Operation(what))
            self._speak_soon()
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._speak, daemon=True).start()

    def reaches(self, done: int, total: int, unit: str = "") -> None:
        """Show this progress from now on."""
        self._operations[-1].progress = done, total, unit

    def ends(self) -> None:
        """Report the operation around it again."""
        with self._changed:
            self._operations.pop()
            self._speak_soon()

    def _speak_soon(self) -> None:
        # Counted from the last line, so that many short operations together do not stay silent.
        self._next_at = self._said_at + FIRST_SECONDS
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_shown = False
        self._changed.notify()

    def _speak(self) -> None:
        with self._changed:
            while self._operations:
                if (left := self._next_at - time.monotonic()) > 0:
                    self._changed.wait(left)
                    continue
                innermost = self._operations[-1]
                line = waiting_text(innermost.what, time.monotonic() - innermost.began, innermost.progress)
                if sys.stderr.isatty():
                    # Return to the first column and clear the rest of a longer earlier line.
                    sys.stderr.write(f"\r\x1b[K{line}")
                    sys.stderr.flush()
                    self._is_shown = True
                else:
                    say(line)
                self._said_at = time.monotonic()
                self._next_at = self._said_at + (TERMINAL_SECONDS if self._is_shown else LOG_SECONDS)
            self._has_thread = False


def waiting_text(what: str, seconds: float, progress: tuple[int, int, str]) -> str:
    """The line about an operation after some seconds; ``progress``: count, total, unit, as 3 of 8 micro-batches."""
    line = f"{what} … {_clock(seconds)}"
    count, total, unit = progress
    if not count:
        return line
    line = f"{line}, {count} of {total} {unit}".rstrip()
    seconds_left = ceil(seconds / count * (total - count))
    return f"{line}, about {_clock(seconds_left)} left" if seconds_left else line


def _clock(seconds: float) -> str:
    minutes, rest = divmod(ceil(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes else f"{rest} s"
