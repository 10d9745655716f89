"""Files that appear whole or not at all, also when the machine stops in between."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from workings.record.canonical import record_line
from workings.record.storage import FOLDERS, PRIVATE, SYNCABLE, storage

TEMPORARY_SUFFIX = ".tmp"
"""Temporary files are hidden (`.name.tmp`), so that a unit that still holds one is never sealed."""


def write_with(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a temporary file next to ``path``, then put it in place. Raises `StorageError`.

    The data reach the disk before the name does, and the name before anything that relies on it.
    """
    temporary = path.with_name(f".{path.name}{TEMPORARY_SUFFIX}")
    with storage(path, "write"):
        try:
            with temporary.open("wb") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        # Also on Ctrl-C: a leftover temporary file would prevent sealing.
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        # The rename is an entry of the folder: until the folder is synced, a power cut may bring the old file back.
        sync_directory(path.parent)


def write_bytes(path: Path, data: bytes | memoryview) -> None:
    """Replace or create a file with ``data``, atomically. Raises `StorageError`."""
    write_with(path, lambda stream: stream.write(data))


def write_text(path: Path, text: str) -> None:
    """Replace or create a UTF-8 text file, atomically. Raises `StorageError`."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, obj: Any) -> None:
    """Replace or create a file with one canonical JSON value and a newline, atomically.

    Raises `RecordError` for a null (give `{"absent": "why"}` instead) or what cannot be JSON, and `StorageError`.
    """
    write_bytes(path, record_line(obj, path.name))


@contextmanager
def new_folder(final: Path, doing: str) -> Iterator[Path]:
    """A hidden folder to fill, which gets its final name when the block ends, and is removed if the block fails.

    ``doing`` is a verb for the message. Raises `StorageError`.
    """
    temporary = final.with_name(f".{final.name}{TEMPORARY_SUFFIX}")
    with storage(final, doing):
        shutil.rmtree(temporary, ignore_errors=True)  # left by a process that was killed
        temporary.mkdir(parents=True)
        try:
            yield temporary
            # Bytes before the name: after a power cut a folder of this name holds whole files.
            sync_tree(temporary)
            temporary.rename(final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        sync_directory(final.parent)


@contextmanager
def together(*paths: Path) -> Iterator[None]:
    """Files that belong together: if the block fails or is interrupted, the files it made are removed."""
    new = [path for path in paths if not os.path.lexists(path)]
    try:
        yield
    except BaseException:
        for path in new:
            path.unlink(missing_ok=True)
        raise


def sync_file(path: Path) -> None:
    """Wait until a file's bytes are on the disk."""
    descriptor = os.open(path, SYNCABLE | PRIVATE)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: Path) -> None:
    """Wait until a folder's names are on the disk, where the system lets us."""
    if FOLDERS:
        sync_file(path)


def sync_tree(root: Path) -> None:
    """Wait until every file and every name below ``root`` is on the disk. Raises `StorageError`."""
    with storage(root, "write"):
        for directory, _, names in os.walk(root):
            for name in names:
                sync_file(Path(directory, name))
            sync_directory(Path(directory))
