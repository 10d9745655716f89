"""Zip archives that are small and mean much: refused before their contents are touched."""

import lzma
import struct
import zipfile
import zlib
from pathlib import Path

from workings.errors import RecordError

MAX_RATIO = 200
"""Largest expansion of an entry above `SMALL_BYTES`. Text of ours reaches 30; deflate itself ends at 1,032."""
SMALL_BYTES = 1 << 20
MAX_DIRECTORY_BYTES = 32 << 20
"""Largest table of contents: it is read into memory before anything can be said about it."""
DECOMPRESSION_ERRORS = (zlib.error, lzma.LZMAError)

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64_DIRECTORY_SIZE = struct.Struct("<Q")
_IN_ZIP64 = 0xFFFFFFFF
"""Stands for a size that does not fit 32 bits and is in the zip64 record instead."""


def check_directory(path: Path) -> None:
    """Refuse an archive whose table of contents is too large to load. Raises `RecordError`."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        # The end record is followed by a comment of at most 65,535 bytes, so it lies in this tail if it exists at all.
        start = max(0, size - (1 << 16) - _END.size)
        stream.seek(start)
        tail = stream.read()
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or len(tail) - at < _END.size:
            raise RecordError("not a zip archive that can be read: it has no end record")
        directory_bytes = _END.unpack_from(tail, at)[5]
        # Where there is a zip64 record, `zipfile` reads that one, whatever the old record says; so both must be small.
        if _has_locator(tail, at) or directory_bytes == _IN_ZIP64:
            in_zip64 = _zip64_directory_bytes(path, tail, at)
            directory_bytes = in_zip64 if directory_bytes == _IN_ZIP64 else max(directory_bytes, in_zip64)
    if directory_bytes > min(size, MAX_DIRECTORY_BYTES):
        raise RecordError(f"a zip whose table of contents claims {directory_bytes:,} bytes")


def _has_locator(tail: bytes, at: int) -> bool:
    """Whether the end record at ``at`` follows one that says where the zip64 record is."""
    begin = at - _LOCATOR.size
    return begin >= 0 and tail[begin:begin + 4] == b"PK\x06\x07"


def _zip64_directory_bytes(path: Path, tail: bytes, at: int) -> int:
    begin = at - _LOCATOR.size
    if not _has_locator(tail, at):
        raise RecordError("a zip whose large-archive record is missing")
    offset = _LOCATOR.unpack_from(tail, begin)[2]
    with path.open("rb") as stream:
        # The size of the table of contents stands 40 bytes into the zip64 end record.
        stream.seek(min(offset, path.stat().st_size) + 40)
        data = stream.read(_END64_DIRECTORY_SIZE.size)
    if len(data) < _END64_DIRECTORY_SIZE.size:
        raise RecordError("a zip whose large-archive record is cut off")
    return int(_END64_DIRECTORY_SIZE.unpack(data)[0])


def check_entries(infos: list[zipfile.ZipInfo], archive_bytes: int) -> None:
    """Refuse repeated names, encryption, overlapping entries and extreme compression. Raises `RecordError`."""
    names: set[str] = set()
    end = 0
    # In the order of their bytes, so that an overlap shows between neighbours and one pass is enough.
    for info in sorted(infos, key=lambda info: info.header_offset):
        whole = info.filename.rstrip("/")
        name = whole[:100].encode("unicode_escape").decode("ascii")  # for messages
        # Of two entries with one name, different programs unpack different ones: the reader would not get what was
        # verified.
        if whole in names:
            raise RecordError(f"{name}: stands in the zip twice")
        names.add(whole)
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
        # Small entries may expand freely: a file of zeros does so honestly, and the number of entries is limited as
        # well.
        if info.file_size > SMALL_BYTES and info.file_size > MAX_RATIO * max(1, info.compress_size):
            raise RecordError(f"{name}: expands {info.file_size // max(1, info.compress_size)}-fold, "
                              f"{MAX_RATIO} is the most")
