"""Names for what a part of the step allocates. A trace labels allocations with `current`; a run ignores it."""

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
    """The innermost region's name; empty outside of all regions."""
    return _stack[-1] if _stack else ""
