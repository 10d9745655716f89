"""Progress reports of slow operations.

A command prints them on its terminal (`workings.cli.waiting`); a library call has no listener, and nothing is printed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class ProgressListener:
    """Receives progress reports; the base class ignores them."""

    def begins(self, what: str) -> None:
        """An operation begins: a participle with its object."""

    def reaches(self, done: int, total: int, unit: str = "") -> None:
        """A part of the operation is done; ``unit``: what is counted, if the name does not tell."""

    def ends(self) -> None:
        """The operation is over, whether or not it succeeded."""


_SILENT = ProgressListener()
_WATCHER: ContextVar[ProgressListener] = ContextVar("watcher", default=_SILENT)
_LISTENER: ContextVar[ProgressListener] = ContextVar("listener", default=_SILENT)


@contextmanager
def report_progress_to(listener: ProgressListener, *, watching: bool = False) -> Iterator[None]:
    """Send progress reports to this listener while the block runs; ``watching``: in addition to the other listener."""
    variable = _WATCHER if watching else _LISTENER
    before = variable.set(listener)
    try:
        yield
    finally:
        variable.reset(before)


@contextmanager
def slow_operation(what: str) -> Iterator[ProgressListener]:
    """Report a slow operation (``compiling the step``) while the block runs; yields the listener for its progress."""
    listener, watcher = _LISTENER.get(), _WATCHER.get()
    watcher.begins(what)
    listener.begins(what)
    try:
        yield listener
    finally:
        listener.ends()
        watcher.ends()
