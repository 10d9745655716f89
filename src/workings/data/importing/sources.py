"""Reads records from JSON lines, a JSON array, CSV, parquet, raw texts, or a data set on the Hugging Face Hub.

Files of any size are streamed: memory holds one record, or one batch of parquet rows. Only a JSON array is read whole.
"""

import codecs
import csv
import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

from workings.errors import RequestError
from workings.hints import no_file, pip_install
from workings.record.canonical import DECODER, MAX_DEPTH, is_too_deep

MAX_RECORD_BYTES = 16 << 20
"""Longest record, in bytes. A line of 100 MB is a damaged file."""
CHUNK_BYTES = 1 << 20
MAX_ARRAY_BYTES = 1 << 30
"""Largest JSON array; as objects it takes several times as much memory."""
_EXCERPT_BYTES = 1000
_PARQUET_MAGIC = b"PAR1"
_PARQUET_ROWS = 256
"""Rows of parquet in memory at a time."""
_TABLES = (".csv", ".tsv")
TEXT = ".txt"
END_OF_TEXT = "<|endoftext|>"
"""A line that separates two raw texts."""
_DELIMITERS = ",;\t"
_FORMS = "JSON lines, a JSON array, CSV or parquet, in UTF-8"
_UNREADABLE = {
    **dict.fromkeys((codecs.BOM_UTF32_BE, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
                    ("UTF-16 or UTF-32", "iconv -f UTF-16 -t UTF-8 FILE > utf8.jsonl")),
    b"PK\x03\x04": ("a workbook or another archive", "save the sheet as CSV in UTF-8"),
    **dict.fromkeys((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh91AY", b"\xfd7zXZ"),
                    ("compressed", "gunzip, unzstd, bunzip2 or unxz"))}
"""First bytes of files that are not read -> what they are, and what to do. UTF-32 begins like UTF-16."""


@dataclass(frozen=True)
class SourceRecord:
    """One record that could be read."""

    number: int
    """Line of a JSON lines file, else number of the record, from 1."""
    value: object


@dataclass(frozen=True)
class Unreadable:
    """An unreadable record and its place."""

    number: int
    reason: str
    raw: str
    """The bytes as UTF-8 text with backslash escapes for invalid bytes, truncated."""
    size: int
    """Bytes of the record in the file."""


Records = Iterator[SourceRecord | Unreadable]


def parse(text: str) -> object:
    """One JSON value. Raises `ValueError` with a short reason."""
    try:
        value: object = DECODER.decode(text)
    # The decoder recurses and fails before the depth can be checked.
    except RecursionError:
        raise ValueError(f"JSON nested deeper than {MAX_DEPTH}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    if is_too_deep(value):
        raise ValueError(f"JSON nested deeper than {MAX_DEPTH}")
    return value


@dataclass(frozen=True)
class RecordSource:
    """One opened source."""

    name: str
    """The name in messages: the file's path, or the data set with its revision."""
    stem: str
    """Begins the ids of records that have none."""
    records: Callable[[], Records]
    is_lines: bool = False
    """Whether it is a file of JSON lines."""


def open_file(path: Path) -> RecordSource:
    """A file of JSON lines, a JSON array or parquet, which its first bytes say; or CSV or raw text, by its name.

    Raises `RequestError` for one that is missing, empty, or of another kind.
    """
    if path.is_dir():
        raise RequestError(no_file(path), f"a file of {_FORMS}",
                           f"of a folder: datasets.load_from_disk({str(path)!r}).to_json('records.jsonl')")
    if not path.is_file():
        raise RequestError(no_file(path), f"a file of {_FORMS}",
                           "for a data set of the Hugging Face Hub: OWNER/NAME with --revision")
    with path.open("rb") as stream:
        head = stream.read(4096)
    if not head.strip():
        raise RequestError(f"file: {path} is empty", "at least one record")
    for mark, (what, way_on) in _UNREADABLE.items():
        if head.startswith(mark):
            raise RequestError(f"file: {path} is {what}", _FORMS, way_on)
    read = _reader(head, path.suffix.lower())
    return RecordSource(str(path), path.name.split(".")[0], partial(read, path), is_lines=read is _lines)


def _reader(head: bytes, suffix: str) -> Callable[[Path], Records]:
    """The reader of a file that begins with these bytes."""
    # The bytes decide where they can: files called `.json` hold JSON lines as often as an array.
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    if head.startswith(_PARQUET_MAGIC):
        return _parquet
    if text.startswith(b"{"):
        return _lines
    if suffix == TEXT:
        return _documents
    if text.startswith(b"["):
        return _array
    return _table if suffix in _TABLES else _lines


def open_hub(name: str, *, revision: str, subset: str, split: str) -> RecordSource:
    """A data set of the Hugging Face Hub, or a local directory in its layout, streamed by the `datasets` library.

    ``revision`` is a branch, a tag or a commit; only a commit names the same rows for good. ``subset`` is the
    configuration of the data set. Raises `RequestError` without the library.
    """
    try:
        import datasets
    except ImportError:
        raise RequestError(f"the data set {name} needs the `datasets` library", "it", pip_install("hub")) from None

    def records() -> Records:
        try:
            rows = datasets.load_dataset(name, subset or None, revision=revision or None, split=split, streaming=True)
            for number, row in enumerate(rows, start=1):
                yield SourceRecord(number, row)
        except (OSError, ValueError, RuntimeError) as error:  # the library's own errors derive from these
            reason = type(error).__name__
            if str(error):
                # Without the name of another library's exception at its end.
                reason = re.sub(r" \(\w+\)$", "", str(error).splitlines()[0])
            raise RequestError(f"the data set {name}, revision {revision}, split {split}, cannot be read: {reason}",
                               "a data set that can be reached, with this revision and split") from error
    return RecordSource(f"{name}@{revision}" if revision else name, name.rstrip("/").rsplit("/", 1)[-1], records)


def _lines(path: Path) -> Records:
    """JSON lines that end with LF or CRLF, with or without a byte order mark. Blank lines are numbered and skipped."""
    with path.open("rb") as stream:
        for number, (line, size) in enumerate(_bounded_lines(stream), start=1):
            line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if line.strip():
                yield _record(number, line, size, parse)


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Line number (from 1) and its JSON object, or a text that says why it is not one. Blank lines are skipped."""
    for record in _lines(path):
        if isinstance(record, Unreadable):
            yield record.number, record.reason
        else:
            value = record.value
            yield record.number, value if isinstance(value, dict) else f"a JSON {type(value).__name__}, not an object"


def _documents(path: Path) -> Records:
    """The texts of a file: one, or several with a line of `END_OF_TEXT` between them."""
    end = END_OF_TEXT.encode()
    number, size = 1, 0
    lines: list[bytes] = []
    with path.open("rb") as stream:
        # The last text ends with the file, as if such a line followed.
        for line, line_size in chain(_bounded_lines(stream), [(end, 0)]):
            if line.strip() != end:
                size += line_size
                if size <= MAX_RECORD_BYTES:
                    lines.append(line)
                continue
            if data := b"".join(lines).removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").strip():
                yield _record(number, data, size, lambda text: {"text": text})
            number, size, lines = number + 1, 0, []


def _record(number: int, data: bytes, size: int, make: Callable[[str], object]) -> SourceRecord | Unreadable:
    """What ``make`` makes of a record's text, or why it cannot. ``data`` may be the beginning of ``size`` bytes."""
    try:
        if size > MAX_RECORD_BYTES:
            data = data[:_EXCERPT_BYTES]
            raise ValueError(f"a record of {size:,} bytes; the longest that is read has {MAX_RECORD_BYTES:,}")
        return SourceRecord(number, make(data.decode("utf-8")))
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 at byte {error.start + 1}"
    except ValueError as error:
        reason = str(error)
    return Unreadable(number, reason, data.rstrip(b"\r\n").decode("utf-8", "backslashreplace"), size)


def _bounded_lines(stream: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Each line with its size. Of a line that is too long only the beginning is kept."""
    while line := stream.readline(MAX_RECORD_BYTES):
        size = len(line)
        # `readline` with a limit returns a piece of a longer line.
        while not line.endswith(b"\n") and (more := stream.readline(CHUNK_BYTES)):
            size += len(more)
            if more.endswith(b"\n"):
                break
        yield line, size


def _array(path: Path) -> Records:
    """The elements of a JSON array, read whole. Raises `RequestError` for a broken one, even with `--on-error skip`."""
    size = path.stat().st_size
    as_lines = f"jq -c '.[]' {shlex.quote(str(path))} > lines.jsonl"
    if size > MAX_ARRAY_BYTES:
        raise RequestError(f"{path} is too large for a JSON array: {size:,} bytes",
                           f"at most {MAX_ARRAY_BYTES:,}, because it is read whole; JSON lines may be larger",
                           as_lines)
    try:
        values = parse(path.read_text("utf-8-sig"))
    except ValueError as error:
        raise RequestError(f"{path} is not a JSON array: {error}",
                           "one JSON array in UTF-8; after a broken element it is unclear where the next one begins",
                           f"repair it, or write one record a line: {as_lines}") from None
    yield from (SourceRecord(number, value) for number, value in enumerate(cast(list[object], values), start=1))


def _table(path: Path) -> Records:
    """CSV with a line of column names; an empty cell is null. Records count from 1."""
    csv.field_size_limit(MAX_RECORD_BYTES)
    with path.open("rb") as binary:
        text = (line.decode("utf-8-sig" if number == 0 else "utf-8") for number, line in enumerate(binary))
        rows = None
        try:
            first = next(text)
            # Spreadsheets write semicolons where a comma is the decimal separator.
            rows = csv.reader(chain([first], text), delimiter=max(_DELIMITERS, key=first.count), strict=True)
            names = next(rows)
            if len(set(names)) < len(names) or not all(names):
                raise RequestError(f"{path} repeats or lacks a name of a column: {', '.join(map(repr, names))}",
                                   "a first line with a name for each column, each once", "correct the first line")
            for number, row in enumerate((row for row in rows if row), start=1):
                if len(row) != len(names):
                    yield Unreadable(number, f"{len(row)} cells under {len(names)} columns", ",".join(row), 0)
                else:
                    yield SourceRecord(number, {name: cell or None for name, cell in zip(names, row, strict=True)})
        except (csv.Error, UnicodeDecodeError) as error:
            line_number = 0 if rows is None else rows.line_num
            if isinstance(error, UnicodeDecodeError):
                # This line was not counted.
                line_number += 1
            raise RequestError(f"{path}, line {line_number}, cannot be read: {error}",
                               "a table in UTF-8, cells with a line end or a delimiter in quotes",
                               "correct that line, or write the table anew") from None


def _parquet(path: Path) -> Records:
    """Rows of a parquet file, a batch at a time."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise RequestError(f"{path} needs the `pyarrow` library", "what reads parquet",
                           pip_install("pyarrow", extra=False)) from None
    number = 0
    try:
        # Pages as they are needed: otherwise a whole group of rows is read, which may be the whole file.
        with parquet.ParquetFile(path, buffer_size=CHUNK_BYTES, pre_buffer=False) as file:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield SourceRecord(number, row)
    except (arrow.ArrowException, OSError) as error:
        raise RequestError(f"{path} cannot be read after record {number}: {str(error).splitlines()[0]}",
                           "a whole parquet file") from error
