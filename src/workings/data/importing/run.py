"""`workings data import`: converts the records of a source to traces, preference pairs or verdicts.

    out.jsonl             what was converted
    out.rejects.jsonl     records that could not be converted, with the reasons (`--on-error skip`)
    out.items.jsonl       evaluation items, and
    out.left_out.jsonl    traces that are like one (`--hold-out`)

Every record is in one of these files.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Literal

from workings.data.columns import WRITTEN_BY_IMPORT, kept_columns, refuse_media
from workings.data.importing.convert import converted
from workings.data.importing.fields import unread_turn_keys
from workings.data.importing.formats import FORMATS, whole_completion
from workings.data.importing.hints import KeyMap, format_of, looks_like, reads
from workings.data.importing.hold_out import ITEMS, LEFT_OUT, split
from workings.data.importing.sources import RecordSource, SourceRecord, Unreadable
from workings.data.row_fields import kind_of, path_beside
from workings.data.traces import Trace
from workings.errors import RequestError
from workings.record import atomic
from workings.record.digest import file_digest
from workings.record.storage import storage

_REASON_LENGTH = 200
MAX_REASONS = 1000
"""Maximum number of reasons counted separately, to bound memory."""
SKIP = "--on-error skip writes such records to another file; --map KEY=YOURS says what keys are called here"
REJECTS = "rejects.jsonl"
"""End of the name of the file of rejected records, next to the result."""
_OWN_FORMATS = ("traces", "preferences")
"""Formats that keep any further key of a record without interpreting it."""


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """A request to import a file."""

    format: str
    """One of `FORMATS`; empty: guess from the first records."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The format's key -> the file's key."""
    ignore: tuple[str, ...] = ()
    """Columns that are kept and not read, although their names say that the answer depends on them."""
    on_error: Literal["fail", "skip"] = "fail"
    """Stop at the first bad record and write nothing, or write bad records to another file and continue."""
    completions: Literal["split", "keep"] = "split"
    """Whether completions of format `prompt-completion` are split into steps and answer, or kept as one text."""
    labels: Mapping[str, str]
    """Section, category, difficulty, source and licence of records that do not say."""
    force: bool = False
    rows: int = 0
    """Records to read, from the start of the source; 0: all."""
    hold_out: int = 0
    """Questions that are split off as evaluation items; ``seed`` decides which."""
    seed: int = 0


@dataclass(kw_only=True)
class ImportResult:
    """The result of an import: ``read`` records were written, rejected, held out as items or left out like one."""

    out: Path
    """The requested file. If every record was rejected, it is not written and an old one is kept."""
    format: str
    read: int = 0
    written: int = 0
    sha256: str = ""
    reasons: Counter[str] = field(default_factory=Counter)
    """Rejected records by reason, most frequent first; values in a reason are cut."""
    kept: Counter[str] = field(default_factory=Counter)
    """Columns that are kept and not shown to a model -> records that have them."""
    unread_turn_keys: Counter[str] = field(default_factory=Counter)
    """Unread keys of turns -> number of turns with them."""
    not_learned: int = 0
    """Turns that the data mark as not to be learned."""
    reasoning_left_out: int = 0
    """Earlier turns with reasoning in a separate field, which a history does not keep."""
    held_out: dict[str, Any] = field(default_factory=dict)
    """As `workings.data.importing.hold_out.split` returns it; empty without a hold-out."""
    looks_like: str = ""
    """The likely format of the first record, if none could be read."""

    @property
    def rejected(self) -> int:
        """Rejected records."""
        return self.reasons.total()

    @property
    def rejects(self) -> Path | None:
        """File of the rejected records; None without rejected records."""
        return path_beside(self.out, REJECTS) if self.reasons else None

    def notes(self) -> Iterator[str]:
        """Sentences about the hold-out and about surprises in the file."""
        held_out = self.held_out
        if held_out:
            yield f"{held_out['items']} held out as evaluation items in {held_out['path']} (seed {held_out['seed']})"
        if held_out.get("left_out"):
            yield (f"{held_out['left_out']} traces that repeat a held-out question or are like it are left out (see "
                   f"{held_out['left_out_path']})")
        yield from kept_columns(self.kept)
        yield from (f"`{key}` of {_turns(count)} is not read" for key, count in self.unread_turn_keys.most_common())
        if self.not_learned:
            yield f"marked as not to be learned, and only read: {_turns(self.not_learned)} of the assistant"
        if self.reasoning_left_out:
            yield (f"the reasoning of {_turns(self.reasoning_left_out)} before the last is in a separate field and not "
                   "kept")

    def to_json(self) -> dict[str, Any]:
        """Keys of `--json`."""
        values = {**vars(self), "rejected": self.rejected, "out": str(self.out),
                  "rejects": str(self.rejects) if self.rejects else ""}
        optional = ("held_out", "looks_like", "rejects")
        return {name: dict(value.most_common()) if isinstance(value, Counter) else value
                for name, value in values.items() if value or name not in optional}


def import_records(source: RecordSource, out: Path, request: ImportRequest) -> ImportResult:
    """Convert all records of a source to traces, preference pairs or verdicts, as the format says.

    Memory: one record, and 64 bits of digest for every id seen (about 70 MB for a million).

    Raises `RequestError` for what `_check` refuses, a source without records, or (with ``on_error="fail"``) the first
    bad record, named with file, line and reason; nothing is written then.
    """
    if not request.format:
        request = replace(request, format=format_of(source, KeyMap(request.keys)))
    _check(request, out)
    importer = _Importer(source, request, out)
    result = importer.result
    rejects, items, left_out = (path_beside(out, ending) for ending in (REJECTS, ITEMS, LEFT_OUT))
    # A folder next to the result: the system's temporary folder may be small or in memory.
    with (storage(out, "write"), atomic.together(out, items, left_out, rejects),
          TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder):
        def write_both(good: BinaryIO) -> None:
            atomic.write_with(rejects, lambda bad: importer.run(good, bad))

        everything = Path(folder, "everything.jsonl")
        # The file of the rejects is complete first, so that a result never lacks them.
        atomic.write_with(everything, write_both)
        if not result.reasons:
            rejects.unlink()
        if result.written and request.hold_out:
            result.held_out = split(everything, out, request.hold_out, request.seed)
            result.written -= result.held_out["items"] + result.held_out["left_out"]
        elif result.written:
            everything.replace(out)
            atomic.sync_directory(out.parent)
    result.sha256 = file_digest(out) if result.written else ""
    result.reasons = Counter(dict(result.reasons.most_common()))
    # A bad record among good ones says nothing about the format.
    result.looks_like = "" if result.written else result.looks_like
    return result


def _check(request: ImportRequest, out: Path) -> None:
    """Raise `RequestError` for what can be known before anything is read."""
    if request.format not in FORMATS:
        raise RequestError(f"there is no format {request.format}", f"one of {', '.join(FORMATS)}")
    if request.hold_out and FORMATS[request.format].gives != "traces":
        raise RequestError(f"--hold-out does not work with --format {request.format}",
                           "a format of traces: the others have no answer that an item could expect")
    if request.completions == "keep" and request.format != "prompt-completion":
        raise RequestError(f"--completions keep does not work with --format {request.format}",
                           "--format prompt-completion", "leave --completions out")
    # Before anything is read: an import can take minutes.
    for path in [out, path_beside(out, ITEMS)] if request.hold_out else [out]:
        if path.exists() and not request.force:
            raise RequestError(f"{path} already exists", "an --out for new files", "--force, or another --out")
    if not out.parent.is_dir():
        raise RequestError(f"there is no folder {out.parent}", "a file in a directory that exists",
                           f"mkdir -p {out.parent}")


class _Importer:
    """One pass over a source, which fills the result."""

    def __init__(self, source: RecordSource, request: ImportRequest, out: Path) -> None:
        self._source, self._request = source, request
        self._parse = whole_completion if request.completions == "keep" else FORMATS[request.format].read
        self._keys = KeyMap(request.keys)
        self._id_hashes: set[int] = set()
        self._unseen = set(request.ignore)
        self.result = ImportResult(out=out, format=request.format)

    def run(self, good: BinaryIO, rejects: BinaryIO) -> None:
        """Write what the records give, and those that were rejected."""
        for record in islice(self._source.records(), self._request.rows or None):
            self.result.read += 1
            if isinstance(record, Unreadable):
                self._reject(rejects, record)
                continue
            try:
                self._take(record, good)
            except ValueError as error:
                # `default=str` for dates and bytes of parquet and the Hub.
                raw = json.dumps(record.value, default=str)
                self._reject(rejects, Unreadable(record.number, str(error), raw, len(raw)), record.value)
        if not self.result.read:
            raise RequestError(f"{self._source.name} holds no record", "at least one record")
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
        parts = self._parse(renamed)
        entry = converted(renamed, parts, ignored, f"{self._source.stem}-{record.number:07d}", self._request.labels)
        # Whole ids would take far more memory. Two of a million have one hash once in 37 million imports.
        if hash(entry.id) in self._id_hashes:
            raise ValueError(f"id {entry.id[:80]!r} is in an earlier record already")
        self._id_hashes.add(hash(entry.id))
        result = self.result
        if isinstance(entry, Trace):
            result.reasoning_left_out += parts.reasoning_left_out
            turns = (*entry.history, *entry.tool_turns, *parts.not_learned)
            result.not_learned += sum(not turn.learned for turn in turns)
        result.unread_turn_keys.update(unread_turn_keys(record.value))
        result.kept.update(key for key in entry.metadata if key not in WRITTEN_BY_IMPORT)
        good.write(json.dumps(entry.to_json(), ensure_ascii=False).encode() + b"\n")
        result.written += 1

    def _reject(self, rejects: BinaryIO, bad: Unreadable, value: object = None) -> None:
        """Write a record that cannot be converted, or raise `RequestError` about it, as the request says."""
        result, form = self.result, self._request.format
        is_first = not result.written and not result.reasons
        if isinstance(value, dict) and is_first:
            renamed = self._keys.renamed(value)
            result.looks_like = "" if reads(form, renamed) else looks_like(renamed)
        if self._request.on_error == "fail":
            other = result.looks_like
            advice = f"these keys look like format {other}: --format {other}" if other else SKIP
            raise RequestError(f"{self._source.name}:{bad.number}: {bad.reason}", f"a record of format {form}", advice)
        reason = bad.reason[:_REASON_LENGTH]
        if reason not in result.reasons and len(result.reasons) >= MAX_REASONS:
            reason = "other reasons"
        result.reasons[reason] += 1
        line = {"file": self._source.name, "line": bad.number, "reason": bad.reason, "bytes": bad.size, "raw": bad.raw}
        # Written as ASCII, so that half a surrogate pair survives as an escape.
        rejects.write(json.dumps(line).encode() + b"\n")


def _turns(count: int) -> str:
    return f"{count:,} turn{'s' if count != 1 else ''}"
