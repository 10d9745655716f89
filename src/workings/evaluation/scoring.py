"""The scoring process seen from outside: chunks in, judgements out, each completion under a time limit."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from workings.errors import RequestError
from workings.evaluation.items import Item
from workings.evaluation.judge import Judgement
from workings.evaluation.settings import EvaluationSettings

START_SECONDS = 120.0
"""Longest time until the process is ready: importing a scorer's libraries on a busy machine."""


class ScoringProcess:
    """A child process that scores. Use as a context manager; a child that hangs or dies is replaced."""

    def __init__(self, settings: EvaluationSettings) -> None:
        self._settings = settings
        self._child: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> "ScoringProcess":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._stop()

    def judge(self, completions: Sequence[tuple[Item, str]]) -> list[Judgement]:
        """Judgements in the order given; one that hangs or kills the process is an error of that item alone."""
        done: list[Judgement] = []
        while len(done) < len(completions):
            done += self._some(completions[len(done):])
        return done

    def _some(self, completions: Sequence[tuple[Item, str]]) -> list[Judgement]:
        """Judgements up to the first completion that takes the process down (that one included)."""
        child = self._running()
        request = [{"item": item.to_json(), "text": text} for item, text in completions]
        done: list[Judgement] = []
        try:
            child.stdin.write(json.dumps(request) + "\n")  # type: ignore[union-attr]
            child.stdin.flush()  # type: ignore[union-attr]
            for _ in completions:
                done.append(_judgement(self._next(self._settings.item_seconds)))
        except TimeoutError:
            self._stop()
            done.append(Judgement(error=f"time limit: not scored within {self._settings.item_seconds:g} s"))
        except (EOFError, BrokenPipeError):
            self._stop()
            done.append(Judgement(error=f"the scoring process died ({_ending(child)})"))
        return done

    def _running(self) -> "subprocess.Popen[str]":
        if self._child is not None:
            return self._child
        self._answers = queue.Queue()
        child = subprocess.Popen([sys.executable, "-m", "workings.evaluation.child"], env=_environment(), text=True,
                                 encoding="ascii", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        threading.Thread(target=_forward, args=(child.stdout, self._answers), daemon=True).start()
        self._child = child
        child.stdin.write(json.dumps(self._settings.to_json()) + "\n")  # type: ignore[union-attr]
        child.stdin.flush()  # type: ignore[union-attr]
        try:
            self._next(START_SECONDS)
        except (EOFError, TimeoutError):
            self._stop()
            raise RequestError(f"scorer: {self._settings.scorer}",
                               "a scorer that can be loaded (its error stands above)",
                               f"python {self._settings.scorer.split(':')[0]}") from None
        return child

    def _next(self, seconds: float) -> str:
        try:
            line = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if not line:
            raise EOFError
        return line

    def _stop(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        child.stdin.close()  # type: ignore[union-attr]


def _forward(stream: IO[str], answers: "queue.Queue[str]") -> None:
    with stream:
        for line in stream:
            answers.put(line)
    answers.put("")


def _environment() -> dict[str, str]:
    """The child finds this very package, also where it runs from a source tree."""
    root = str(Path(__file__).resolve().parents[2])
    inherited = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in (root, inherited) if part)}


def _judgement(line: str) -> Judgement:
    record: dict[str, Any] = json.loads(line)
    record["wrong_steps"] = tuple(record["wrong_steps"])
    return Judgement(**record)


def _ending(child: "subprocess.Popen[str]") -> str:
    code = child.returncode
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
