"""The processes that score, seen from outside: chunks in, judgements out, each completion under a time limit.

What runs in one may hang, exhaust memory or crash; nothing of that reaches the process that asks. The pipes carry lines
of JSON and not the pickles of `multiprocessing` and the pools that build on it: other people's code can write into any
open descriptor, and a pickle that it wrote would run in this process.
"""

import atexit
import json
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from workings.errors import RequestError
from workings.scoring.child_time import is_computing, processor_seconds
from workings.scoring.items import Item
from workings.scoring.judge import Judgement, judgement_from_json
from workings.scoring.settings import ScoringSettings

ANSWER_TAG = "answer_tag"
"""Key of the first line that a child is sent: what each of its answers begins with."""
STOPPED_BY_THE_PARENT = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
"""Signals that a terminal or a scheduler sends to all processes of a run at once."""
WORKER = "workings.scoring.worker"
"""What a child runs, as ``python -m`` takes it."""
START_SECONDS = 120.0
"""Longest time until the process is ready: importing a person's libraries on a busy machine."""
CHUNK_BYTES = 1 << 16
MAX_QUEUED_CHUNKS = 256
"""Chunks that wait to be read; a child that writes more of them waits itself."""
MAX_ANSWER_BYTES = 64 << 20
"""Longest answer. What is longer comes from someone else than our own code in the child."""


class UnexpectedOutput(Exception):
    """Something else than the child's own code wrote where its answers go."""


class Worker:
    """Base of the processes that score. Use as a context manager; a child that hangs or dies is replaced.

    The child reads its settings from the first line, answers one line when it is ready, and then lines to lines.

    Args:
        settings: the first line that it is sent, as JSON values.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._first_line = settings
        self.child: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[bytes] = queue.Queue(MAX_QUEUED_CHUNKS)
        self._rest, self._tag = bytearray(), ""
        self._cancelled = False
        self._ended_seconds = 0.0

    @property
    def processor_seconds(self) -> float:
        """Processor seconds of all children so far; 0 where the system does not say."""
        return self._ended_seconds + ((processor_seconds(self.child.pid) or 0.0) if self.child else 0.0)

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
        """The child, started or replaced where there is not one that lives; ready for requests."""
        if self._cancelled:
            raise CancelledError
        if self.child is not None and self.child.poll() is None:
            return self.child
        self._stop()
        # New with every child: answers of one that was killed may still arrive in the old queue.
        self._answers, self._rest, self._tag = queue.Queue(MAX_QUEUED_CHUNKS), bytearray(), secrets.token_hex(8)
        with signals_held_back():
            child = subprocess.Popen([sys.executable, "-m", WORKER], env=_environment(),
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # A thread, because reading from a pipe knows no time limit and waiting for a queue does.
        threading.Thread(target=forward, args=(child.stdout, self._answers), daemon=True).start()
        self.child = child
        try:
            self._send(child, {**self._first_line, ANSWER_TAG: self._tag})
            ready = self._next(START_SECONDS)[0]
        except (EOFError, TimeoutError, BrokenPipeError, UnexpectedOutput):
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

        A process that computes has ``seconds`` of processor time, so that a busy machine changes no result; one that
        waits has as much time of the clock.

        Raises:
            TimeoutError: none came in time.
            EOFError: the process ended.
            UnexpectedOutput: a line is not one of the child's own; nothing that comes after it can be trusted.
        """
        process_id = self.child.pid if self.child else 0
        begun, deadline = processor_seconds(process_id), time.monotonic() + seconds
        # Only what is new is looked through: a long answer comes in many pieces.
        piece = bytes(self._rest)
        while b"\n" not in piece:
            try:
                piece = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                used = processor_seconds(process_id)
                left = 0.0 if begun is None or used is None else seconds - (used - begun)
                if left <= 0 or not is_computing(process_id):
                    raise TimeoutError from None
                deadline, piece = time.monotonic() + left, b""
                continue
            if not piece:
                raise EOFError
            self._rest += piece
            if len(self._rest) > MAX_ANSWER_BYTES:
                raise UnexpectedOutput
        whole, _, self._rest = self._rest.rpartition(b"\n")
        return [self._own(line) for line in bytes(whole).split(b"\n")]

    def _own(self, line: bytes) -> dict[str, Any]:
        """One answer; a line that someone else wrote does not take its place, for it has not its tag."""
        try:
            tag, answer = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            raise UnexpectedOutput from None
        if tag != self._tag or not isinstance(answer, dict):
            raise UnexpectedOutput
        return answer

    def _stop(self) -> None:
        child, self.child = self.child, None
        if child is None:
            return
        self._ended_seconds += processor_seconds(child.pid) or 0.0
        child.kill()
        # Without it the killed child would stay in the process table.
        child.wait()
        # The thread that reads may wait for room; it ends when it has handed over what is left.
        with suppress(queue.Empty):
            while True:
                self._answers.get(timeout=0.0)
        with suppress(BrokenPipeError):  # closing writes what is still buffered, and no one reads it any more
            child.stdin.close()  # type: ignore[union-attr]


class ScoringProcess(Worker):
    """A child process that scores. Use as a context manager; a child that hangs or dies is replaced.

    Raises:
        RequestError: a person's own scorer cannot be loaded.
    """

    def __init__(self, settings: ScoringSettings) -> None:
        super().__init__(settings.for_scoring())
        self._settings = settings

    def judge(self, completions: Sequence[tuple[Item, str, bool]]) -> list[Judgement]:
        """Judgements in the order given; one that hangs or kills the process is an error of that item alone.

        Args:
            completions: of each its item, its text, and whether it was cut off by the limit on new tokens.
        """
        second = self._settings.second_opinion != "none"
        done, _ = self._ask(completions, second)
        # Answers travel in groups: which completion took the process down is known only if each goes alone.
        while len(done) < len(completions):
            one = completions[len(done):len(done) + 1]
            alone, error = self._ask(one, second)
            if not alone and second:  # it may be the second opinion that fails: the first must not suffer
                alone, error = self._ask(one, False)
                alone = [replace(judgement, second_opinion="undecided") for judgement in alone]
            done += alone or [Judgement(error=error)]
        return done

    def __enter__(self) -> Self:
        if idle := _idle.pop(self._key, None):
            self.child, self._answers, self._tag = idle
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        # Code of a person may leave something behind in its process, and answers of an unfinished request may come.
        is_ready = kind is None and not self._cancelled and ":" not in self._settings.scorer and not self._rest
        if is_ready and self.child is not None and self.child.poll() is None:
            stop_idle()
            _idle[self._key], self.child = (self.child, self._answers, self._tag), None
        super().__exit__(kind, error, trace)

    @property
    def _key(self) -> str:
        """What the process follows from."""
        return json.dumps([self._first_line, sorted(os.environ.items()), sys.path])

    def begin(self, completions: Sequence[tuple[Item, str, bool]], pool: Executor) -> Callable[[], list[Judgement]]:
        """Have them judged in a thread of ``pool``; what is returned waits for what `judge` returns."""
        return pool.submit(self.judge, completions).result

    def _ask(self, completions: Sequence[tuple[Item, str, bool]], second: bool) -> tuple[list[Judgement], str]:
        """Judgements until the process ended or went silent, and what happened then (or "")."""
        # Started again if the last completion took it down.
        child = self._running()
        done: list[Judgement] = []
        try:
            self._send(child, [{"item": item.to_json(), "text": text, "truncated": truncated, "second": second}
                               for item, text, truncated in completions])
            # The limit is on the silence between two groups of answers, not on all of them together.
            while len(done) < len(completions):
                done += map(judgement_from_json, self._next(self._settings.item_seconds))
        except TimeoutError:
            self._stop()
            return done, f"time limit: not scored within {self._settings.item_seconds:g} s"
        except (EOFError, BrokenPipeError):
            self._stop()
            return done, f"the scoring process died ({ending(child)})"
        except UnexpectedOutput:
            self._stop()
            return done, "the scorer wrote where its answers go"
        return done, ""

    def _refused(self, answer: Mapping[str, Any]) -> RequestError:
        return RequestError(f"scorer: {answer['problem'].removeprefix('scorer: ')}",
                            answer.get("expected", "a scorer that can be loaded"),
                            f"python {self._settings.scorer.split(':')[0]}")

    def _not_started(self) -> RequestError:
        return RequestError(f"scorer: {self._settings.scorer}",
                            "a scorer that can be loaded (an error is above, or loading did not end)",
                            f"python {self._settings.scorer.split(':')[0]}")


Idle = tuple["subprocess.Popen[bytes]", "queue.Queue[bytes]", str]
_idle: dict[str, Idle] = {}
"""The last process that was done with its work, by what it follows from. A start takes half a second of imports, and a
training run that evaluates, a verification and a page score again and again."""


def stop_idle() -> None:
    """End the process that waits for further work."""
    for key in list(_idle):
        child, *_ = _idle.pop(key)
        child.kill()
        child.wait()
        with suppress(BrokenPipeError):
            child.stdin.close()  # type: ignore[union-attr]


atexit.register(stop_idle)


def ending(child: "subprocess.Popen[bytes]") -> str:
    """How a child ended that was waited for: `signal 9` or `exit code 1`."""
    code = child.returncode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def forward(stream: IO[bytes], answers: "queue.Queue[bytes]") -> None:
    """Pass on what the process writes; an empty piece says that it ended."""
    with stream:
        # `os.read` returns what is there; a buffered `read` would wait for the whole size.
        while piece := os.read(stream.fileno(), CHUNK_BYTES):
            answers.put(piece)
    answers.put(b"")


def _environment() -> dict[str, str]:
    """The child finds this very package, also where it runs from a source tree."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in (root, inherited) if part)}


def stopping_signals() -> list[int]:
    """Those of `STOPPED_BY_THE_PARENT` that this system has."""
    return [getattr(signal, name) for name in STOPPED_BY_THE_PARENT if hasattr(signal, name)]


@contextmanager
def signals_held_back() -> Iterator[None]:
    """While a child is started: its signals wait until it ignores them, for Ctrl-C reaches it while it imports."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    # A child has the mask of the thread that starts it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stopping_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
