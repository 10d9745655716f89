"""Starts processes that score, sends them requests, and reads each answer under a time limit.

Such a process may hang, exhaust memory or crash without harm to the one that asks. Requests are pickles. Answers are
lines of JSON, unlike those of `multiprocessing` and its pools: other people's code in the process can write into any
open descriptor, and a pickle that it wrote would run here.
"""

import json
import os
import pickle
import queue
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar, Self

from workings.errors import RequestError
from workings.scoring.items import Item
from workings.scoring.judge import Judgement
from workings.scoring.settings import ScoringSettings

START_SECONDS = 120.0
"""Time limit until a process is ready, which includes the imports of users' files."""
SHORTEST_LOOK = 0.2
"""Seconds in which a process that computes gets a processor at least once, even on a busy machine."""
MAX_ANSWER_BYTES = 64 << 20
"""Longest answer; a longer one is invalid."""


class NoAnswer(Exception):
    """Why a process did not answer. The process was ended."""


class Child:
    """A process that runs ``python -m MODULE``. The first thing that it reads is its ``job``."""

    def __init__(self, job: Any, module: str) -> None:
        self._tag = secrets.token_hex(8)
        self._answers = queue.SimpleQueue[bytes]()
        self._ended_seconds = 0.0
        # So that it imports this package, even from a source tree.
        places = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
        # In its own session, so that Ctrl-C in a terminal does not reach it.
        self.process = subprocess.Popen([sys.executable, "-m", module], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, start_new_session=True)
        # A thread, because reading from a pipe has no time limit, and waiting for a queue has one.
        threading.Thread(target=_forward, args=(self.process.stdout, self._tag.encode(), self._answers),
                         daemon=True).start()
        self.send((self._tag, job))

    @property
    def processor_seconds(self) -> float:
        """Processor seconds so far; 0 if unknown."""
        return self._ended_seconds or processor_seconds(self.process.pid) or 0.0

    def send(self, request: Any) -> None:
        """Send a request. The child answers only when it has read all of it, so neither side waits for the other."""
        with suppress(BrokenPipeError, ValueError):  # the child has ended, which `answer` will report
            pickle.dump(request, self.process.stdin)  # type: ignore[arg-type]
            self.process.stdin.flush()  # type: ignore[union-attr]

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next answer.

        A process that computes has ``seconds`` of processor time, so that a busy machine changes no result. One that
        waits has as many seconds of the clock. Raises `NoAnswer` if no answer came in time, the process ended, or it
        wrote another line, after which nothing can be trusted.
        """
        line = self._line(seconds)
        try:
            return dict(json.loads(line))
        except (ValueError, TypeError, RecursionError):  # an empty line, or one that other code has written
            self.kill()
        if line:
            raise NoAnswer("it wrote where its answers go")
        code = self.process.returncode
        raise NoAnswer(f"the scoring process died ({f'signal {-code}' if code < 0 else f'exit code {code}'})")

    def _line(self, seconds: float) -> bytes:
        """The next line of answers; empty if the process has ended. Raises `NoAnswer` if none came in time."""
        at_start = used = processor_seconds(self.process.pid)
        timeout = seconds
        while True:
            try:
                return self._answers.get(timeout=timeout)
            except queue.Empty:
                before, used = used, processor_seconds(self.process.pid)
                if at_start is None or used is None or used == before or used - at_start >= seconds:
                    self.kill()
                    raise NoAnswer(f"time limit: not scored within {seconds:g} s") from None
                timeout = max(SHORTEST_LOOK, seconds - (used - at_start))

    def kill(self) -> None:
        """End it, and wait until it is gone."""
        self._ended_seconds = self.processor_seconds
        self.process.kill()
        self.process.wait()  # without it the killed child would stay in the process table
        with suppress(BrokenPipeError):  # closing flushes to a pipe without a reader
            self.process.stdin.close()  # type: ignore[union-attr]


class Worker:
    """Keeps a process that scores, and replaces it if it hangs or dies. Use as a context manager.

    ``job``: what the process is for. Errors name the ``setting`` that says what the process loads, such as `scorer`,
    and its ``value``, such as `mine.py:score`.
    """

    module: ClassVar[str] = "workings.scoring.worker"
    """The module that the process runs (``python -m``)."""

    def __init__(self, job: Any, setting: str, value: str) -> None:
        self._job, self._setting, self._value = job, setting, value
        self.child: Child | None = None
        self._cancelled, self._ended_seconds = False, 0.0

    @property
    def processor_seconds(self) -> float:
        """Processor seconds of all children so far; 0 if unknown."""
        return self._ended_seconds + (self.child.processor_seconds if self.child else 0.0)

    def __enter__(self) -> Self:
        # Now, so that a scorer that cannot be loaded fails before anything is generated.
        self._running()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def cancel(self) -> None:
        """Stop at once, from another thread; results in progress are lost."""
        self._cancelled = True
        self._stop()

    def _running(self) -> Child:
        """The running child, started or replaced if needed."""
        if self.child is not None and self.child.process.poll() is None:
            return self.child
        self._stop()
        if self._cancelled:
            raise CancelledError
        self.child = child = Child(self._job, self.module)
        try:
            ready = child.answer(START_SECONDS)
        except NoAnswer:
            ready = {"problem": f"{self._value} did not load", "expected": "a file that loads (an error is above, or "
                     "loading did not end)"}
        if "problem" in ready:
            self._stop()
            run_file = f"python {self._value.rpartition(':')[0]}" if ".py:" in self._value else ""
            raise RequestError(f"{self._setting}: {ready['problem']}", ready["expected"], ready.get("try") or run_file)
        return child

    def _answers(self, request: Any, seconds: Iterable[float]) -> Iterator[dict[str, Any]]:
        """Answers to a request, one for each time limit in ``seconds``. Raises `NoAnswer`."""
        child = self._running()
        child.send(request)
        try:
            for limit in seconds:
                yield child.answer(limit)
        except NoAnswer:
            self._stop()
            if self._cancelled:
                raise CancelledError from None
            raise

    def _stop(self) -> None:
        child, self.child = self.child, None
        if child is not None:
            self._ended_seconds += child.processor_seconds
            child.kill()


class ScoringProcess(Worker):
    """A process that scores. Raises `RequestError` if a user's scorer cannot be loaded."""

    def __init__(self, settings: ScoringSettings) -> None:
        self._settings = ScoringSettings(**settings.for_scoring())
        super().__init__(self._settings, "scorer", settings.scorer)

    def judge(self, completions: Sequence[tuple[Item, str, bool]]) -> list[Judgement]:
        """A judgement for each completion; one that hangs or kills the process spoils no other.

        A completion is its item, its text, and whether it was cut off by the limit on new tokens.
        """
        done: list[Judgement] = []
        alone = False
        while len(done) < len(completions):
            asked = completions[len(done):len(done) + 1] if alone else completions[len(done):]
            try:
                for answer in self._answers(asked, [self._settings.item_seconds] * len(asked)):
                    done.append(Judgement(**{**answer, "wrong_steps": tuple(answer["wrong_steps"])}))
                alone = False
            except NoAnswer as error:
                if alone:
                    done.append(Judgement(error=str(error)))
                # Once more alone, because an earlier completion may have caused the failure.
                alone = not alone
        return done


def processor_seconds(process_id: int) -> float | None:
    """Processor seconds of a process and all its threads so far (proc(5)); None if unknown."""
    try:
        fields = Path(f"/proc/{process_id}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime, in clock ticks
    except (OSError, AttributeError):  # ended, or no /proc (macOS), or no sysconf (Windows)
        return None


def _forward(stream: IO[bytes], tag: bytes, answers: "queue.SimpleQueue[bytes]") -> None:
    """Pass on the lines that begin with the tag; then b"" if the process has ended, b"?" if it wrote other output."""
    with stream:
        while (line := stream.readline(MAX_ANSWER_BYTES)).startswith(tag) and line.endswith(b"\n"):
            answers.put(line[len(tag):])
    answers.put(b"?" if line else b"")
