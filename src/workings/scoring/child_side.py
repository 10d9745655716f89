"""What the processes that score do before they run other people's code: streams of their own, and less memory."""

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TextIO

STOPPED_BY_THE_PARENT = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
"""Signals that a terminal or a scheduler sends to all processes of a run at once."""


ANSWER_TAG = "answer_tag"
"""Key of the first line that a child is sent: what each of its answers begins with."""


class AnswerStream:
    """Where answers are written, one line each. A scorer that prints must not break the protocol: it prints to stderr.

    Args:
        tag: begins each line. By it the reader knows an answer from what other code wrote to the same descriptor.
    """

    def __init__(self, tag: str) -> None:
        self._stream, self._tag = os.fdopen(os.dup(1), "w", encoding="ascii"), tag
        os.dup2(2, 1)

    def write(self, answer: dict[str, Any]) -> None:
        """Add an answer; it may wait for others until `flush`."""
        with _ends_with_the_parent():
            self._stream.write(json.dumps([self._tag, answer]) + "\n")

    def flush(self) -> None:
        """Send what is waiting."""
        with _ends_with_the_parent():
            self._stream.flush()


@contextmanager
def _ends_with_the_parent() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        os._exit(0)  # not `sys.exit`, which would write what is waiting once more


def ignore_signals() -> None:
    """Leave signals to the parent: it ends this process when it has decided what becomes of the completions here."""
    for number in _stopped_by_the_parent():
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        # What `ChildProcess` had held back; a program that is started here finds none blocked.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _stopped_by_the_parent())


def held_back() -> AbstractContextManager[None]:
    """While a child is started: its signals wait until `ignore_signals`, for Ctrl-C reaches it while it imports."""
    return _held_back() if hasattr(signal, "pthread_sigmask") else nullcontext()


@contextmanager
def _held_back() -> Iterator[None]:
    # A child has the mask of the thread that starts it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _stopped_by_the_parent())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stopped_by_the_parent() -> list[int]:
    return [getattr(signal, name) for name in STOPPED_BY_THE_PARENT if hasattr(signal, name)]


def request_stream() -> TextIO:
    """Where requests are read. A scorer that reads standard input must not eat them: it finds an empty one."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return requests


def limit_memory(limit_bytes: int) -> None:
    """Limit the address space of this process, in bytes, where the system can (Linux); elsewhere nothing happens."""
    try:
        import resource
    except ImportError:  # Windows: time is limited there, memory is not
        return
    # Address space is what can be limited: Linux ignores the limit on resident memory.
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    with contextlib.suppress(ValueError, OSError):  # some systems (macOS) do not limit address space
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
