"""Names of the part of a step that is running, for whoever counts memory: a trace reads `current`, a run ignores it."""

from collections.abc import Iterator
from contextlib import contextmanager

_stack: list[str] = []


@contextmanager
def region(name: str) -> Iterator[None]:
    """Name what is allocated inside."""
    _stack.append(name)
    try:
        yield
    finally:
        _stack.pop()


def current() -> str:
    """Innermost name; empty outside of all."""
    return _stack[-1] if _stack else ""
