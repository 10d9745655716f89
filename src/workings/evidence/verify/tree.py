"""Files to verify, in a folder or a zip, read without following a link, unpacking or trusting a size.

Nothing is written, and nothing outside the given path is opened.
"""

import os
import stat
import struct
import weakref
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Literal, NamedTuple

from workings.errors import RecordError, RequestError
from workings.evidence.verify.limits import ParseCache, ScoringTime
from workings.record.layout import partial_path
from workings.record.storage import MAX_BYTES, open_plain

MAX_ENTRIES = 100_000
MAX_NAME_CHARS, MAX_DEPTH = 1024, 32
MAX_RATIO = 200
"""Largest expansion of an entry above `SMALL_BYTES`. Text of ours reaches 30; deflate itself ends at 1,032."""
SMALL_BYTES = 1 << 20
MAX_ADDED_BYTES = 1 << 30
"""Largest expansion of all entries together, in bytes. A pack stores tensors uncompressed, so that they add nothing."""
MAX_DIRECTORY_BYTES = 32 << 20
"""Largest table of contents, which is read into memory before its entries can be checked."""

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_DIRECTORY = struct.Struct("<4Q")
"""The fields of `_Directory` in the zip64 record."""


class _Directory(NamedTuple):
    """Numbers of an end record: entries on this disk and in all, bytes of the table of contents, and its place."""

    on_this_disk: int
    entries: int
    size: int
    offset: int


_MARKS = _Directory(0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
"""Values of the end record that refer to the zip64 record."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file, folder or other name below the path."""

    name: str
    """Relative path with `/`."""
    kind: Literal["file", "folder", "other"]
    """`other`: a link, a device, a pipe."""
    size: int
    """Bytes, as the folder or archive says."""


class Tree(ABC):
    """Files to verify."""

    def __init__(self, path: Path, entries: Iterable[Entry]) -> None:
        self.path = path
        self.entries = tuple(sorted(entries, key=lambda entry: entry.name))
        """All names below the path, sorted."""
        self.cache, self.scoring = ParseCache(), ScoringTime()
        """Parsed values of its files, and time spent on scoring its completions."""

    @cached_property
    def filled_folders(self) -> frozenset[str]:
        """Folders with a file somewhere below them."""
        return frozenset(parent.as_posix() for entry in self.entries if entry.kind != "folder"
                         for parent in PurePosixPath(entry.name).parents)

    @abstractmethod
    def stream(self, name: str) -> IO[bytes]:
        """A file's bytes, to be closed. May raise other errors than `RecordError` while it is read."""

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A file's bytes as a stream. Raises `RecordError` if they cannot be read (bad checksum, say)."""
        try:
            with self.stream(name) as stream:
                yield stream
        except zlib.error as error:
            raise RecordError(f"{shown(name)}: broken compression ({str(error)[:100]})") from None
        except (KeyError, OSError, zipfile.BadZipFile, EOFError, ValueError, RuntimeError) as error:
            why = str(getattr(error, "strerror", None) or error)
            raise RecordError(f"{shown(name)}: cannot be read ({why[:100]})") from None

    def read(self, name: str, limit: int = MAX_BYTES) -> bytes:
        """A file's bytes. Raises `RecordError` if there are more than ``limit``."""
        with self.open(name) as stream:
            # One byte more than allowed: the size that a folder or archive claims may be wrong.
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise RecordError(f"{shown(name)}: larger than {limit >> 20} MiB")
        return data


class FolderTree(Tree):
    """Files of a folder."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _folder_entries(path))

    def stream(self, name: str) -> IO[bytes]:
        """A file's bytes; a link is not followed."""
        try:
            return open_plain(self.path / name)
        except RecordError as error:
            raise RecordError(f"{shown(name)}: {error}") from None


def _folder_entries(path: Path) -> Iterator[Entry]:
    """Entries of a folder and of the folders in it. Raises `RecordError`."""
    count = 0
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(path / prefix) as items:
                for item in items:
                    count += 1
                    if count > MAX_ENTRIES:
                        raise RecordError(f"more than {MAX_ENTRIES:,} files and folders")
                    facts = item.stat(follow_symlinks=False)
                    name = _checked(prefix + item.name)
                    if stat.S_ISDIR(facts.st_mode):
                        waiting.append(name + "/")
                        yield Entry(name=name, kind="folder", size=0)
                    elif stat.S_ISREG(facts.st_mode):
                        yield Entry(name=name, kind="file", size=facts.st_size)
                    else:
                        yield Entry(name=name, kind="other", size=0)
        except OSError as error:
            raise RecordError(f"{shown(prefix) or path}: cannot be listed ({error.strerror})") from None


class ZipTree(Tree):
    """Files of a zip archive, which are read entry by entry and never unpacked."""

    def __init__(self, path: Path) -> None:
        # Checked first, because `ZipFile` reads the whole table of contents into memory.
        claimed = check_directory(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise RecordError(f"not a zip archive that can be read: {str(error)[:200]}") from None
        # In a cycle of references, the open file could be collected before the archive that closes it.
        weakref.finalize(self, self._zip.close)
        infos = self._zip.infolist()
        if len(infos) > MAX_ENTRIES:
            raise RecordError(f"more than {MAX_ENTRIES:,} entries")
        if len(infos) != claimed:
            raise RecordError(f"a zip whose end record claims {claimed:,} entries, but has {len(infos):,}")
        check_entries(infos, path.stat().st_size)
        super().__init__(path, _zip_entries(infos))

    def stream(self, name: str) -> IO[bytes]:
        """An entry's bytes."""
        return self._zip.open(name)


def _checked(name: str) -> str:
    """The name. Raises `RecordError` if it is too long or too deep."""
    if len(name) > MAX_NAME_CHARS or name.count("/") >= MAX_DEPTH:
        raise RecordError(f"{shown(name)}: a path longer than {MAX_NAME_CHARS} characters or {MAX_DEPTH} folders")
    return name


def _zip_entries(infos: list[zipfile.ZipInfo]) -> Iterator[Entry]:
    folders: dict[str, Entry] = {}
    for info in infos:
        name = _checked(info.filename.rstrip("/"))
        # A reader may unpack it on Windows, where a backslash separates folders and a colon names a drive.
        if name.startswith("/") or "\\" in name or ":" in name or ".." in name.split("/"):
            raise RecordError(f"{shown(name)}: leads out of the archive")
        for parent in PurePosixPath(name).parents:  # folders may only appear in the paths of their files
            if parent.name:
                folders.setdefault(str(parent), Entry(name=str(parent), kind="folder", size=0))
        if info.is_dir():
            folders[name] = Entry(name=name, kind="folder", size=0)
        # The upper half holds Unix's mode, links included; archives made elsewhere leave it 0 and hold plain files.
        elif stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            yield Entry(name=name, kind="other", size=0)
        else:
            yield Entry(name=name, kind="file", size=info.file_size)
    yield from folders.values()


def open_tree(path: Path) -> Tree:
    """The tree at a path. Raises `RequestError` if nothing is there, and `RecordError` if it cannot be read safely."""
    if path.is_dir():
        return FolderTree(path)
    if path.is_file():
        return ZipTree(path)
    partial = partial_path(path)
    if partial.is_dir():
        raise RequestError(f"{path} is a run that has not ended", "a sealed run directory",
                           f"the command that started it, with --resume; so far it is in {partial}")
    raise RequestError(f"there is no record {path}", "a run directory, a folder of runs, or a packed .zip",
                       "workings runs")


def shown(name: str) -> str:
    """A name for a report, of limited length, without control characters that could overwrite text in a terminal."""
    is_plain = name.isascii() and name.isprintable() and "\\" not in name  # nearly every name
    text = name if is_plain else name.encode("unicode_escape").decode("ascii")
    return text if len(text) <= 120 else text[:117] + "…"


def check_directory(path: Path) -> int:
    """Number of entries that an archive's end record claims.

    Raises `RecordError`: there is no such record, it contradicts itself, or the table of contents is too large.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        stream.seek(max(0, size - _LOCATOR.size - _END.size))
        tail = stream.read()
        locator, end = tail[:-_END.size], tail[-_END.size:]
        if len(end) < _END.size or not end.startswith(b"PK\x05\x06"):
            raise RecordError("not a zip archive that can be read: it has no end record, or a comment")
        _, disk, disk_of_directory, *numbers, comment_bytes = _END.unpack(end)
        small = directory = _Directory(*numbers)
        position_after = size - _END.size
        # Where there is a zip64 record, `zipfile` reads that one; its table of contents must be small as well.
        if locator.startswith(b"PK\x06\x07"):
            position_after = _LOCATOR.unpack(locator)[2]
            stream.seek(min(position_after, size) + 24)  # 24 bytes into that record
            data = stream.read(_DIRECTORY.size)
            if len(data) < _DIRECTORY.size:
                raise RecordError("a zip whose large-archive record is cut off")
            directory = _Directory(*_DIRECTORY.unpack(data))
    if directory.size > min(size, MAX_DIRECTORY_BYTES):
        raise RecordError(f"a zip whose table of contents claims {directory.size:,} bytes")
    # `zipfile` uses only the size; other programs use number, position or comment, and would unpack other files.
    is_alike = all(one in (mark, other) for one, mark, other in zip(small, _MARKS, directory, strict=True))
    is_one_file = disk == disk_of_directory == 0 and directory.on_this_disk == directory.entries
    if not is_one_file or not is_alike or comment_bytes or directory.size + directory.offset != position_after:
        raise RecordError("a zip with a contradictory end record")
    return directory.entries


def check_entries(infos: list[zipfile.ZipInfo], archive_bytes: int) -> None:
    """Refuse repeated names, encryption, overlapping entries and extreme compression. Raises `RecordError`."""
    names: set[str] = set()
    unpacked_bytes = sum(info.file_size for info in infos)
    if unpacked_bytes > archive_bytes + MAX_ADDED_BYTES:
        raise RecordError(f"a zip of {archive_bytes:,} bytes that unpacks to {unpacked_bytes:,}, and "
                          f"{MAX_ADDED_BYTES:,} more than it has are the most; if you trust it, unpack it and verify "
                          "the folder")
    end = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        full_name = info.filename.rstrip("/")
        name = full_name[:100].encode("unicode_escape").decode("ascii")  # for messages
        # Programs differ in which of two entries with one name they unpack.
        if full_name in names:
            raise RecordError(f"{name}: is in the zip twice")
        names.add(full_name)
        if info.flag_bits & 1:
            raise RecordError(f"{name}: encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RecordError(f"{name}: compressed by a method other than deflate")
        if info.header_offset < end:  # the same bytes unpacked many times over
            raise RecordError(f"{name}: overlaps another entry of the zip")
        # A local header has at least 30 bytes; its name and extra fields follow, so this is a lower bound.
        end = info.header_offset + 30 + info.compress_size
        if end > archive_bytes:
            raise RecordError(f"{name}: claims more bytes than the archive has")
        # Small entries may expand freely: an honest file of zeros does.
        if info.file_size > SMALL_BYTES and info.file_size > MAX_RATIO * max(1, info.compress_size):
            raise RecordError(f"{name}: expands {info.file_size // max(1, info.compress_size)}-fold, "
                              f"{MAX_RATIO} is the most")
