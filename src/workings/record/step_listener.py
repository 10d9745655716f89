"""Listener of a running run."""

from collections.abc import Callable, Mapping
from typing import Any

Callback = Callable[[Mapping[str, Any]], bool | None]
"""Called with a step's metrics when the step is done; `False` asks for a stop."""


class StepListener:
    """Called when a run begins and for every step, in process 0 only. The base class does nothing."""

    def accepted(self) -> None:
        """Called once, when nothing of the request can be refused any more and the run begins."""

    def step(self, line: Mapping[str, Any]) -> bool:
        """Called with a step's metrics when the step is done; False asks for a stop."""
        del line
        return True
