"""Files to verify, in a folder or a zip, read without following a link, unpacking or trusting a size.

Nothing is written, and nothing outside the given path is opened.
"""

import os
import stat
import weakref
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, Protocol

from workings.errors import RecordError, RequestError
from workings.evidence.verify import zip_limits
from workings.evidence.verify.limits import ScoringTime
from workings.evidence.verify.parse_cache import ParseCache
from workings.record.digest import stream_digest
from workings.record.layout import partial_path
from workings.record.storage import PLAIN_ONLY, PRIVATE
from workings.record.untrusted_files import is_hollow

MAX_ENTRIES = 100_000
"""Largest number of files and folders."""
MAX_READ_BYTES = 64 << 20
"""Largest file that is read into memory whole; larger ones are only hashed."""
MAX_NAME_CHARS, MAX_DEPTH = 1024, 32
"""Longest path, in characters and in folders."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file, folder or other name below the path."""

    name: str
    """Relative path with `/`."""
    kind: Literal["file", "folder", "other"]
    """`other`: a link, a device, a pipe."""
    size: int
    """Bytes, as the folder or archive says."""


class Tree(Protocol):
    """Files to verify."""

    entries: tuple[Entry, ...]
    """All names below the path, sorted."""
    path: Path
    cache: ParseCache
    """Parsed values of its files."""
    scoring: ScoringTime
    """Time spent on scoring its completions."""

    def open(self, name: str) -> IO[bytes]:
        """A file's bytes as a stream. Raises `RecordError` if they cannot be read."""
        ...


class FolderTree:
    """Files of a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cache, self.scoring = ParseCache(), ScoringTime()
        self.entries = tuple(sorted(self._walk(), key=lambda entry: entry.name))

    def open(self, name: str) -> IO[bytes]:
        """A file's bytes; a link is not followed."""
        try:
            # The flag refuses a link in the last place only; folders on the way were listed as real folders by `_walk`.
            descriptor = os.open(self.path / name, os.O_RDONLY | PLAIN_ONLY | PRIVATE)
        except OSError as error:
            raise RecordError(f"{shown(name)}: cannot be read ({error.strerror})") from None
        facts = os.fstat(descriptor)
        if is_hollow(facts):
            os.close(descriptor)
            raise RecordError(f"{shown(name)}: {facts.st_size:,} bytes, but hardly any are on the disk")
        return os.fdopen(descriptor, "rb")

    def _walk(self) -> Iterator[Entry]:
        count = 0
        # A list instead of recursion: the depth of a hostile tree must not decide whether Python's stack suffices.
        waiting = [""]
        while waiting:
            prefix = waiting.pop()
            for item in self._listed(prefix):
                # Counted over all folders together, and before any of them is sorted: a tree of millions of names is
                # given up in the middle.
                count += 1
                if count > MAX_ENTRIES:
                    raise RecordError(f"more than {MAX_ENTRIES:,} files and folders")
                # Without following links: a link to a folder would let the walk leave the path, or go round in circles.
                facts = item.stat(follow_symlinks=False)
                name = _checked(prefix + item.name)
                if stat.S_ISDIR(facts.st_mode):
                    waiting.append(name + "/")
                    yield Entry(name=name, kind="folder", size=0)
                elif stat.S_ISREG(facts.st_mode):
                    yield Entry(name=name, kind="file", size=facts.st_size)
                else:
                    yield Entry(name=name, kind="other", size=0)

    def _listed(self, prefix: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self.path / prefix) as entries:
                yield from entries
        except OSError as error:
            raise RecordError(f"{shown(prefix) or self.path}: cannot be listed ({error.strerror})") from None


class ZipTree:
    """Files of a zip archive, which are read entry by entry and never unpacked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cache, self.scoring = ParseCache(), ScoringTime()
        # First, because `ZipFile` reads the whole table of contents into memory as soon as it is made.
        claimed = zip_limits.check_directory(path)
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise RecordError(f"not a zip archive that can be read: {str(error)[:200]}") from None
        # In a cycle of references, the open file could be collected before the archive that closes it.
        weakref.finalize(self, self._zip.close)
        infos = self._zip.infolist()
        # Check the entries by the table before unpacking any byte.
        if len(infos) > MAX_ENTRIES:
            raise RecordError(f"more than {MAX_ENTRIES:,} entries")
        if len(infos) != claimed:
            raise RecordError(f"a zip whose end record claims {claimed:,} entries, but has {len(infos):,}")
        zip_limits.check_entries(infos, path.stat().st_size)
        self.entries = tuple(sorted(_zip_entries(infos), key=lambda entry: entry.name))

    def open(self, name: str) -> IO[bytes]:
        """An entry's bytes."""
        try:
            return self._zip.open(name)
        except (KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
            raise RecordError(f"{shown(name)}: cannot be read ({str(error)[:100]})") from None


def _checked(name: str) -> str:
    if len(name) > MAX_NAME_CHARS or name.count("/") >= MAX_DEPTH:
        raise RecordError(f"{shown(name)}: a path longer than {MAX_NAME_CHARS} characters or {MAX_DEPTH} folders")
    return name


def _zip_entries(infos: list[zipfile.ZipInfo]) -> Iterator[Entry]:
    folders: dict[str, Entry] = {}
    for info in infos:
        name = _checked(info.filename.rstrip("/"))
        # Nothing is unpacked here, but a reader unpacks it afterwards: Windows takes a backslash as a separator and a
        # colon as a drive or a hidden stream.
        if name.startswith("/") or "\\" in name or ":" in name or ".." in name.split("/"):
            raise RecordError(f"{shown(name)}: leads out of the archive")
        for parent in Path(name).parents:  # folders that only appear in the paths of their files
            if parent.as_posix() not in (".", "/"):
                folders.setdefault(parent.as_posix(), Entry(name=parent.as_posix(), kind="folder", size=0))
        # The upper half holds Unix's mode, links included; archives made elsewhere leave it 0 and hold plain files.
        mode = info.external_attr >> 16
        if info.is_dir():
            folders[name] = Entry(name=name, kind="folder", size=0)
        elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            yield Entry(name=name, kind="other", size=0)
        else:
            yield Entry(name=name, kind="file", size=info.file_size)
    yield from folders.values()


def open_tree(path: Path) -> Tree:
    """The tree at a path.

    Raises:
        RequestError: there is nothing at the path, or something that is neither a folder nor a zip.
        RecordError: it cannot be read safely.
    """
    if path.is_dir():
        return FolderTree(path)
    if path.is_file():
        return ZipTree(path)
    # The most likely mistake, so it has a separate message.
    if (partial := partial_path(path)).is_dir():
        raise RequestError(f"{path} is a run that has not ended", "a sealed run directory",
                           f"the command that started it, with --resume; so far it is in {partial}")
    raise RequestError(f"there is no record {path}", "a run directory, a folder of runs, or a packed .zip",
                       "workings runs")


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn errors of streaming an entry (bad checksum, broken compression) into a `RecordError`."""
    try:
        yield
    except (OSError, zipfile.BadZipFile, EOFError, ValueError, RuntimeError, NotImplementedError) as error:
        raise RecordError(f"{shown(name)}: cannot be read ({str(error)[:100]})") from None
    except zip_limits.DECOMPRESSION_ERRORS as error:
        raise RecordError(f"{shown(name)}: broken compression ({str(error)[:100]})") from None


def digest(tree: Tree, name: str, progress: Callable[[int], None] | None = None) -> tuple[str, int]:
    """SHA-256 and real length of a file. Raises `RecordError`."""
    with tree.open(name) as stream, reading(name):
        return stream_digest(stream, progress)


def read(tree: Tree, name: str, limit: int = MAX_READ_BYTES) -> bytes:
    """A file's bytes. Raises `RecordError` if there are more than ``limit``."""
    with tree.open(name) as stream, reading(name):
        # One byte more than allowed shows that there is more, without believing the size that folder or archive claims.
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise RecordError(f"{shown(name)}: larger than {limit >> 20} MiB")
    return data


def shown(name: str) -> str:
    """A name for a report, without control characters and of limited length."""
    # Control characters in a name could move the cursor and overwrite a verdict in the reader's terminal.
    plain = name.isascii() and name.isprintable() and "\\" not in name  # nearly every name
    text = name if plain else name.encode("unicode_escape").decode("ascii")
    return text if len(text) <= 120 else text[:117] + "…"
