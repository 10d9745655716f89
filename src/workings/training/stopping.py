"""Ctrl-C and SIGTERM as a polite request: the loop finishes its step, saves, and says how to go on."""

import signal
import threading
from types import FrameType
from typing import Any


class StopRequest:
    """While entered, the first signal sets `requested`; a second one is not caught any more.

    Kaggle and job schedulers send SIGTERM before they kill; both mean the same here. Handlers can be set from the
    main thread only; elsewhere the caller's own handlers stay in force.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        # `signal.signal` raises ValueError in any other thread, and a server may train in one.
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in self.SIGNALS:
            self._previous[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *unused: object) -> None:
        self._restore()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        # Little more than a flag: a handler runs between any two instructions, also in the middle of a write.
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()
