"""Signals as a request to stop: the loop finishes its step, saves a checkpoint, and prints how to resume."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1")
"""Ctrl-C; schedulers and `kill`; a terminal that is closed; Ctrl-\\; Slurm's `--signal=USR1` before the time is up."""
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
"""The signals of `NAMES` that this system has: Windows has the first two."""


def lead_nowhere(descriptor: int) -> None:
    """Let what this process and its children read or write as standard stream 0, 1 or 2 be the null device."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere == descriptor:  # it was closed, and the lowest free number
        os.set_inheritable(descriptor, True)
    else:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def leave_closed_terminal(number: int) -> None:
    """At a hang-up, let what is still said go nowhere if the terminal is gone: a write would fail."""
    if number != getattr(signal, "SIGHUP", None):
        return
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            lead_nowhere(descriptor)


ASKED = "stopping when the step under way is done and saved"
"""Said as soon as a signal comes."""


class StopRequest:
    """While entered, the first signal of `SIGNALS` sets `requested`; a second one is not caught any more.

    The first one is answered at once. Python runs a handler only when the engine's current call returns, which may take
    minutes; the number of the signal comes through a socket, to a thread, before that. A hang-up that is ignored
    (`nohup`) stays ignored.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}
        self._watch = ExitStack()

    def __enter__(self) -> "StopRequest":
        # `signal.signal` raises ValueError in any other thread, and a server may train in one.
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in SIGNALS:
            if number in (signal.SIGINT, signal.SIGTERM) or signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._handle)
        self._watch.enter_context(_answered({*self._previous}))
        return self

    def __exit__(self, *unused: object) -> None:
        self._watch.close()
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        leave_closed_terminal(number)
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()


@contextmanager
def _answered(numbers: set[int]) -> Iterator[None]:
    """Meanwhile say `ASKED` on standard error when the first signal of these numbers comes."""
    heard, bell = socket.socketpair()
    # Python's own low-level handler writes the signal's number there, regardless of what the main thread computes.
    bell.setblocking(False)
    before = signal.set_wakeup_fd(bell.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=_answer_first, args=(heard, numbers), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        bell.close()
        thread.join()
        heard.close()


def _answer_first(heard: socket.socket, numbers: set[int]) -> None:
    while number := heard.recv(1):
        if number[0] in numbers:
            leave_closed_terminal(number[0])
            with suppress(OSError):
                sys.stderr.write(f"{ASKED}\n")
                sys.stderr.flush()
            return
