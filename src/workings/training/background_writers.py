"""Lines of the record that other threads write while the device takes the next step.

`AsyncMetricsWriter` writes the metrics of a step. `MachineLog` writes the load of the machine every ten seconds.
"""

import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any

from workings.errors import StorageError
from workings.hardware.machine_use import SECONDS_BETWEEN, MachineUse

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


class MachineLog:
    """Writes lines while its block runs. Its first error is printed and ends it; the training goes on."""

    def __init__(self, write: Callable[[dict[str, Any]], None], step: Callable[[], int], say: Callable[[str], None], *,
                 pause: float = SECONDS_BETWEEN, look: Callable[[], Mapping[str, float]] | None = None) -> None:
        """Starts nothing yet.

        Args:
            write: writes a line of the record.
            step: the number of the last step that was taken.
            say: prints a line for the user.
            pause: seconds between two measurements, and before the first: a run that is over by then has no line.
            look: measures the load; by default of this machine.
        """
        self._write, self._step, self._say, self._pause = write, step, say, pause
        self._measure = look or MachineUse().look
        self._over = threading.Event()
        # A daemon: who interrupts twice does not wait for a driver that hangs.
        self._thread = threading.Thread(target=self._lines, name="machine log", daemon=True)

    def __enter__(self) -> "MachineLog":
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._over.set()
        # Waited for: the record is sealed next, and no line may come into it then.
        self._thread.join()

    def _lines(self) -> None:
        while not self._over.wait(self._pause):
            try:
                numbers = self._measure()
                if not self._over.is_set():
                    self._write({"step": self._step(), **numbers})
            except (OSError, ValueError, subprocess.SubprocessError, StorageError) as error:
                self._say(f"the load of the machine is not recorded any more: {error}")
                return
