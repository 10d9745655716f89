"""Limits of zip archives (zip bombs, contradicting directories), checked before their contents are read."""

import lzma
import struct
import zipfile
import zlib
from pathlib import Path

from workings.errors import RecordError

MAX_RATIO = 200
"""Largest expansion of an entry above `SMALL_BYTES`. Text of ours reaches 30; deflate itself ends at 1,032."""
SMALL_BYTES = 1 << 20
MAX_ADDED_BYTES = 1 << 30
"""Largest expansion of all entries together, in bytes. A pack stores tensors uncompressed, so that they add nothing."""
MAX_DIRECTORY_BYTES = 32 << 20
"""Largest table of contents, which is read into memory before its entries can be checked."""
DECOMPRESSION_ERRORS = (zlib.error, lzma.LZMAError)

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64_DIRECTORY = struct.Struct("<4Q")
"""Entries on this disk and in all, bytes of the table of contents, and its place."""
_IN_ZIP64 = 0xFFFFFFFF
"""Placeholder of a size that does not fit 32 bits and is in the zip64 record instead."""
_MARKS = (0xFFFF, 0xFFFF, _IN_ZIP64, _IN_ZIP64)


def check_directory(path: Path) -> int:
    """Number of entries that an archive's end record claims.

    Raises:
        RecordError: there is no such record, it contradicts itself, or its table of contents is too large to load.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        # The end record is followed by a comment of at most 65,535 bytes, so it is in this tail if it exists at all.
        start = max(0, size - (1 << 16) - _END.size)
        stream.seek(start)
        tail = stream.read()
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or len(tail) - at < _END.size:
            raise RecordError("not a zip archive that can be read: it has no end record")
        _, *disks, on_disk, entries, directory_bytes, offset, comment = _END.unpack_from(tail, at)
        small, behind = (on_disk, entries, directory_bytes, offset), start + at
        large: tuple[int, ...] = small
        # Where there is a zip64 record, `zipfile` reads that one, not the old record; so both must be small.
        if _has_locator(tail, at) or directory_bytes == _IN_ZIP64:
            behind, large = _zip64_record(path, tail, at)
            directory_bytes = large[2] if directory_bytes == _IN_ZIP64 else max(directory_bytes, large[2])
    if directory_bytes > min(size, MAX_DIRECTORY_BYTES):
        raise RecordError(f"a zip whose table of contents claims {directory_bytes:,} bytes")
    # `zipfile` uses only the size; other programs use number, position or comment, and would unpack other files.
    if any(disks) or at + _END.size + comment != len(tail) or large[0] != large[1] or large[2] + large[3] != behind \
            or any(one not in (mark, other) for one, mark, other in zip(small, _MARKS, large, strict=True)):
        raise RecordError("a zip with a contradictory end record")
    return large[1]


def _has_locator(tail: bytes, at: int) -> bool:
    """Whether the end record at ``at`` follows one that says where the zip64 record is."""
    begin = at - _LOCATOR.size
    return begin >= 0 and tail[begin:begin + 4] == b"PK\x06\x07"


def _zip64_record(path: Path, tail: bytes, at: int) -> tuple[int, tuple[int, ...]]:
    """Offset of the zip64 end record, and its numbers about the table of contents."""
    begin = at - _LOCATOR.size
    if not _has_locator(tail, at):
        raise RecordError("a zip whose large-archive record is missing")
    offset = _LOCATOR.unpack_from(tail, begin)[2]
    with path.open("rb") as stream:
        # These numbers are at byte 24 of the zip64 end record.
        stream.seek(min(offset, path.stat().st_size) + 24)
        data = stream.read(_END64_DIRECTORY.size)
    if len(data) < _END64_DIRECTORY.size:
        raise RecordError("a zip whose large-archive record is cut off")
    return offset, _END64_DIRECTORY.unpack(data)


def check_entries(infos: list[zipfile.ZipInfo], archive_bytes: int) -> None:
    """Refuse repeated names, encryption, overlapping entries and extreme compression. Raises `RecordError`."""
    names: set[str] = set()
    unpacked_bytes = sum(info.file_size for info in infos)
    if unpacked_bytes > archive_bytes + MAX_ADDED_BYTES:
        raise RecordError(f"a zip of {archive_bytes:,} bytes that unpacks to {unpacked_bytes:,}, and "
                          f"{MAX_ADDED_BYTES:,} more than it has are the most; if you trust it, unpack it and verify "
                          "the folder")
    end = 0
    # In the order of their bytes, so that an overlap shows between neighbours and one pass is enough.
    for info in sorted(infos, key=lambda info: info.header_offset):
        full_name = info.filename.rstrip("/")
        name = full_name[:100].encode("unicode_escape").decode("ascii")  # for messages
        # For two entries with one name, programs unpack different ones: the reader would not get what was
        # verified.
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
        # Small entries may expand freely: a file of zeros does so honestly, and the number of entries is limited as
        # well.
        if info.file_size > SMALL_BYTES and info.file_size > MAX_RATIO * max(1, info.compress_size):
            raise RecordError(f"{name}: expands {info.file_size // max(1, info.compress_size)}-fold, "
                              f"{MAX_RATIO} is the most")
