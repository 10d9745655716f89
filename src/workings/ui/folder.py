"""A folder of runs: found by their files, read as JSON, cached until a file changes."""

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from workings.errors import RecordError, RequestError
from workings.record.layout import CONFIG, EVALUATION_SUMMARY, MANIFEST, METRICS, PARTIAL_SUFFIX, SEAL
from workings.record.lock import is_held
from workings.record.storage import memory_limit, parsed_bytes, read_plain, refuse_too_large
from workings.ui.file_cache import FileCache
from workings.ui.series import Columns
from workings.ui.tail import Tail

T = TypeVar("T")
MAX_DEPTH = 5
"""Depth of folders to search for runs."""
KEPT_FILES = 20_000
"""Maximum number of small JSON files in memory."""
KEPT_WORKED_OUT = 128
"""Maximum number of results in `Folder.worked_out`."""
RESULT_BYTES = 1_000
"""Bytes of a few numbers that follow from a file, as an upper limit."""
MAX_JSON_BYTES, MAX_PARSED_BYTES = 8 << 20, 64 << 20
"""Largest JSON file to show, on disk and in memory, in bytes. Ordinary ones have some kilobytes."""
QUIET_SECONDS = 120
"""On a file system without locks, a run counts as running while its log is younger than this, in seconds."""


@dataclass
class Folder:
    """The runs below one directory. Thread-safe: cached values are only replaced, never changed."""

    root: Path
    worked_out: FileCache = field(default_factory=lambda: FileCache(KEPT_WORKED_OUT))
    """Results computed from files: comparisons, rollouts, pairs, answers during training, …"""
    _read: FileCache = field(default_factory=lambda: FileCache(KEPT_FILES))
    _tails: dict[Path, Tail] = field(default_factory=dict)
    _columns: dict[Path, tuple[Tail, Columns]] = field(default_factory=dict)
    _growing: Lock = field(default_factory=Lock)

    def runs(self) -> list[Path]:
        """Run directories and standalone evaluations, sealed or not, by name."""
        return sorted(_find(self.root, MAX_DEPTH))

    def path(self, name: str) -> Path:
        """The path of a run by its name, which is its path below the folder.

        An unsealed run has another name. Both names find it before and after sealing, so that addresses stay valid.

        Raises:
            RequestError: there is no such run, or the name leads out of the folder.
        """
        for file_name in (name, name + PARTIAL_SUFFIX, name.removesuffix(PARTIAL_SUFFIX)):
            if _is_unit(run := self.inside(file_name)):
                return run
        raise RequestError(f"there is no run {name}", "a run of this folder", "open the list of runs")

    def inside(self, name: str) -> Path:
        """A path below the folder, links resolved. Raises `RequestError` for one that leads out of it."""
        # The system refuses a NUL with another error, which would look like a damaged record.
        if "\0" in name:
            raise RequestError("the path contains a NUL", "a path inside the folder of this page", "")
        # Resolve first, so that neither `..` nor a link deceives the comparison.
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root.resolve()):
            raise RequestError(f"the path {name} leads out of the folder", "a path inside the folder of this page", "")
        return path

    def name(self, run: Path) -> str:
        """A run's name: its path below the folder once it is sealed; `.` is the folder itself."""
        if run.name.endswith(PARTIAL_SUFFIX) and run != self.root:
            sealed = run.with_name(run.name.removesuffix(PARTIAL_SUFFIX))
            run = run if sealed.exists() else sealed  # names must be unique
        if run.is_relative_to(self.root):  # found below it, so nothing on the way is a link
            return run.relative_to(self.root).as_posix()
        return run.resolve().relative_to(self.root.resolve()).as_posix()

    def json(self, path: Path) -> Any:
        """A JSON file, read again only if it changed.

        Raises:
            RecordError: it is missing, no regular file, no JSON, or larger than a page shows.
        """
        return self.weighed(path)[1]

    def weighed(self, path: Path) -> tuple[int, Any]:
        """Upper bound of the object's bytes in memory, and the object."""
        def read() -> tuple[int, Any]:
            data = read_plain(path, MAX_JSON_BYTES)
            # Before parsing, because Python's objects take many times the bytes of the text.
            needed = parsed_bytes(data)
            if needed > MAX_PARSED_BYTES:
                raise RecordError(f"{path.name} holds more values than a page shows")
            try:
                return needed, json.loads(data)
            except (ValueError, RecursionError) as error:
                raise RecordError(f"{path.name} cannot be read: {type(error).__name__}") from error
        return self._read.get(path, read, itemgetter(0))

    def object(self, path: Path) -> dict[str, Any]:
        """A JSON object; like `json`, with `RecordError` for any other value."""
        value = self.json(path)
        if not isinstance(value, dict):
            raise RecordError(f"{path.name} is not a JSON object")
        return value

    def metrics(self, run: Path) -> list[dict[str, Any]]:
        """Valid lines of a run's metrics so far; reads only what was added."""
        return _metrics(self.tail(run / METRICS))

    def worked_out_of_log(self, run: Path, work_out: Callable[[list[dict[str, Any]]], T]) -> T:
        """A result computed from a sealed run's metrics, whose lines are read once and not cached."""
        file = run / METRICS
        return self._read.get(file, lambda: work_out(_metrics(Tail(file, self._make_room))), lambda _: RESULT_BYTES,
                              key="worked out")

    def columns(self, run: Path) -> Columns:
        """A run's metrics so far as arrays; converts only what was added."""
        # One reader for both: a resume replaces the log, and its columns must not be appended to the old ones.
        tail = self.tail(run / METRICS)
        lines = _metrics(tail)
        with self._growing:
            cached = self._columns.get(run)
        before = cached[1] if cached is not None and cached[0] is tail and cached[1].count <= len(lines) else Columns()
        # If two threads read at once, the last result is kept; what it lacks is read again.
        columns = before.grown(lines)
        with self._growing:
            self._columns[run] = (tail, columns)
        return columns

    def tail(self, path: Path) -> Tail:
        """The reader of a JSON-lines file; a new one where the file was replaced."""
        with self._growing:
            tail = self._tails.pop(path, None)
            if tail is None or not tail.continues():
                tail = Tail(path, self._make_room)
            self._tails[path] = tail  # the newest is last
        return tail

    def _make_room(self, tail: Tail, needed: int) -> None:
        """Drop the least recently used files to make room for more lines of this one."""
        refuse_too_large(tail.bytes + needed, tail.path.name)
        with self._growing:
            kept_bytes = needed + sum(open_tail.bytes for open_tail in self._tails.values())
            for old in [open_tail for open_tail in self._tails.values() if open_tail is not tail]:
                if kept_bytes <= memory_limit():
                    break
                kept_bytes -= self._tails.pop(old.path).bytes
                self._columns = {run: columns for run, columns in self._columns.items() if columns[0] is not old}

    def state(self, run: Path) -> str:
        """`running`, `complete`, `interrupted`, `failed`, or `stopped` (not sealed, and no process writes it)."""
        if (run / SEAL).is_file():
            return str(self.object(run / SEAL).get("status", "unknown"))
        return "running" if _written_now(run) else "stopped"


def _find(folder: Path, depth: int) -> Iterator[Path]:
    """Units below a folder; does not search inside a unit or follow links."""
    # Do not descend into a unit, which may hold thousands of files.
    if _is_unit(folder):
        yield folder
        return
    if depth == 0:
        return
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        # A link could lead in a circle, or out of the folder.
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
            yield from _find(Path(entry.path), depth - 1)


def _is_unit(path: Path) -> bool:
    # An unfinished run has no manifest yet; its resolved recipe is written first.
    names = (MANIFEST, EVALUATION_SUMMARY) if not path.name.endswith(PARTIAL_SUFFIX) else (CONFIG,)
    return any((path / name).is_file() for name in names)


def _metrics(tail: Tail) -> list[dict[str, Any]]:
    lines = tail.lines()
    # One tuple, so that no other thread mixes its count with these lines.
    seen, metrics = tail.derived or (0, [])
    if seen != len(lines):
        # A new list, because another thread may be reading the old one.
        metrics = [*metrics, *(line for line in lines[seen:] if _is_metric(line))]
        tail.derived = len(lines), metrics
    rows: list[dict[str, Any]] = metrics
    return rows


def _is_metric(line: dict[str, Any]) -> bool:
    kinds = (int, float)
    return (type(line.get("step")) is int and type(line.get("loss")) in kinds and type(line.get("tokens")) in kinds
            and type(line.get("seconds")) in kinds)


def _written_now(run: Path) -> bool:
    """Whether a writer holds the run's lock; without locks, whether its log is younger than `QUIET_SECONDS`."""
    try:
        # The kernel releases a lock when its process ends, so a killed run does not count as running.
        return is_held(run)
    except OSError:
        metrics = run / METRICS
        return metrics.is_file() and time.time() - metrics.stat().st_mtime < QUIET_SECONDS
