"""A line on standard error for whatever takes longer than two seconds: what it is, how long so far, how much longer."""

import sys
import threading
import time
from collections.abc import Callable
from math import ceil

from workings.cli.output import say
from workings.record.progress import ProgressListener

FIRST_SECONDS = 2.0
"""Shorter waits are not reported."""
TERMINAL_SECONDS, LOG_SECONDS = 1.0, 15.0
"""Between two lines: on a terminal one takes the place of the other, in a file they stay."""


class WaitingLine(ProgressListener):
    """A listener that speaks of the innermost thing that goes on.

    Args:
        before_first: said once, as soon as anything begins: what is known without waiting.
    """

    def __init__(self, before_first: Callable[[], str] | None = None) -> None:
        self._before_first = before_first
        self._going_on: list[_Spoken] = []
        self._silence = _Silence()

    def begins(self, what: str, usual_seconds: float | None) -> None:
        """Speak of this from now on, and no longer of what it is a part of."""
        if self._before_first is not None:
            first, self._before_first = self._before_first, None
            say(first())
        if self._going_on:
            # One operation inside another: only the inner one speaks, or two lines would alternate.
            self._going_on[-1].pause()
        else:
            self._silence.begins()
        self._going_on.append(_Spoken(what, usual_seconds, self._silence))
        self._going_on[-1].speak()

    def reaches(self, done: int, total: int, unit: str = "") -> None:
        """Reports progress: the line shows it from now on."""
        self._going_on[-1].done = done, total, unit

    def ends(self) -> None:
        """Speak of what it was a part of."""
        self._going_on.pop().pause()
        if self._going_on:
            self._going_on[-1].speak()


class _Silence:
    """Since when nothing was said. Of many short parts each alone would be over before it is spoken of."""

    def begins(self) -> None:
        self._since = time.monotonic()

    def seconds_left(self) -> float:
        return max(0.0, self._since + FIRST_SECONDS - time.monotonic())


class _Spoken:
    """One thing that goes on, and the thread that speaks of it."""

    def __init__(self, what: str, usual: float | None, silence: _Silence) -> None:
        self.done: tuple[int, int, str] | None = None
        self._what, self._usual, self._silence = what, usual, silence
        self._began = time.monotonic()

    def speak(self) -> None:
        self._over = threading.Event()
        # A thread for each time it is spoken of: a finished one cannot be started again. The time counts from the
        # first.
        self._thread = threading.Thread(target=self._lines, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        self._over.set()
        # Waited for, so that its last word is not behind the next line.
        self._thread.join()

    def _lines(self) -> None:
        terminal, said = sys.stderr.isatty(), False
        over = self._over.wait(self._silence.seconds_left())
        while not over:
            line = waiting_text(self._what, time.monotonic() - self._began, self._usual, self.done)
            if terminal:
                # Back to the first column, and clear up to the end: an earlier line may have been longer.
                sys.stderr.write(f"\r\x1b[K{line}")
                sys.stderr.flush()
            else:
                say(line)
            said = True
            self._silence.begins()
            over = self._over.wait(TERMINAL_SECONDS if terminal else LOG_SECONDS)
        if terminal and said:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def waiting_text(what: str, seconds: float, usual: float | None,
                 done: tuple[int, int, str] | None) -> str:
    """The current task, its seconds so far, and its progress or its duration the last time."""
    line = f"{what} … {_clock(seconds)}"
    if done is not None and done[0]:
        count, total, unit = done
        left = ceil(seconds / count * (total - count))
        line += f", {count} of {total}" + (f" {unit}" if unit else "")
        return line + (f", about {_clock(left)} left" if left else "")
    return line if usual is None else f"{line} ({_clock(usual)} the last time)"


def _clock(seconds: float) -> str:
    """A time that is seen to go on: ``41 s``, then ``3:12 min``."""
    minutes, rest = divmod(ceil(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes else f"{rest} s"
