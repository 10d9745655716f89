"""What takes longer than a person waits for without a word is told to whoever listens.

A verb listens on its terminal (`workings.cli.waiting`); in a library's call nobody does, and nothing is said.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol


class Listener(Protocol):
    """Who is told."""

    def begins(self, what: str, usual_seconds: float | None) -> None:
        """Something begins: a participle with its object, and how long it took the last time, where that is known."""
        ...

    def reaches(self, done: int, total: int) -> None:
        """So much of it is done."""
        ...

    def ends(self) -> None:
        """It is over, whether or not it succeeded."""
        ...


class Nobody:
    """A `Listener` that says nothing."""

    def begins(self, what: str, usual_seconds: float | None) -> None:
        """Nothing."""

    def reaches(self, done: int, total: int) -> None:
        """Nothing."""

    def ends(self) -> None:
        """Nothing."""


_WATCHER: ContextVar[Listener] = ContextVar("watcher", default=Nobody())  # noqa: B039 - it holds no state
_LISTENER: ContextVar[Listener] = ContextVar("listener", default=Nobody())  # noqa: B039 - it holds no state


def heard_by(listener: Listener) -> AbstractContextManager[None]:
    """Have a listener told of everything that begins meanwhile."""
    return _set(_LISTENER, listener)


def watched_by(watcher: Listener) -> AbstractContextManager[None]:
    """Have somebody told of what begins and ends meanwhile, whoever else listens in between."""
    return _set(_WATCHER, watcher)


@contextmanager
def _set(variable: ContextVar[Listener], told: Listener) -> Iterator[None]:
    before = variable.set(told)
    try:
        yield
    finally:
        variable.reset(before)


@contextmanager
def waiting(what: str, usual_seconds: float | None = None) -> Iterator[Listener]:
    """Tell of something that takes long while the block runs; yields the listener, which may be told how far it is.

    Args:
        what: a participle with its object: ``compiling the step``.
        usual_seconds: how long it took before, where that is known.
    """
    listener, watcher = _LISTENER.get(), _WATCHER.get()
    watcher.begins(what, usual_seconds)
    listener.begins(what, usual_seconds)
    try:
        yield listener
    finally:
        listener.ends()
        watcher.ends()
