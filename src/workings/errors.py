"""Everything this package raises on purpose, as one tree.

    WorkingsError                exit code 1   the answer is no, or the work failed
    ├── RequestError             exit code 2   what was asked for is wrong; nothing was changed
    │   └── DeviceError          exit code 2   the device asked for is absent or unusable
    ├── DoesNotFit               exit code 1   the plan says no
    ├── TrainingFailed           exit code 1   a run stopped by itself (not-a-number, out of memory, disk full)
    │   └── RewardError          exit code 1   a reward function failed or did not return numbers
    ├── RecordError              exit code 1   a run directory is damaged or contradicts itself
    ├── StorageError             exit code 1   the disk is full, read-only or failing; nothing half-written took effect
    │                                          (2 for a path without permission: see `StorageError`)
    └── Interrupted              exit code 130 stopped; the message says how to resume

The command line prints such an error without a traceback; any other exception is a bug and keeps its traceback.
"""

from collections.abc import Mapping
from typing import Any


class WorkingsError(Exception):
    """Base of all errors raised on purpose. ``exit_code`` is what the command line exits with."""

    exit_code = 1


class RequestError(WorkingsError):
    """A user's mistake: says what was given, what was expected and what to type next.

    Args:
        given: what was given, e.g. ``"data.packng: first_fit"``.
        expected: what would have been accepted.
        try_next: a command or an edit that solves the problem; empty if there is none.
    """

    exit_code = 2

    def __init__(self, given: str, expected: str, try_next: str = "") -> None:
        self.given = given
        self.expected = expected
        self.try_next = try_next
        # The terminal colours these labels by their words; continuation lines are indented by the labels' width.
        lines = [f"given:    {given}", f"expected: {expected}"]
        if try_next:
            lines.append(f"try:      {try_next}")
        super().__init__("\n".join(lines))


class DeviceError(RequestError):
    """The requested device is absent, unusable or too small. There is no silent fallback to another device."""


class DoesNotFit(WorkingsError):
    """The compiled step needs more memory than the device has. ``answer`` has the reasons as JSON values."""

    def __init__(self, message: str, answer: Mapping[str, Any] | None = None) -> None:
        self.answer: dict[str, Any] = dict(answer or {})
        super().__init__(message)


class TrainingFailed(WorkingsError):
    """The run failed. Its directory is sealed with status ``failed`` and keeps the last good checkpoint."""


class RewardError(TrainingFailed):
    """A reward function failed, or did not return a finite number for each completion. It never counts as 0."""


class RecordError(WorkingsError):
    """A run directory, unit or checkpoint is damaged, incomplete or contradicts itself."""


class StorageError(WorkingsError):
    """The file system refused a write: full, read-only, not permitted, failing. Existing files are unharmed.

    `workings.record.storage.storage_error` sets ``exit_code`` to 2 if the path itself was a wrong choice.
    """


class Interrupted(WorkingsError):
    """The user stopped the command, or another process of it ended. Finished work is safe."""

    exit_code = 130


PEER_GONE = "another process is gone; continue with the same command, `train` with --auto-resume"
"""Message of `Interrupted` if another process of the run ended."""

OUT_OF_MEMORY_WORDS = (
    "RESOURCE_EXHAUSTED",  # XLA, on every platform
    "Out of memory allocating",  # XLA's CPU client
    "out of memory",  # PyTorch on CUDA, and CUDA itself
    "can't allocate memory",  # PyTorch's CPU allocator
    "std::bad_alloc",  # C++ in either
)
"""Parts of the texts of such errors. By text, because importing a framework for its error class takes seconds."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the device or the host ran out of memory."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in OUT_OF_MEMORY_WORDS)


def first_line(error: BaseException) -> str:
    """The first line of an error's text, at most 300 characters; the error's type if the text is empty."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
