"""Why a process failed, told to the others through the store, and errors of broken collective calls in words."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from workings.engines.base import Processes
from workings.errors import PEER_GONE, Interrupted, RequestError, WorkingsError, first_line, is_out_of_memory

KEY = "failed"
"""Key under which a process that failed stores why."""
POLL_SECONDS = 1.0
"""Seconds between two looks for a failure while something is waited for."""
REASON_TIMEOUT = 5.0
"""Seconds to wait for the reason of a failure, after a broken call has shown that there is one."""


class PeerFailed(WorkingsError):
    """Another process failed; the exit code is the one it had."""

    def __init__(self, failure: bytes) -> None:
        """``failure``: as `write_failure` made it."""
        facts = json.loads(failure)
        self.out_of_memory = bool(facts["out_of_memory"])
        self.exit_code = int(facts["exit_code"])
        super().__init__(f"process {facts['index']}: {facts['text']}")


def write_failure(index: int, error: BaseException) -> bytes:
    """Encode an error of process ``index`` for the other processes."""
    return json.dumps({"index": index, "text": first_line(error) if not isinstance(error, RequestError)
                       else error.given, "exit_code": getattr(error, "exit_code", 1),
                       "out_of_memory": is_out_of_memory(error)}).encode()


def wait_for(processes: Processes, key: str, limit: float) -> bytes:
    """A value of the store, waiting at most ``limit`` seconds and as long as no process fails.

    Raises:
        PeerFailed: another process failed.
        Interrupted: the value did not come in time, or the store is gone.
    """
    began = time.monotonic()
    while time.monotonic() - began < limit:
        try:
            if (value := processes.wait(key, POLL_SECONDS)) is not None:
                return value
            reason = processes.wait(KEY, 0.0)
        except RuntimeError as error:
            raise Interrupted(PEER_GONE) from error
        if reason is not None:
            raise PeerFailed(reason)
    raise Interrupted(f"{PEER_GONE} (no {key} after {limit:.0f} seconds)")


@contextmanager
def explaining_failures(processes: Processes) -> Iterator[None]:
    """Within this context a collective call that breaks raises why: `PeerFailed` if another process stored a reason.

    PyTorch and JAX report a lost process by many exceptions and texts, so every `RuntimeError`, `ValueError` and
    `ConnectionError` counts as one, except for a lack of memory, which is this process's own.
    """
    try:
        yield
    except (RuntimeError, ValueError, ConnectionError) as error:
        # Its own lack of memory comes first: others that failed because of it would hide the cause.
        if is_out_of_memory(error):
            raise
        try:
            # The connection may break a moment before the other process has stored its reason.
            failure = processes.wait(KEY, REASON_TIMEOUT)
        except RuntimeError:  # not even the store can be reached
            failure = None
        if failure is not None:
            raise PeerFailed(failure) from error
        raise Interrupted(f"{PEER_GONE} ({first_line(error)})") from error
