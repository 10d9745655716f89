"""Lines of the record that another thread writes while the device takes the next step."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any

Line = dict[str, Any]


class AsyncMetricsWriter:
    """Writes one line at a time, in order, and none after one that failed.

    The error of a failed line is raised by the next `add` or `wait`, or at the end.
    """

    def __init__(self, write: Callable[[Line], None], thread: Executor) -> None:
        self._write = write
        self._thread = thread
        self._last: Future[None] | None = None

    def add(self, line: Line) -> None:
        """Starts to write a line, once the previous one is written. Raises the error of the previous one."""
        # One line at most is being written, so an error is raised one step late at most.
        self.wait()
        self._last = self._thread.submit(self._write, line)

    def wait(self) -> None:
        """Returns when every line is written. Raises the error of the last one."""
        # Cleared before its result is read, so that one error is not raised again at the exit.
        last, self._last = self._last, None
        if last is not None:
            last.result()

    def __enter__(self) -> "AsyncMetricsWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.wait()
