"""Lines of steps, written in a thread while the device takes the step after."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any

Line = dict[str, Any]


class AsyncMetricsWriter:
    """Writes one line at a time, in order, and none after one that failed.

    What goes wrong with a line is raised by the next `add` or `wait`, or at the end.
    """

    def __init__(self, write: Callable[[Line], None], thread: Executor) -> None:
        self._write = write
        self._thread = thread
        self._last: Future[None] | None = None

    def add(self, line: Line) -> None:
        """Write a line beside what comes next, once the line before is written. Raises what that one raised."""
        # One line at most is under way, so an error is heard one step late at most.
        self.wait()
        self._last = self._thread.submit(self._write, line)

    def wait(self) -> None:
        """Return when every line is written. Raises what the last one raised."""
        # Forgotten before it is asked, so that one error is not raised again at the exit.
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __enter__(self) -> "AsyncMetricsWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.wait()
