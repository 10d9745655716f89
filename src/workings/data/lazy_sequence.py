"""Lazy sequences: of any kind, and the traces of a file.

There may be a million elements. A file of traces is hashed at once and read only when a trace is asked for: rows that
are kept from an earlier run need the digest of the file and none of its traces, and a digest takes a hundredth of the
time.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar, overload

from workings.data.traces import Trace, read_traces
from workings.errors import RequestError
from workings.record.digest import chunks, file_digest
from workings.record.manifest import DRAWN_FROM

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """Index, slices and iteration for a sequence that knows its length and makes an element by its number."""

    @abstractmethod
    def _make(self, number: int) -> T:
        """The element of a number from 0 to the length less one."""

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        if isinstance(at, slice):
            # A range knows negative numbers and steps, and raises IndexError, by which iteration over a sequence ends.
            return [self._make(number) for number in range(len(self))[at]]
        return self._make(range(len(self))[at])


class TraceFile(Sequence[Trace]):
    """The traces of a file. The number of its lines is known before they are read; each is one trace or an error.

    Everything that gives a trace raises `RequestError` as `workings.data.traces.read_traces` does, and when the file
    is no longer the one that was hashed.
    """

    def __init__(self, path: Path) -> None:
        """Hash the file. Raises `RequestError` as `read_traces` for one that is absent or empty."""
        self.path = path
        # One pass over the bytes gives all, in constant memory.
        self.sha256, self._lines, self.may_hold_samples = _looked_at(path) if path.is_file() else ("", 0, False)
        if not self._lines:
            read_traces(path)  # says why it is empty

    @cached_property
    def _traces(self) -> list[Trace]:
        traces = read_traces(self.path)
        # Hashed before and after reading: the recorded digest is then that of the lines that were read.
        if file_digest(self.path) != self.sha256:
            raise RequestError(f"{self.path} changed while it was being read",
                               f"a file that stays as it is, SHA-256 {self.sha256}", "the same command again")
        return traces

    def __len__(self) -> int:
        return self._lines

    @overload
    def __getitem__(self, at: int) -> Trace: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Trace]: ...
    def __getitem__(self, at: int | slice) -> Trace | Sequence[Trace]:
        return self._traces[at]


def _looked_at(path: Path) -> tuple[str, int, bool]:
    """SHA-256 of a file, as hex; its number of lines; and whether a line may name the model it was sampled from.

    A last line without a line break counts.
    """
    # An empty file has no line, which is why the byte before its first counts as a line break.
    digest, lines, last, mark, has_mark = hashlib.sha256(), 0, b"\n", f'"{DRAWN_FROM}"'.encode(), False
    with path.open("rb") as stream:
        for chunk in chunks(stream):
            digest.update(chunk)
            lines += chunk.count(b"\n")
            # The mark may be split by the border of two chunks.
            has_mark = has_mark or mark in last + chunk
            last = chunk[-len(mark):]
    return digest.hexdigest(), lines + (last[-1:] != b"\n"), has_mark
