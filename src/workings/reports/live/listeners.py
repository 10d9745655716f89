"""Listeners of one run: callbacks and trackers get its steps, trackers also its end."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from workings.record.metrics import Callback
from workings.reports.live.watching import Tracker, check_trackers


class RunListeners:
    """Passes steps to callbacks and trackers, and the end to trackers. A run without a step starts no tracker."""

    def __init__(self, trackers: Sequence[str] = (), say: Callable[[str], None] = lambda text: None,
                 callbacks: Sequence[Callback] = ()) -> None:
        """Raises `RequestError` for an unknown tracker, or one that is not installed."""
        # Check here, so that a missing package does not stop a started run.
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
