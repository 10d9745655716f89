"""Names of memory regions of a step: a trace reads `current` to label allocations, a run ignores it."""

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
