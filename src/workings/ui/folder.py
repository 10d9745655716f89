"""A folder of runs: finds them, and reads their files as JSON. Results are cached until a file changes."""

import contextlib
import json
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar, cast

from workings.errors import RecordError, RequestError
from workings.record.layout import CONFIG, EVALUATION_SUMMARY, MANIFEST, METRICS, PARTIAL_SUFFIX, SEAL
from workings.record.lock import is_held
from workings.record.phase import Phase, read_phases
from workings.record.storage import memory_limit, open_plain, parsed_bytes, read_plain, refuse_too_large

T = TypeVar("T")
Stamp = tuple[tuple[int, int, int], ...]
"""Modification time, size and inode of each file; zeros for a missing one."""


class Parsed(NamedTuple, Generic[T]):
    """A value from files, and about how many bytes it takes in memory."""

    memory_bytes: int
    value: T


MAX_DEPTH = 5
"""Depth of folders to search for runs."""
BLOCK_BYTES = 4 << 20
"""Bytes of lines that are parsed at a time."""
MAX_BYTES_KEPT = 128 << 20
"""Approximate limit of a cache's memory, without its newest entry."""
RESULT_BYTES = 1_000
"""Least bytes that an entry of a cache counts as."""
MAX_JSON_BYTES, MAX_PARSED_BYTES = 8 << 20, 64 << 20
"""Largest JSON file to show, in bytes on disk and in memory. Ordinary ones have some kilobytes."""


@dataclass
class FileCache:
    """Results computed from files, each valid until a file changes. Thread-safe."""

    entries: dict[Hashable, tuple[Stamp, int, Any]] = field(default_factory=dict)
    """Stamp of the files, bytes in memory, and result; the most recently used one is the last."""
    taken_bytes: int = 0
    lock: Lock = field(default_factory=Lock)

    def get(self, key: Hashable, files: Sequence[Path], read: Callable[[], T]) -> T:
        """The result of ``read``, which depends on these files; ``key`` names the result among others of the files.

        A result that is not `Parsed` is taken to need four times the bytes of the files.
        """
        stamp, place = tuple(map(_state, files)), (key, tuple(files))
        kept: Any
        with self.lock:
            if place in self.entries:
                kept_stamp, _, kept = self.entries[place]
                if kept_stamp == stamp:
                    self.entries[place] = self.entries.pop(place)  # the last one is the most recently used
                    return cast("T", kept)
        value = read()  # without the lock, because other pages should not wait for a large file
        needed = value.memory_bytes if isinstance(value, Parsed) else 4 * sum(size for _, size, _ in stamp)
        memory_bytes = max(RESULT_BYTES, needed)
        with self.lock:
            if place in self.entries:
                self._drop(place)
            self.entries[place] = stamp, memory_bytes, value
            self.taken_bytes += memory_bytes
            while len(self.entries) > 1 and self.taken_bytes > MAX_BYTES_KEPT:
                self._drop(next(iter(self.entries)))
        return value

    def _drop(self, place: Hashable) -> None:
        _, memory_bytes, _ = self.entries.pop(place)
        self.taken_bytes -= memory_bytes


def _state(path: Path) -> tuple[int, int, int]:
    try:
        state = path.stat()
    except OSError:
        return 0, 0, 0
    return state.st_mtime_ns, state.st_size, state.st_ino


@dataclass
class Folder:
    """The runs below one directory. Thread-safe."""

    root: Path
    cache: FileCache = field(default_factory=FileCache)
    """Results computed from files: their JSON values, comparisons, rollouts, pairs."""

    def runs(self) -> list[Path]:
        """Run directories and standalone evaluations, sealed or not, by name.

        It does not search inside of them, nor in hidden folders, nor follow links.
        """
        found = []
        for name, subfolders, _ in os.walk(self.root):
            folder = Path(name)
            if _is_unit(folder):
                found.append(folder)
                subfolders.clear()
            elif len(folder.relative_to(self.root).parts) == MAX_DEPTH:
                subfolders.clear()
            subfolders[:] = [subfolder for subfolder in subfolders if not subfolder.startswith(".")]
        return sorted(found)

    def path(self, name: str) -> Path:
        """The path of a run, by its name while it was written or once it is sealed.

        Raises `RequestError` if there is no such run, or the name leads out of the folder.
        """
        for file_name in (name, name + PARTIAL_SUFFIX, name.removesuffix(PARTIAL_SUFFIX)):
            run = self.inside(file_name)
            if _is_unit(run):
                return run
        raise RequestError(f"there is no run {name}", "a run of this folder", "open the list of runs")

    def inside(self, name: str) -> Path:
        """A path below the folder, links resolved. Raises `RequestError` for one that leads out of it."""
        # A NUL would raise another error, which looks like a damaged record.
        if "\0" in name:
            raise RequestError("the path contains a NUL", "a path inside the folder of this page", "")
        # Resolve first, so that neither `..` nor a link deceives the comparison.
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root.resolve()):
            raise RequestError(f"the path {name} leads out of the folder", "a path inside the folder of this page", "")
        return path

    def name(self, run: Path) -> str:
        """A run's name: its path below the folder, without the suffix of an unfinished run; `.` is the folder."""
        if run.name.endswith(PARTIAL_SUFFIX) and run != self.root:
            sealed = run.with_name(run.name.removesuffix(PARTIAL_SUFFIX))
            run = run if sealed.exists() else sealed  # names must be unique
        if run.is_relative_to(self.root):
            return run.relative_to(self.root).as_posix()
        return run.resolve().relative_to(self.root.resolve()).as_posix()

    def weighed(self, path: Path) -> Parsed[dict[str, Any]]:
        """The JSON object in a file, with its bytes in memory. Cached.

        Raises `RecordError` if there is no plain file with a JSON object, or it is larger than a page shows.
        """
        def read() -> Parsed[Any]:
            data = read_plain(path, MAX_JSON_BYTES)
            needed = parsed_bytes(data)
            if needed > MAX_PARSED_BYTES:
                raise RecordError(f"{path.name} holds more values than a page shows")
            try:
                return Parsed(needed, json.loads(data))
            except (ValueError, RecursionError) as error:
                raise RecordError(f"{path.name} cannot be read: {type(error).__name__}") from error

        parsed = self.cache.get("JSON", [path], read)
        if not isinstance(parsed.value, dict):
            raise RecordError(f"{path.name} is not a JSON object")
        return parsed

    def object(self, path: Path) -> dict[str, Any]:
        """The JSON object in a file. Cached. Raises as `weighed`."""
        return self.weighed(path).value

    def lines(self, path: Path) -> list[dict[str, Any]]:
        """The objects in a file of JSON lines. Cached. Raises as `read_lines`."""
        return self.cache.get("lines", [path], lambda: read_lines(path)).value

    def metrics(self, run: Path) -> list[dict[str, Any]]:
        """Valid lines of a run's metrics so far."""
        return metric_lines(self.lines(run / METRICS))

    def worked_out_of_log(self, run: Path, work_out: Callable[[list[dict[str, Any]]], T]) -> T:
        """A result computed from a sealed run's metrics. The result is cached, the lines are not."""
        def read() -> Parsed[T]:
            return Parsed(RESULT_BYTES, work_out(metric_lines(read_lines(run / METRICS).value)))

        return self.cache.get("worked out", [run / METRICS], read).value

    def phases(self) -> dict[str, Phase]:
        """Name -> phase of each run that a process of this machine works on."""
        return {run.relative_to(self.root).as_posix(): phase for run, phase in read_phases().items()
                if run.is_relative_to(self.root)}

    def state(self, run: Path) -> str:
        """`running`, `complete`, `interrupted`, `failed`, or `stopped`: neither sealed nor written by a process."""
        if (run / SEAL).is_file():
            return str(self.object(run / SEAL).get("status", "unknown"))
        with contextlib.suppress(OSError):  # of a file system without locks
            return "running" if is_held(run) else "stopped"
        return "running" if self.name(run) in self.phases() else "stopped"


def _is_unit(path: Path) -> bool:
    # The first file of an unfinished run is its resolved recipe.
    names = (CONFIG,) if path.name.endswith(PARTIAL_SUFFIX) else (MANIFEST, EVALUATION_SUMMARY)
    return any((path / name).is_file() for name in names)


def end_of_text(path: Path, characters: int) -> str:
    """The end of a text file, at most this many characters; empty if there is no plain file."""
    try:
        file = open_plain(path)
    except RecordError:
        return ""
    with file:
        # A character has at most four bytes.
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4 * characters))
        return file.read(4 * characters).decode("utf-8", "replace")[-characters:]


def read_lines(path: Path) -> Parsed[list[dict[str, Any]]]:
    """The objects in a file of JSON lines, with their bytes in memory; none without a file.

    Damaged and unfinished lines are left out. Raises `RecordError` if it is no plain file, or would fill the memory.
    """
    objects: list[dict[str, Any]] = []
    needed = 0
    if not os.path.lexists(path):
        return Parsed(needed, objects)
    with open_plain(path, memory_limit()) as file:
        # In blocks, because parsing needs several times as much memory for a moment.
        while block := file.readlines(BLOCK_BYTES):
            needed += parsed_bytes(b"".join(block), lines=True)
            refuse_too_large(needed, path.name)
            for line in block:
                with contextlib.suppress(ValueError, RecursionError):
                    value = json.loads(line)
                    if line.endswith(b"\n") and isinstance(value, dict):
                        objects.append(value)
    return Parsed(needed, objects)


def metric_lines(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines that have at least step, loss, tokens and seconds."""
    # `type`, not `isinstance`: a bool is an int.
    return [line for line in lines if type(line.get("step")) is int
            and all(type(line.get(key)) in (int, float) for key in ("loss", "tokens", "seconds"))]
