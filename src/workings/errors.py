"""Everything this package raises on purpose, as one tree.

    WorkingsError                exit code 1   the answer is no, or the work failed
    ├── RequestError             exit code 2   what was asked for is wrong; nothing was changed
    │   └── DeviceError          exit code 2   the device asked for is absent or unusable
    ├── DoesNotFit               exit code 1   the plan says no
    ├── TrainingFailed           exit code 1   a run stopped by itself (not-a-number, out of memory, disk full)
    │   └── RewardError          exit code 1   a reward function failed, or gave back something else than numbers
    ├── RecordError              exit code 1   a run directory is damaged or is not what it says
    ├── StorageError             exit code 1   the disk is full, read-only or failing; nothing half-written took effect
    │                                          (2 where a place without permission was named)
    └── Interrupted              exit code 130 stopped, and can be resumed; the message says how

The command line prints such an error without a traceback; any other exception is a bug and keeps its traceback. At the
end of the file: errors of frameworks, recognized by their text without importing them.
"""

from collections.abc import Mapping
from typing import Any


class WorkingsError(Exception):
    """Base of all errors raised on purpose. ``exit_code`` is what the command line exits with."""

    exit_code = 1


class RequestError(WorkingsError):
    """A person's mistake: says what was given, what was expected and what to type next.

    Args:
        given: what was given, e.g. ``"data.packng: first_fit"``.
        expected: what would have been right.
        try_next: a command or an edit that gets the person further; may be empty where none exists.
    """

    exit_code = 2

    def __init__(self, given: str, expected: str, try_next: str = "") -> None:
        self.given = given
        self.expected = expected
        self.try_next = try_next
        # The terminal paints these labels by their words, and further lines of a part are indented by their width.
        super().__init__("\n".join(line for line in (
            f"given:    {given}",
            f"expected: {expected}",
            f"try:      {try_next}" if try_next else "",
        ) if line))


class DeviceError(RequestError):
    """The device asked for is absent, unusable or too small. Never answered by another device in silence."""


class DoesNotFit(WorkingsError):
    """The compiled step needs more memory than the device has.

    Args:
        message: the reasons, for humans.
        answer: the same for tools, as JSON values.
    """

    def __init__(self, message: str, answer: Mapping[str, Any] | None = None) -> None:
        self.answer: dict[str, Any] = dict(answer or {})
        super().__init__(message)


class TrainingFailed(WorkingsError):
    """A run stopped by itself. Its directory is sealed with status ``failed`` and keeps the last good checkpoint."""


class RewardError(TrainingFailed):
    """A reward function failed or gave back something else than a finite number for each completion.

    The message names the reward, the completion where it is about one, and what came back. Nothing is mistaken for 0.
    """


class RecordError(WorkingsError):
    """A run directory, unit or checkpoint is damaged, incomplete or not what it says it is."""


class StorageError(WorkingsError):
    """The file system refused a write: full, read-only, not permitted, failing. What was there before is unharmed."""


class Interrupted(WorkingsError):
    """A person or the loss of another process stopped it. What was finished is safe; the message says how to go on."""

    exit_code = 130


PEER_GONE = "another process is gone; continue with the same command and --auto-resume"
"""What every process says that has lost another one of its run, and exits as `Interrupted`."""

OUT_OF_MEMORY_WORDS = (
    "RESOURCE_EXHAUSTED",  # XLA, on every platform
    "Out of memory allocating",  # XLA's CPU client
    "out of memory",  # PyTorch on CUDA, and CUDA itself
    "can't allocate memory",  # PyTorch's CPU allocator
    "std::bad_alloc",  # C++ in either
)
"""Words of `jax.errors.JaxRuntimeError`, `torch.OutOfMemoryError` and other runtime errors."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the device or on the host."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in OUT_OF_MEMORY_WORDS)


def first_line(error: BaseException) -> str:
    """The first line of an error's text, at most 300 characters; its type if the text is empty."""
    said = str(error).strip().splitlines()
    return said[0][:300] if said else type(error).__name__
