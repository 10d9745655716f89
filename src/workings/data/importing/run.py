"""The import itself: records in, traces, preference pairs or verdicts out, and every record accounted for."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Literal

from workings.data.columns import OF_IMPORT, kept_columns, refuse_media
from workings.data.importing.convert import converted, metadata_of
from workings.data.importing.fields import tools_of, unread_turn_keys
from workings.data.importing.formats import FORMATS
from workings.data.importing.hints import SKIP, KeyMap, advice, format_of, other_format
from workings.data.importing.hold_out import HeldOut, item_path, left_out_path, split
from workings.data.importing.sources import RecordSource, SourceRecord, Unreadable
from workings.data.importing.trace_formats import whole_completion
from workings.data.row_fields import kind_of, path_beside
from workings.data.traces import Trace
from workings.errors import RequestError
from workings.record import atomic
from workings.record.digest import file_digest

_REASON_LENGTH = 200
MAX_REASONS = 1000
"""Maximum number of reasons counted separately, to bound memory."""
_OWN_FORMATS = ("traces", "preferences")
"""Formats that keep any further key of a record without interpreting it."""


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """A request to import a file."""

    format: str
    """One of `FORMATS`; empty: guess from the first record."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Names of the format's keys in the file: the format's key -> the file's key."""
    ignore: tuple[str, ...] = ()
    """Columns that are kept and not read, although their names look important."""
    on_error: Literal["fail", "skip"] = "fail"
    """Stop at the first bad record and write nothing, or write bad records to another file and continue."""
    completions: Literal["split", "keep"] = "split"
    """Whether completions of format `prompt-completion` are split into steps and answer, or kept as one text."""
    labels: Mapping[str, str]
    """Section, category, difficulty, source and licence of records that do not say."""
    force: bool = False
    """Whether an existing file may be replaced."""
    rows: int = 0
    """Records to read from the start of the source, which is not read further; 0: all."""
    hold_out: int = 0
    """Questions that are split off as evaluation items."""
    seed: int = 0
    """Decides which."""


@dataclass(frozen=True, kw_only=True)
class ImportResult:
    """The result of an import.

    ``read`` is ``written + rejected``, and with a hold-out its items and what it left out.
    """

    read: int
    written: int
    rejected: int
    reasons: Mapping[str, int]
    """Counts of the reasons, most frequent first; values in a reason are cut."""
    out: Path
    """The requested file. If every record was rejected, it is not written and an old one is kept."""
    rejects: Path | None
    """File of the rejected records; None without rejected records."""
    sha256: str
    """Digest of the written file; empty if none was written."""
    format: str
    """The format in which the records were read."""
    kept: Mapping[str, int]
    """Columns that are kept and not shown to a model -> records that have them."""
    unread_turn_keys: Mapping[str, int]
    """Unread keys of turns -> number of turns with them."""
    not_learned: int
    """Turns that the data mark as not to be learned."""
    reasoning_left_out: int
    """Earlier turns with reasoning in a separate field, which a history does not keep."""
    held_out: HeldOut | None = None
    """The held-out questions; None without `--hold-out`."""
    looks_like: str = ""
    """The likely format of the first record, if none could be read."""

    def notes(self) -> Iterator[str]:
        """Sentences about surprises in the file."""
        yield from kept_columns(self.kept)
        yield from (f"`{key}` of {_turns(count)} is not read" for key, count in self.unread_turn_keys.items())
        if self.not_learned:
            yield f"marked as not to be learned, and only read: {_turns(self.not_learned)} of the assistant"
        if self.reasoning_left_out:
            yield (f"the reasoning of {_turns(self.reasoning_left_out)} before the last is in a separate field and not "
                   "kept")

    def to_json(self) -> dict[str, Any]:
        """Keys of `--json`."""
        record: dict[str, Any] = {"read": self.read, "written": self.written, "rejected": self.rejected,
                                  "reasons": dict(self.reasons), "out": str(self.out), "sha256": self.sha256,
                                  "format": self.format, "kept": dict(self.kept), "not_learned": self.not_learned,
                                  "reasoning_left_out": self.reasoning_left_out,
                                  "unread_turn_keys": dict(self.unread_turn_keys)}
        record |= {"held_out": self.held_out.to_json()} if self.held_out else {}
        record |= {"looks_like": self.looks_like} if self.looks_like else {}
        return record | ({"rejects": str(self.rejects)} if self.rejects else {})


def import_records(source: RecordSource, out: Path, request: ImportRequest) -> ImportResult:
    """Convert all records of a source to traces, preference pairs or verdicts, as the format says.

    Memory: one record, and 64 bits of digest for every id seen (about 70 MB for a million).

    Raises:
        RequestError: for an unknown format, an existing output, a source without records, or (with
            ``on_error="fail"``) the first bad record, named with file, line and reason; nothing is written then.
    """
    if not request.format:
        request = replace(request, format=format_of(source, KeyMap(request.keys)))
    _check(request, out)
    importer = _Importer(source, request)
    held_out: HeldOut | None = None
    # Write the rejects first, so that the result never hides what is missing.
    rejects = path_beside(out, "rejects.jsonl")
    with atomic.together(out, item_path(out), left_out_path(out), rejects):
        if request.hold_out:
            # Next to the result and not in the system's folder, which may be small or in memory.
            with TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
                # Write all first, because the hold-out depends on all questions.
                all_traces = Path(folder, "traces.jsonl")
                importer.to_files(all_traces, rejects)
                if not importer.nothing_left:
                    held_out = split(all_traces, out, request.hold_out, request.seed)
        else:
            importer.to_files(out, rejects)
    rejected = importer.reasons.total()
    is_there = not importer.nothing_left
    return ImportResult(read=importer.read,
                        written=importer.written - (held_out.items + held_out.left_out if held_out else 0),
                        rejected=rejected, reasons=dict(importer.reasons.most_common()), out=out,
                        rejects=rejects if rejected else None, sha256=file_digest(out) if is_there else "",
                        held_out=held_out, format=request.format, kept=dict(importer.kept.most_common()),
                        unread_turn_keys=dict(importer.unread_turn_keys.most_common()),
                        not_learned=importer.not_learned, reasoning_left_out=importer.reasoning_left_out,
                        looks_like="" if importer.written else importer.looks_like)


def _check(request: ImportRequest, out: Path) -> None:
    """Raise `RequestError` for what can be known before anything is read."""
    if request.format and request.format not in FORMATS:
        raise RequestError(f"there is no format {request.format}", f"one of {', '.join(FORMATS)}")
    if request.hold_out and FORMATS[request.format].gives != "traces":
        raise RequestError(f"--hold-out does not work with --format {request.format}",
                           "a format of traces: the others have no answer that an item could expect")
    if request.completions == "keep" and request.format != "prompt-completion":
        raise RequestError(f"--completions keep does not work with --format {request.format}",
                           "--format prompt-completion", "leave --completions out")
    # Before anything is read: an import can take minutes.
    for path in (out, *((item_path(out),) if request.hold_out else ())):
        if path.exists() and not request.force:
            raise RequestError(f"{path} already exists", "an --out for new files", "--force, or another --out")
    if not out.parent.is_dir():
        raise RequestError(f"there is no folder {out.parent}", "a file in a directory that exists",
                           f"mkdir -p {out.parent}")


class _NothingToWrite(Exception):
    """No error: it leaves a file as it is."""


class _Importer:
    """One pass over a source: counts, and the ids seen so far."""

    def __init__(self, source: RecordSource, request: ImportRequest) -> None:
        self._source, self._request = source, request
        self._parse = whole_completion if request.completions == "keep" else FORMATS[request.format].read
        self._keys = KeyMap(request.keys)
        self._ids: set[int] = set()
        self.read = 0
        self.written = 0
        self.reasons: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()
        self.unread_turn_keys: Counter[str] = Counter()
        self.not_learned = self.reasoning_left_out = 0
        self._unseen = set(request.ignore)
        self.looks_like = ""
        """The likely format of the first rejected record."""

    def to_files(self, out: Path, rejects: Path) -> None:
        """Write what the records give and, in another file, those that were rejected."""
        def write(good: BinaryIO) -> None:
            atomic.write_with(rejects, lambda bad: self._run(good, bad))
            if self.nothing_left:
                raise _NothingToWrite

        # Where all were rejected, what stood in the file's place stays.
        with suppress(_NothingToWrite):
            atomic.write_with(out, write)
        # The file had to be open before the first record was read.
        if not self.reasons:
            rejects.unlink()

    @property
    def nothing_left(self) -> bool:
        """Whether there were records and all were rejected."""
        return bool(self.reasons) and not self.written

    def _run(self, good: BinaryIO, rejects: BinaryIO) -> None:
        # Sources are read as they are iterated, so nothing after the last row is read or downloaded.
        for record in islice(self._source.records(), self._request.rows or None):
            self.read += 1
            if isinstance(record, Unreadable):
                self._reject(rejects, record)
                continue
            try:
                self._take(record, good)
            except ValueError as error:
                self._reject(rejects, _unreadable(record, str(error)), record.value)
        if not self.read:
            raise RequestError(f"{self._source.name} holds no record", "at least one record")
        # Last, because only then is it known that no record had the key.
        self._keys.refuse_unseen()
        if self._unseen:
            key = min(self._unseen)
            raise RequestError(f"--ignore {key}: no record has `{key}`", "a key of the file")

    def _take(self, record: SourceRecord, good: BinaryIO) -> None:
        """Write a record's result. Raises `ValueError` with the reason if there is none."""
        if not isinstance(record.value, dict):
            raise ValueError(f"a record must be an object, not {kind_of(record.value)}")
        if self._request.format not in _OWN_FORMATS:
            refuse_media(record.value, "the record")
        renamed = self._keys.renamed(record.value)
        ignored = {key: renamed.pop(key) for key in self._request.ignore if key in renamed}
        self._unseen -= ignored.keys()
        try:
            tools = tools_of(renamed)
            parts = self._parse(renamed)
        except ValueError as error:
            # Use the file's keys in messages, which the user knows.
            raise ValueError(self._keys.missing(record.value) or str(error)) from None
        # Everything that the format does not know is kept, so that an import loses nothing.
        entry = converted(parts, metadata_of(renamed, parts, ignored), f"{self._source.stem}-{record.number:07d}",
                          self._request.labels, tools=tools)
        self._remember(entry.id)
        if isinstance(entry, Trace):
            self.reasoning_left_out += parts.reasoning_left_out
            self.not_learned += sum(not turn.learned for turn in (*entry.history, *entry.tool_turns,
                                                                  *parts.not_learned))
        self.unread_turn_keys.update(unread_turn_keys(record.value))
        self.kept.update(key for key in entry.metadata if key not in OF_IMPORT)
        good.write(json.dumps(entry.to_json(), ensure_ascii=False).encode() + b"\n")
        self.written += 1

    def _reject(self, rejects: BinaryIO, bad: Unreadable, value: object = None) -> None:
        location = f"{self._source.name}:{bad.number}"
        # After some good records the format is correct and this one is an exception.
        strange = value if isinstance(value, dict) and not self.written and not self.reasons else None
        if self._request.on_error == "fail":
            raise RequestError(f"{location}: {bad.reason}", f"a record of format {self._request.format}",
                               advice(strange, self._keys, self._request.format) if strange else SKIP)
        if strange:
            self.looks_like = other_format(self._keys.renamed(strange), self._request.format)
        reason = bad.reason[:_REASON_LENGTH]
        self.reasons[reason if reason in self.reasons or len(self.reasons) < MAX_REASONS else "other reasons"] += 1
        line = {"file": self._source.name, "line": bad.number, "reason": bad.reason, "bytes": bad.size, "raw": bad.raw}
        rejects.write(json.dumps(line).encode() + b"\n")  # ASCII: half a surrogate pair survives as an escape

    def _remember(self, trace_id: str) -> None:
        # Two of a million ids get the same 64 bits once in 37 million imports; whole ids would take far more memory.
        short = int.from_bytes(hashlib.blake2b(trace_id.encode(), digest_size=8).digest(), "big")
        if short in self._ids:
            raise ValueError(f"id {trace_id[:80]!r} is in an earlier record already")
        self._ids.add(short)


def _turns(count: int) -> str:
    return f"{count:,} turn{'s' if count != 1 else ''}"


def _unreadable(record: SourceRecord, reason: str) -> Unreadable:
    """A record that was read and gives nothing."""
    # Rows of parquet and of the Hub hold dates and bytes, for which JSON has no form.
    raw = json.dumps(record.value, default=str)
    return Unreadable(record.number, reason, raw, len(raw))
