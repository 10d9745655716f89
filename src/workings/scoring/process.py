"""The scoring process seen from outside: chunks in, judgements out, each completion under a time limit."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from workings.errors import RequestError
from workings.scoring.items import Item
from workings.scoring.judge import Judgement
from workings.scoring.settings import ScoringSettings

START_SECONDS = 120.0
"""Longest time until the process is ready: importing a scorer's libraries on a busy machine."""
PIECE_BYTES = 1 << 16


class ScoringProcess:
    """A child process that scores. Use as a context manager; a child that hangs or dies is replaced."""

    def __init__(self, settings: ScoringSettings) -> None:
        self._settings = settings
        self._child: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._rest = b""
        self._cancelled = False

    def __enter__(self) -> "ScoringProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._stop()

    def judge(self, completions: Sequence[tuple[Item, str]]) -> list[Judgement]:
        """Judgements in the order given; one that hangs or kills the process is an error of that item alone."""
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

    def _ask(self, completions: Sequence[tuple[Item, str]], second: bool) -> tuple[list[Judgement], str]:
        """Judgements until the process ended or went silent, and what happened then (or "")."""
        child = self._running()
        request = [{"item": item.to_json(), "text": text, "second": second} for item, text in completions]
        done: list[Judgement] = []
        try:
            # The child answers only when it has read the whole line, so neither side waits for the other to read.
            child.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
            child.stdin.flush()  # type: ignore[union-attr]
            while len(done) < len(completions):
                done += [_judgement(line) for line in self._next(self._settings.item_seconds)]
        except TimeoutError:
            self._stop()
            return done, f"time limit: not scored within {self._settings.item_seconds:g} s"
        except (EOFError, BrokenPipeError):
            self._stop()
            return done, f"the scoring process died ({_ending(child)})"
        return done, ""

    def cancel(self) -> None:
        """Give up at once, from another thread: what is being judged is lost, and nothing is judged any more."""
        self._cancelled = True
        self._stop()

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._cancelled:
            raise CancelledError
        if self._child is not None:
            return self._child
        # New with every child: answers of one that was killed may still arrive in the old queue.
        self._answers, self._rest = queue.Queue(), b""
        child = subprocess.Popen([sys.executable, "-m", "workings.scoring.child"], env=_environment(),
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        # A thread, because reading from a pipe knows no time limit and waiting for a queue does.
        threading.Thread(target=_forward, args=(child.stdout, self._answers), daemon=True).start()
        self._child = child
        child.stdin.write(json.dumps(self._settings.for_scoring()).encode() + b"\n")  # type: ignore[union-attr]
        child.stdin.flush()  # type: ignore[union-attr]
        try:
            self._next(START_SECONDS)
        except (EOFError, TimeoutError):
            self._stop()
            raise RequestError(f"scorer: {self._settings.scorer}",
                               "a scorer that can be loaded (its error stands above)",
                               f"python {self._settings.scorer.split(':')[0]}") from None
        return child

    def _next(self, seconds: float) -> list[str]:
        """The next lines of the process, at least one. Raises ``TimeoutError`` or ``EOFError``."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._rest:
            try:
                piece = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError from None
            if not piece:
                raise EOFError
            self._rest += piece
        whole, _, self._rest = self._rest.rpartition(b"\n")
        return whole.decode("ascii").split("\n")

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        # Without it the killed child would stay in the process table.
        child.wait()
        with suppress(BrokenPipeError):  # closing writes what is still buffered, and nobody reads it any more
            child.stdin.close()  # type: ignore[union-attr]


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


def _judgement(line: str) -> Judgement:
    record: dict[str, Any] = json.loads(line)
    record["wrong_steps"] = tuple(record["wrong_steps"])
    return Judgement(**record)


def _ending(child: "subprocess.Popen[bytes]") -> str:
    code = child.returncode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
