"""Opens untrusted files so that none can hang the reader or fill the memory.

Reads only regular files: no links, which may lead to private files, no endless devices, no unwritten pipes.
The size is that which a reader sees, so that a file with holes counts in full.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from workings.errors import RecordError
from workings.record.storage import PLAIN_ONLY, PRIVATE

MAX_BYTES = 64 << 20
"""Largest file that is read into memory whole (a tokenizer of 256,000 entries has half of that)."""
HOLLOW_BYTES = 1 << 30
"""Files from this size must have at least a thousandth of their bytes on the disk."""
MEMORY_VARIABLE = "WORKINGS_READ_MIB"
"""Environment variable with the memory that the contents of a record may take, in MiB."""
MEMORY_MIB = 300
"""Without it: enough for a tokenizer of 256,000 entries. The program itself takes some 150 MiB more."""


class TooLarge(RecordError):
    """A record's contents would take more memory than is allowed."""


def open_plain(path: Path, limit: int | None = None) -> BinaryIO:
    """A plain file, to be read.

    Args:
        path: the file; only its last part is refused as a link.
        limit: largest size in bytes; None: any, for who reads it in pieces.

    Raises:
        RecordError: it is missing, a link, a folder, a device or a pipe, larger than ``limit``, or not readable.
    """
    try:
        # Looked at before it is opened, because opening alone does something to some devices; and once more when it is
        # open, because another file may be there by then.
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
    # It may have grown since it was opened.
    if limit is not None and len(data) > limit:
        raise RecordError(f"{path.name}: larger than {limit:,} bytes")
    return data


def is_hollow(facts: os.stat_result) -> bool:
    """Whether a large file has hardly any bytes on the disk: a terabyte of nothing would take an hour to be read."""
    # `st_blocks` counts units of 512 bytes, with any blocks of the file system. Windows has no such field.
    return facts.st_size > HOLLOW_BYTES and getattr(facts, "st_blocks", facts.st_size) * 512 < facts.st_size / 1000


def memory_limit() -> int:
    """Memory that the contents of a record may take, in bytes."""
    setting = os.environ.get(MEMORY_VARIABLE, "")
    return (int(setting) if setting.isdecimal() and len(setting) < 10 else MEMORY_MIB) << 20


def parsed_bytes(data: bytes | str, *, lines: bool = False) -> int:
    """Estimated bytes of a JSON text and its values in memory, from its punctuation, before parsing.

    What comes of ordinary records is half of that; of the worst text that was found, once and a half as much. With
    ``lines`` each line is decoded alone.
    """
    comma, bracket, brace, colon, newline = ((b",", b"[", b"{", b":", b"\n") if isinstance(data, bytes) else
                                             (",", "[", "{", ":", "\n"))
    count: Callable[[Any], int] = data.count
    # A number with its place; a list of one entry, which has room for four; an object and its table of five entries; a
    # key with its place. Marks inside of texts count as well.
    objects = 42 * (count(comma) + lines * count(newline)) + 100 * count(bracket) + 64 * count(brace)
    # A text with one character beyond the usual planes takes four bytes for each of its characters.
    return objects + 100 * count(colon) + len(data) * (2 if lines or data.isascii() else 5)


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
    if is_hollow(facts):
        raise RecordError(f"{path.name}: {facts.st_size:,} bytes, but hardly any are on the disk")
    if limit is not None and facts.st_size > limit:
        raise RecordError(f"{path.name}: {facts.st_size:,} bytes, and at most {limit:,} are read")
