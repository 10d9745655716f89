"""What the processes that score do before they run other people's code: streams of their own, and less memory."""

import contextlib
import os
from typing import TextIO


def answer_stream() -> TextIO:
    """Where answers are written. A scorer that prints must not break the protocol: it prints to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)
    return answers


def request_stream() -> TextIO:
    """Where requests are read. A scorer that reads standard input must not eat them: it finds an empty one."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return requests


def limit_memory(limit_bytes: int) -> None:
    """Limit the address space of this process, in bytes, where the system can (Linux); elsewhere nothing happens."""
    try:
        import resource
    except ImportError:  # Windows: time is limited there, memory is not
        return
    # Address space is what can be limited: Linux ignores the limit on resident memory.
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
    with contextlib.suppress(ValueError, OSError):  # some systems (macOS) do not limit address space
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
