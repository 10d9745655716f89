"""The import itself: records in, traces or preference pairs out, and every record accounted for."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

from workings.data.importing.completion import take_annotations
from workings.data.importing.fields import Parts
from workings.data.importing.formats import FORMATS, TraceParts
from workings.data.importing.learned import LearnedCounts
from workings.data.importing.media import refuse_media
from workings.data.importing.pair_formats import PAIR_FORMATS, PairParts
from workings.data.importing.records import SourceRecord, Unreadable
from workings.data.importing.sources import Progress, RecordSource
from workings.data.importing.verdicts import Half, Verdict, Waiting, joined, kto
from workings.data.preferences import PreferencePair, pair_from_json
from workings.data.traces import LABELS, Trace, kind_of, trace_from_json
from workings.errors import RequestError
from workings.record import atomic
from workings.record.digest import file_digest

_REASON_LENGTH = 200
_MAX_REASONS = 1000
"""Different reasons that are counted one by one; a million of them would not be bounded memory."""
_OWN_KEYS = ("prompt", "steps", "answer", "chosen", "rejected", "history")
ALL_PAIR_FORMATS = (*PAIR_FORMATS, "kto")
"""Values of `--format` that give preference pairs."""
_OWN_FORMATS = ("traces", "preferences")
"""Formats whose records may have any further key, which is kept and never interpreted."""
ALL_FORMATS: dict[str, Callable[[Mapping[str, Any]], TraceParts | PairParts | Verdict]] = {
    **FORMATS, **PAIR_FORMATS, "kto": kto}
"""The values of `--format`."""


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """What to import, and how."""

    format: str
    """One of `ALL_FORMATS`."""
    on_error: Literal["fail", "skip"] = "fail"
    """Stop at the first bad record and write nothing, or write bad records beside and go on."""
    annotations: Literal["strip", "keep"] = "strip"
    """Whether calculator annotations (`<<48/2=24>>`) leave the steps of traces; stripped ones are kept as metadata."""
    labels: Mapping[str, str]
    """Section, category, difficulty, source and licence of records that do not say."""
    force: bool = False
    """Whether an existing file may be replaced."""


@dataclass(frozen=True, kw_only=True)
class ImportResult:
    """What was done. ``read`` is ``written + rejected``; of format `kto`, ``2 * written + rejected``."""

    read: int
    written: int
    rejected: int
    reasons: Mapping[str, int]
    """How often each reason was given, most frequent first; values in a reason are cut."""
    out: Path
    rejects: Path | None
    """File of the rejected records; None when there is none."""
    sha256: str
    """Digest of the written file."""
    learned: LearnedCounts | None
    """What is learned of the traces under each value of `data.learn`; None for pairs."""

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        record: dict[str, Any] = {"read": self.read, "written": self.written, "rejected": self.rejected,
                                  "reasons": dict(self.reasons), "out": str(self.out), "sha256": self.sha256}
        record |= {"learned": self.learned.to_json()} if self.learned else {}
        return record | ({"rejects": str(self.rejects)} if self.rejects else {})


def rejects_path(out: Path) -> Path:
    """Where the rejected records of an import go."""
    return out.with_name(f"{out.name.removesuffix('.jsonl')}.rejects.jsonl")


def import_records(source: RecordSource, out: Path, request: ImportRequest, progress: Progress = lambda _: None
                   ) -> ImportResult:
    """Convert all records of a source to traces or to preference pairs, as the format says.

    Memory: one record, and 64 bits of digest for every id seen (about 70 MB for a million). Of format `kto` also every
    record that waits for one of the other verdict: at worst all of them.

    Raises:
        RequestError: for an unknown format, an existing output, a source without records, or (with
            ``on_error="fail"``) the first bad record, named with file, line and reason; nothing is written then.
    """
    if request.format not in ALL_FORMATS:
        raise RequestError(f"--format {request.format}", f"one of {', '.join(ALL_FORMATS)}")
    if out.exists() and not request.force:
        raise RequestError(f"--out {out}, which exists", "a file that does not exist", "--force, or another --out")
    if not out.parent.is_dir():
        raise RequestError(f"--out {out}", "a file in a directory that exists", f"mkdir -p {out.parent}")
    importer = _Importer(source, request, progress)
    # The rejects are in place before the rest is: what was written would hide what is missing.
    rejects = rejects_path(out)
    atomic.write_with(out, lambda good: atomic.write_with(rejects, lambda bad: importer.run(good, bad)))
    # The file had to be open before the first record was read.
    if not importer.reasons:
        rejects.unlink()
    rejected = importer.reasons.total()
    return ImportResult(read=importer.read, written=importer.written, rejected=rejected,
                        reasons=dict(importer.reasons.most_common()), out=out,
                        rejects=rejects if rejected else None, sha256=file_digest(out),
                        learned=None if request.format in ALL_PAIR_FORMATS else importer.learned)


class _Importer:
    """One pass over a source: counts, and the ids seen so far."""

    def __init__(self, source: RecordSource, request: ImportRequest, progress: Progress) -> None:
        self._source, self._request, self._progress = source, request, progress
        self._parse = ALL_FORMATS[request.format]
        self._ids: set[int] = set()
        self._waiting = Waiting()
        self.read = 0
        self.written = 0
        self.learned = LearnedCounts()
        self.reasons: Counter[str] = Counter()

    def run(self, good: BinaryIO, rejects: BinaryIO) -> None:
        for record in self._source.records(self._progress):
            self.read += 1
            if isinstance(record, Unreadable):
                self._reject(rejects, record)
                continue
            # Two where a pair was made of a completion that waited and of this one.
            taken = [record]
            try:
                self._take(record, taken, good)
            except ValueError as error:
                for each in taken:
                    self._reject(rejects, _unreadable(each, str(error)))
        for half in self._waiting.left():
            told = "right" if half.verdict.right else "wrong"
            self._reject(rejects, _unreadable(half.record, f"a {told} completion, and none of its prompt with the "
                                                           "other verdict is left to pair it with"))
        if not self.read:
            raise RequestError(f"{self._source.name} holds no record", "at least one record")

    def _take(self, record: SourceRecord, taken: list[SourceRecord], good: BinaryIO) -> None:
        """Write what a record gives; of two that make a pair, the first only waits.

        Raises:
            ValueError: with the reason why the records in ``taken`` give nothing.
        """
        if not isinstance(record.value, dict):
            raise ValueError(f"a record must be an object, not {kind_of(record.value)}")
        if self._request.format not in _OWN_FORMATS:
            refuse_media(record.value, "the record")
        parts = self._parse(record.value)
        metadata = _metadata(record.value, parts)
        if not isinstance(parts, Verdict):
            found = self._converted(parts, metadata, record.number)
        else:
            half = Half(record, parts, metadata)
            other = self._waiting.partner(half)
            if other is None:
                return
            taken.insert(0, other.record)
            made, metadata, number = joined(half, other)
            found = self._converted(made, metadata, number)
        good.write(json.dumps(found.to_json(), ensure_ascii=False).encode() + b"\n")
        self.written += 1

    def _reject(self, rejects: BinaryIO, bad: Unreadable) -> None:
        place = f"{self._source.name}:{bad.number}"
        if self._request.on_error == "fail":
            raise RequestError(f"{place}: {bad.reason}", f"a record of format {self._request.format}",
                               "--on-error skip writes such records to a file beside")
        reason = bad.reason[:_REASON_LENGTH]
        self.reasons[reason if reason in self.reasons or len(self.reasons) < _MAX_REASONS else "other reasons"] += 1
        line = {"file": self._source.name, "line": bad.number, "reason": bad.reason, "bytes": bad.size,
                "raw": bad.raw}
        rejects.write(json.dumps(line).encode() + b"\n")  # ASCII: half a surrogate pair survives as an escape

    def _converted(self, parts: TraceParts | PairParts, metadata: dict[str, Any], number: int
                   ) -> Trace | PreferencePair:
        """The trace or the pair of a format's parts. Raises ValueError with the reason when there is none."""
        own: dict[str, Any] = {"prompt": parts.prompt}
        # `_label` takes what it finds out of the metadata, so that no field is kept twice.
        labels = {name: _label(metadata, name) or self._request.labels.get(name, "") for name in LABELS}
        own["id"] = _label(metadata, "id") or f"{self._source.stem}-{number:07d}"
        if isinstance(parts, PairParts):
            own |= {"chosen": parts.chosen, "rejected": parts.rejected}
        else:
            own |= {"steps": list(parts.steps), "answer": parts.answer}
            if self._request.annotations == "strip":
                _take_annotations(own, metadata)
        if parts.history:
            own["history"] = [{"role": role, "content": said} for role, said in parts.history]
        record = metadata | own | {name: said for name, said in labels.items() if said}
        # one rule for what a trace or a pair is: that of reading it back
        found = pair_from_json(record) if isinstance(parts, PairParts) else trace_from_json(record)
        self._remember(found.id)
        if isinstance(found, Trace) and isinstance(parts, TraceParts):
            self.learned.add(found, parts.reasoning_left_out)
        return found

    def _remember(self, trace_id: str) -> None:
        # Two of a million ids get the same 64 bits once in 37 million imports; whole ids would take far more memory.
        short = int.from_bytes(hashlib.blake2b(trace_id.encode(), digest_size=8).digest(), "big")
        if short in self._ids:
            raise ValueError(f"id {trace_id[:80]!r} stands in an earlier record already")
        self._ids.add(short)


def _unreadable(record: SourceRecord, reason: str) -> Unreadable:
    """A record that was read and gives nothing."""
    # Rows of parquet and of the Hub hold dates and bytes, for which JSON has no form.
    raw = json.dumps(record.value, default=str)
    return Unreadable(record.number, reason, raw, len(raw))


def _take_annotations(own: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Move calculator annotations from the steps to the metadata."""
    taken = [take_annotations(step) for step in own["steps"]]
    own["steps"] = [step for step, _ in taken]
    if any(found for _, found in taken):
        metadata["calculations"] = [found for _, found in taken]


def _metadata(record: Mapping[str, Any], parts: Parts) -> dict[str, Any]:
    """Keys that the format did not use, with its own findings; a null is left out, it says nothing."""
    others = {str(key): value for key, value in record.items() if key not in parts.used}
    merged = {**parts.metadata, **others}
    if "license" in merged and "licence" not in merged:
        merged["licence"] = merged.pop("license")
    # a key that a trace or a pair gives another meaning (an `answer` beside the tagged text, say) is renamed
    return {f"original_{key}" if key in _OWN_KEYS else key: _plain(value)
            for key, value in merged.items() if value is not None}


def _label(metadata: dict[str, Any], name: str) -> str:
    """A label out of the metadata; numbers are common ids and levels, so whole ones are taken as text."""
    value = metadata.pop(name, "")
    # In Python true is an int, and it is no label.
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"`{name}` must be a text, not {kind_of(value)}")
    return str(value)


def _plain(value: Any) -> Any:
    """A value as JSON can say it: what parquet knows beyond JSON (dates, bytes, decimals) becomes text."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value if inner is not None]
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
