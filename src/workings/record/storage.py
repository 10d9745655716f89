"""Opens files, also those of other people's records, and turns failed writes into messages that a user can act on.

Of other people's files only plain ones are read: no links, which may lead to private files, and no devices or pipes.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from workings.errors import RecordError, RequestError, StorageError

PRIVATE = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags of files that children do not inherit (on Windows they never do), with bytes unchanged."""
PLAIN_ONLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags with which links are not followed, and pipes are not waited for."""
FOLDERS = hasattr(os, "O_DIRECTORY")
"""Whether a folder can be opened: to be locked, and to wait until its names are on the disk."""
SYNCABLE = os.O_RDONLY if FOLDERS else os.O_RDWR
"""Flags to open a file for syncing; Windows needs write access."""
_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space and start again with --resume",
    errno.EDQUOT: "the disk quota is used up: free some space and start again with --resume",
    errno.EFBIG: "the file may not grow further (a limit on file size): raise it or write elsewhere with --out",
    errno.EROFS: "the file system is read-only: choose another folder with --out",
    errno.EACCES: "permission is missing: choose another folder with --out, or change its permissions",
    errno.EPERM: "the operation is not permitted: choose another folder with --out, or change its permissions",
    errno.EIO: "the disk reports an error: check it before going on",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n)",
    errno.ENAMETOOLONG: "the path is too long: choose a shorter --out",
    errno.EEXIST: "a file of that name is in the way: choose another --out",
    errno.ENOTDIR: "a part of the path is a file and not a folder: choose another --out"}
MAX_BYTES = 64 << 20
"""Largest file that is read into memory whole (a tokenizer of 256,000 entries has half of that)."""
HOLLOW_BYTES = 1 << 30
"""Files from this size must have at least a thousandth of their bytes on the disk."""
MEMORY_VARIABLE = "WORKINGS_READ_MIB"
"""Environment variable with the memory that the contents of a record may take, in MiB."""
MEMORY_MIB = 300
"""Without it: enough for a tokenizer of 256,000 entries. The program itself takes some 150 MiB more."""


@contextmanager
def storage(path: Path, doing: str) -> Iterator[None]:
    """Turn an `OSError` of the block, which is ``doing`` (a verb) something with a path, into a `StorageError`."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path, doing) from error


def is_of_the_disk(error: OSError) -> bool:
    """Whether an error is about the given path, and not one of the program."""
    return error.errno in _ADVICE


def storage_error(error: OSError, path: Path | str, doing: str) -> StorageError:
    """An error of the operating system as one that names the file and what to do. Arguments are those of `storage`."""
    code = error.errno if error.errno is not None else 0
    why = _ADVICE.get(code, error.strerror or str(error))
    failed = StorageError(f"could not {doing} {path}: {why} ({errno.errorcode.get(code, 'no code')})")
    # Nothing failed: a place was named that cannot be written.
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        failed.exit_code = RequestError.exit_code
    return failed


class TooLarge(RecordError):
    """A record's contents would take more memory than is allowed."""


def open_plain(path: Path, limit: int | None = None) -> BinaryIO:
    """A plain file of at most ``limit`` bytes, to be read.

    Raises `RecordError` if it is missing, not readable, too large, a link, a folder, a device or a pipe.
    """
    try:
        # Before it is opened, because opening does something to some devices; and again, because it may be replaced.
        _refuse_others(path, path.lstat(), limit)
        descriptor = os.open(path, os.O_RDONLY | PLAIN_ONLY | PRIVATE)
    except FileNotFoundError:
        raise RecordError(f"{path.name} is missing") from None
    except OSError as error:
        raise RecordError(f"{path.name} cannot be read ({error.strerror})") from None
    try:
        _refuse_others(path, os.fstat(descriptor), limit)
        return os.fdopen(descriptor, "rb")
    except RecordError:
        os.close(descriptor)
        raise


def read_plain(path: Path, limit: int | None = MAX_BYTES) -> bytes:
    """All bytes of a plain file. Raises `RecordError` as `open_plain` does."""
    with open_plain(path, limit) as file:
        try:
            data = file.read() if limit is None else file.read(limit + 1)
        except OSError as error:
            raise RecordError(f"{path.name} cannot be read ({error.strerror})") from None
    if limit is not None and len(data) > limit:
        raise RecordError(f"{path.name}: larger than {limit:,} bytes")
    return data


def memory_limit() -> int:
    """Memory that the contents of a record may take, in bytes."""
    return limit_from_environment(MEMORY_VARIABLE, MEMORY_MIB) << 20


def limit_from_environment(variable: str, default: int) -> int:
    """The number in an environment variable; the default for anything else."""
    setting = os.environ.get(variable, "")
    return int(setting) if setting.isdecimal() and len(setting) < 10 else default


def parsed_bytes(data: bytes | str, *, lines: bool = False) -> int:
    """Estimated bytes of a JSON text and its values in memory, before parsing; with ``lines`` each is decoded alone.

    Ordinary records take half of that, the worst text that was found one and a half times as much.
    """
    def count(mark: str) -> int:
        return data.count(mark.encode()) if isinstance(data, bytes) else data.count(mark)

    # A number with its place; a list of one entry, which has room for four; an object and its table of five entries; a
    # key with its place. Marks inside of texts count as well.
    numbers = count(",") + (count("\n") if lines else 0)
    objects = 42 * numbers + 100 * count("[") + 64 * count("{") + 100 * count(":")
    # A text with one character beyond the usual planes takes four bytes for each of its characters.
    return objects + len(data) * (2 if lines or data.isascii() else 5)


def refuse_too_large(needed: int, what: str) -> None:
    """Raise `TooLarge` if ``needed`` bytes are more than `memory_limit`."""
    if needed > memory_limit():
        raise TooLarge(f"{what} would take {needed / 2**20:,.0f} MiB in memory, {memory_limit() >> 20} are allowed; "
                       f"{MEMORY_VARIABLE}={-(-needed >> 20) + 1} allows more, for a record that you trust")


def _refuse_others(path: Path, facts: os.stat_result, limit: int | None) -> None:
    if not stat.S_ISREG(facts.st_mode):
        kinds = ((stat.S_ISLNK, "a link"), (stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"))
        kind = next((name for test, name in kinds if test(facts.st_mode)), "a device")
        raise RecordError(f"{path.name}: {kind}, and no plain file")
    # A terabyte of holes would take an hour to read. `st_blocks` counts 512 bytes; Windows has no such field.
    if facts.st_size > HOLLOW_BYTES and getattr(facts, "st_blocks", facts.st_size) * 512 < facts.st_size / 1000:
        raise RecordError(f"{path.name}: {facts.st_size:,} bytes, but hardly any are on the disk")
    if limit is not None and facts.st_size > limit:
        raise RecordError(f"{path.name}: {facts.st_size:,} bytes, and at most {limit:,} are read")
