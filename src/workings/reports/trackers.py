"""External trackers that follow a run while it trains, and callbacks.

No tracker can stop or slow a run: its library runs in a child process (`workings.reports.tracker_child`), fed by a
bounded queue that drops lines when full, and a hanging child is killed. Addresses and keys come from the libraries'
settings; they are not recorded.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from workings.errors import RequestError
from workings.hints import pip_install
from workings.record.metrics import Callback
from workings.reports.reinforcement import logged

TRACKERS = ("tensorboard", "wandb", "trackio", "mlflow")
"""Libraries that can be told of steps."""
METRICS = ("loss", "evaluation_loss", "learning_rate", "grad_norm", "share_of_weights_changed", "memory_bytes",
           "tokens", "supervised_tokens", "seconds")
"""Metrics of a line of the log, if it has them; those of `workings.reports.reinforcement.logged` are added."""


class Tracker:
    """One library in its own process. Passing a step does not block."""

    def __init__(self, name: str, first: Mapping[str, Any], say: Callable[[str], None], *,
                 end_seconds: float = 30.0, waiting_lines: int = 10_000) -> None:
        """Start the child.

        Args:
            name: one of `TRACKERS`.
            first: ``project``, ``name`` and ``config`` of the run, and the ``folder`` for files of TensorBoard.
            say: prints a line; a failure is reported once, by `close`.
            end_seconds: how long `close` waits for the tracker to take the remaining values.
            waiting_lines: queued lines for a slow tracker; more are dropped and counted.
        """
        self.name, self._say, self._end_seconds = name, say, end_seconds
        self._lines: queue.Queue[bytes | None] = queue.Queue(waiting_lines)
        self.dropped = 0
        # A file: a pipe could fill up and block the child.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._child = subprocess.Popen(
            [sys.executable, "-m", "workings.reports.tracker_child", name], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=self._errors, start_new_session=True)
        self._thread = threading.Thread(target=self._hand_over, name=f"to {name}", daemon=True)
        self._thread.start()
        self._put(first)

    def step(self, line: Mapping[str, Any]) -> None:
        """Hand over a step's line."""
        self._put({"step": line["step"], "metrics": dict(numbers(line))})

    def close(self, status: str) -> None:
        """Pass on how the run ended, wait, and kill the child if it is still running."""
        self._put({"end": status})
        problem = ""
        try:
            self._lines.put(None, timeout=self._end_seconds)
            code = self._child.wait(self._end_seconds)
            if code:
                self._errors.seek(0)
                said = self._errors.read().decode("utf-8", "replace").strip().splitlines()
                problem = f"it stopped: {said[-1][:300]}" if said else f"it stopped with code {code}"
        except (queue.Full, subprocess.TimeoutExpired):
            self._child.kill()
            self._child.wait()
            self._lines.put(None)  # lets the thread continue
            problem = f"it did not take everything within {self._end_seconds:g} s of the end and was killed"
        self._thread.join()
        self._errors.close()
        if self.dropped:
            problem = f"{problem}; {self.dropped} lines were dropped because it was too slow".lstrip("; ")
        if problem:
            self._say(f"{self.name}: {problem}; the record has everything")

    def _put(self, value: Mapping[str, Any]) -> None:
        try:
            self._lines.put_nowait(json.dumps(value).encode() + b"\n")
        except queue.Full:
            self.dropped += 1

    def _hand_over(self) -> None:
        pipe = self._child.stdin
        assert pipe is not None
        try:
            while (line := self._lines.get()) is not None:
                pipe.write(line)
                pipe.flush()
        except OSError:  # the child died; its output is reported at the end
            while self._lines.get() is not None:
                pass
        with contextlib.suppress(OSError):
            pipe.close()


def numbers(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Numbers of a line of the log by name: `METRICS` and those of reinforcement learning."""
    for key in METRICS:
        if isinstance(value := line.get(key), int | float):
            yield f"train/{key}", float(value)
    for key, value in logged(line).items():
        yield f"train/{key}", value


def check_trackers(names: Sequence[str]) -> None:
    """Raises `RequestError` for an unknown name, and for a library that is not installed or has no server."""
    for name in names:
        if name not in TRACKERS:
            raise RequestError(f"tracker {name} is unknown", f"one of {', '.join(TRACKERS)}", TRACKERS[0])
        if find_spec(name) is None:
            raise RequestError(f"tracker {name} is not installed", f"the package {name}",
                               pip_install({"mlflow": "track", "tensorboard": "track"}.get(name, name),
                                           extra=name != "trackio"))
        if name == "mlflow" and not os.environ.get("MLFLOW_TRACKING_URI", "").startswith(("http://", "https://")):
            raise RequestError("tracker mlflow needs a server", "its address in MLFLOW_TRACKING_URI",
                               "MLFLOW_TRACKING_URI=http://127.0.0.1:5000")


class RunListeners:
    """Passes steps to callbacks and trackers, and the end to trackers. A run without a step starts no tracker."""

    def __init__(self, trackers: Sequence[str] = (), say: Callable[[str], None] = lambda text: None,
                 callbacks: Sequence[Callback] = ()) -> None:
        """Raises `RequestError` for an unknown tracker, or one that is not installed."""
        check_trackers(trackers)
        self._names, self._say, self._callbacks = trackers, say, callbacks
        self._trackers: list[Tracker] = []
        self._first: dict[str, Any] = {}

    def about(self, run: Path, config: Mapping[str, str]) -> None:
        """Set the run's name and its recipe by dotted key."""
        self._first = {"project": "workings", "name": run.name, "config": dict(config),
                       "folder": str(run.parent.absolute() / "tensorboard" / run.name)}

    def step(self, line: Mapping[str, Any]) -> bool:
        """Pass on a step's line without waiting for trackers. Returns False if a callback asks to stop."""
        # Pass copies, because the line is recorded. `is False`, because a callback may return None.
        answers = [callback(dict(line)) for callback in self._callbacks]
        # Not earlier: a run whose plan does not fit must not appear in a tracker.
        if len(self._trackers) < len(self._names):
            self._trackers = [Tracker(name, self._first, self._say) for name in self._names]
        for tracker in self._trackers:
            tracker.step(line)
        return not any(answer is False for answer in answers)

    def __enter__(self) -> "RunListeners":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if kind is not None:
            self.ended("interrupted" if issubclass(kind, KeyboardInterrupt) else "failed")

    def ended(self, status: str) -> None:
        """Tell the trackers how it ended, once. Does not raise errors of external services."""
        for tracker in self._trackers:
            tracker.close(status)
        self._trackers, self._names = [], ()
