"""Turns a signal such as Ctrl-C into a request to stop: the training loop finishes its step and saves a checkpoint."""

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
"""They come from: Ctrl-C; schedulers and `kill`; a closed terminal; Ctrl-\\; Slurm's `--signal=USR1` before a limit."""
SIGNALS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
"""The signals of `NAMES` that this system has; Windows has the first two."""
ASKED = "stopping when the step under way is done and saved"
"""Message that is printed as soon as a signal arrives."""


def lead_nowhere(descriptor: int) -> None:
    """Redirect standard stream 0, 1 or 2 of this process and its children to the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    if null == descriptor:  # the stream was closed, and its number was free
        os.set_inheritable(descriptor, True)
    else:
        os.dup2(null, descriptor)
        os.close(null)


def leave_closed_terminal(number: int) -> None:
    """After a hang-up signal, redirect standard streams to the null device if the terminal is gone."""
    if number != getattr(signal, "SIGHUP", None):
        return
    for descriptor in (1, 2):
        try:
            os.write(descriptor, b"")
        except OSError:
            lead_nowhere(descriptor)


class StopRequest:
    """In this context the first signal of `SIGNALS` sets `requested`; a second signal ends the process as usual.

    A thread prints `ASKED` as soon as the first signal arrives. The signal's handler cannot: Python runs it only when
    the engine's current call returns, which may take minutes. A hang-up that is ignored (`nohup`) stays ignored.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}
        self._answering = ExitStack()

    def __enter__(self) -> "StopRequest":
        # Only the main thread can handle signals; a server may train in another one.
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in SIGNALS:
            if number in (signal.SIGINT, signal.SIGTERM) or signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._handle)
        self._answering.enter_context(_answered({*self._previous}))
        return self

    def __exit__(self, *unused: object) -> None:
        self._answering.close()
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
    """In this context print `ASKED` when the first signal with one of these numbers arrives."""
    receiver, sender = socket.socketpair()
    # Python's low-level handler writes each signal's number as a byte to the socket, without waiting for the engine.
    sender.setblocking(False)
    before = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
    thread = threading.Thread(target=_answer_first, args=(receiver, numbers), daemon=True)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        sender.close()
        thread.join()
        receiver.close()


def _answer_first(receiver: socket.socket, numbers: set[int]) -> None:
    while received := receiver.recv(1):
        number = received[0]
        if number in numbers:
            leave_closed_terminal(number)
            with suppress(OSError):
                sys.stderr.write(f"{ASKED}\n")
                sys.stderr.flush()
            return
