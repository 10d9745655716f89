"""A child process that answers lines with lines, seen from outside: started, read under a time limit, replaced.

What runs in it may hang, exhaust memory or crash; nothing of that reaches the process that asks.
"""

import json
import os
import queue
import secrets
import subprocess
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from workings.scoring.child_side import ANSWER_TAG, held_back

START_SECONDS = 120.0
"""Longest time until the process is ready: importing a person's libraries on a busy machine."""
PIECE_BYTES = 1 << 16
MOST_PIECES = 256
"""Pieces that wait to be read; a child that writes more of them waits itself."""
MOST_UNREAD_BYTES = 64 << 20
"""Longest answer. What is longer comes from somebody else than our own code in the child."""


class ForeignAnswer(Exception):
    """Something else than the child's own code wrote where its answers go."""


class ChildProcess:
    """Base of the processes that score. Use as a context manager; a child that hangs or dies is replaced.

    The child reads its settings from the first line, answers one line when it is ready, and then lines to lines.

    Args:
        module: what the child runs, as ``python -m`` takes it.
        settings: the first line that it is sent, as JSON values.
    """

    def __init__(self, module: str, settings: Mapping[str, Any]) -> None:
        self._module, self._first_line = module, settings
        self._child: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[bytes] = queue.Queue(MOST_PIECES)
        self._rest, self._tag = bytearray(), ""
        self._cancelled = False

    def __enter__(self) -> Self:
        # At once: a scorer that cannot be loaded is to be known before the first completion has cost anything.
        self._running()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._stop()

    def cancel(self) -> None:
        """Give up at once, from another thread: what is being scored is lost, and nothing is scored any more."""
        self._cancelled = True
        self._stop()
        # Clearing up may have taken the mark of the end from the other thread, which would wait for its time limit.
        with suppress(queue.Full):  # then it finds more than enough
            self._answers.put_nowait(b"")

    @abstractmethod
    def _not_started(self) -> Exception:
        """What is raised where the child ended, or said nothing for `START_SECONDS`, before it was ready."""

    @abstractmethod
    def _refused(self, answer: Mapping[str, Any]) -> Exception:
        """What is raised where the child says in its first answer that it cannot begin: its ``problem``."""

    def _running(self) -> "subprocess.Popen[bytes]":
        """The child, started or replaced where there is none that lives; ready for requests."""
        if self._cancelled:
            raise CancelledError
        if self._child is not None and self._child.poll() is None:
            return self._child
        self._stop()
        # New with every child: answers of one that was killed may still arrive in the old queue.
        self._answers, self._rest, self._tag = queue.Queue(MOST_PIECES), bytearray(), secrets.token_hex(8)
        with held_back():
            child = subprocess.Popen([sys.executable, "-m", self._module], env=_environment(),
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # A thread, because reading from a pipe knows no time limit and waiting for a queue does.
        threading.Thread(target=_forward, args=(child.stdout, self._answers), daemon=True).start()
        self._child = child
        try:
            self._send(child, {**self._first_line, ANSWER_TAG: self._tag})
            ready = self._next(START_SECONDS)[0]
        except (EOFError, TimeoutError, BrokenPipeError, ForeignAnswer):
            self._stop()
            raise self._not_started() from None
        if "problem" in ready:
            self._stop()
            raise self._refused(ready)
        return child

    def _send(self, child: "subprocess.Popen[bytes]", request: Any) -> None:
        """Write one line of JSON. Raises ``BrokenPipeError`` where the child has ended."""
        # The child answers only when it has read the whole line, so neither side waits for the other to read.
        child.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
        child.stdin.flush()  # type: ignore[union-attr]

    def _next(self, seconds: float) -> list[dict[str, Any]]:
        """The next answers of the process, at least one.

        Raises:
            TimeoutError: none came in time.
            EOFError: the process ended.
            ForeignAnswer: a line is none of the child's own; nothing that comes after it can be trusted.
        """
        deadline = time.monotonic() + seconds
        # Only what is new is looked through: a long answer comes in many pieces.
        piece = bytes(self._rest)
        while b"\n" not in piece:
            try:
                piece = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError from None
            if not piece:
                raise EOFError
            self._rest += piece
            if len(self._rest) > MOST_UNREAD_BYTES:
                raise ForeignAnswer
        whole, _, self._rest = self._rest.rpartition(b"\n")
        return [self._own(line) for line in bytes(whole).split(b"\n")]

    def _own(self, line: bytes) -> dict[str, Any]:
        """One answer; a line that somebody else wrote does not take its place, for it has not its tag."""
        try:
            tag, answer = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            raise ForeignAnswer from None
        if tag != self._tag or not isinstance(answer, dict):
            raise ForeignAnswer
        return answer

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        # Without it the killed child would stay in the process table.
        child.wait()
        # The thread that reads may wait for room; it ends when it has handed over what is left.
        with suppress(queue.Empty):
            while True:
                self._answers.get(timeout=0.0)
        with suppress(BrokenPipeError):  # closing writes what is still buffered, and nobody reads it any more
            child.stdin.close()  # type: ignore[union-attr]


def ending(child: "subprocess.Popen[bytes]") -> str:
    """How a child ended that was waited for: `signal 9` or `exit code 1`."""
    code = child.returncode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _forward(stream: IO[bytes], answers: "queue.Queue[bytes]") -> None:
    """Pass on what the process writes; an empty piece says that it ended."""
    with stream:
        # `os.read` returns what is there; a buffered `read` would wait for the whole size.
        while piece := os.read(stream.fileno(), PIECE_BYTES):
            answers.put(piece)
    answers.put(b"")


def _environment() -> dict[str, str]:
    """The child finds this very package, also where it runs from a source tree."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in (root, inherited) if part)}
