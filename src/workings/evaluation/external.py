"""Existing completions: JSON lines with ``id`` and ``completion``, read by offset to save memory."""

from array import array
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeGuard

from workings.errors import RequestError
from workings.evaluation.predictions import UnscoredCompletion
from workings.scoring.items import Item
from workings.scoring.lines import MAX_LINE_BYTES, parse_object, read_lines_at

MAX_PROBLEMS_SHOWN = 20
"""Examples named per kind of problem; all are counted."""

MAX_SAMPLES = 10_000


class Problems:
    """Problems of a file of predictions: every kind counted, the first few named."""

    def __init__(self) -> None:
        self._first: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    def add(self, kind: str, what: str) -> None:
        """Count one problem and name it if it is among the first."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        # A million bad lines must not fill memory or the summary.
        if self._counts[kind] <= MAX_PROBLEMS_SHOWN:
            self._first.setdefault(kind, []).append(what[:200])

    def to_json(self) -> dict[str, Any]:
        """Count and names by kind."""
        return {kind: {"count": count, "first": self._first[kind]} for kind, count in sorted(self._counts.items())}


class ExternalPredictions:
    """A file of predictions, indexed by item. Only ids and offsets are kept in memory."""

    def __init__(self, path: Path, items: Sequence[Item]) -> None:
        """Index the file.

        Raises:
            RequestError: the file is missing, has no line for any item, or no completion; or a sample number is larger
                than the number of lines.
        """
        if not path.is_file():
            raise RequestError(f"predictions: {path} is not a file", "a file of JSON lines with id and completion")
        self.path = path
        self.problems = Problems()
        self._items = items
        # Eight bytes per line; Python integers take several times as much.
        self._offsets: dict[str, array[int]] = {item.id: array("q") for item in items}
        self.samples = 1
        self._completions = 0
        self._keys: dict[str, None] = {}
        self._index()
        if not any(self._offsets.values()):
            raise RequestError(f"predictions: {path}: no line has the id of an item",
                               "lines with id and completion, ids as in the items")
        # Otherwise each item would get that many missing samples.
        if self.samples > (lines := sum(map(len, self._offsets.values()))):
            raise RequestError(f"predictions: {path} has a sample {self.samples - 1}, and only {lines} lines of items",
                               "samples that are numbered from 0", "number the samples of each id from 0")
        # Otherwise every item would score 0.
        if not self._completions:
            raise RequestError(f"predictions: {path}: no line has a text as its completion; its keys are "
                               f"{', '.join(self._keys)}"[:400], "lines with id and completion (a text)",
                               "name the key that holds the text completion")
        # Last, so that a refused file is not left open.
        self._file = path.open("rb")

    def __enter__(self) -> "ExternalPredictions":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._file.close()

    def completions_of(self, item: Item) -> list[UnscoredCompletion]:
        """An item's completions; a missing, double or invalid one becomes a problem of that sample.

        Several lines with one id need different ``sample`` numbers; otherwise none of them counts.
        """
        # Read by offset, because the texts may be larger than memory.
        records = [self._record(offset) for offset in self._offsets[item.id]]
        if len(records) > 1 and not _are_samples(records):
            return [UnscoredCompletion(item=item, problem=f"double: {len(records)} lines with this id")]
        # A single line is sample 0, whatever its number.
        by_sample = {record["sample"] if len(records) > 1 else 0: record for record in records}
        missing = "missing: no line with this id" if not records else "missing: no line for this sample"
        return [_unscored_completion(item, sample, by_sample[sample]) if sample in by_sample
                else UnscoredCompletion(item=item, sample=sample, problem=missing)
                for sample in range(self.samples)]

    def _index(self) -> None:
        for number, offset, record in read_lines_at(self.path):
            if isinstance(record, str):
                self.problems.add("unreadable lines", f"line {number}: {record}")
                continue
            name = record.get("id")
            # A number and its text are the same id. A bool is not an id.
            name = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
            if not isinstance(name, str):
                self.problems.add("lines without an id", f"line {number}")
            elif name not in self._offsets:
                self.problems.add("unknown ids", name)
            else:
                self._offsets[name].append(offset)
                self._completions += isinstance(record.get("completion"), str)
                if len(self._keys) < MAX_PROBLEMS_SHOWN:
                    self._keys |= dict.fromkeys(record)
                sample = record.get("sample", 0)
                # One huge number would give every item that many missing samples.
                if _is_index(sample) and sample < MAX_SAMPLES:
                    self.samples = max(self.samples, sample + 1)

    def _record(self, offset: int) -> dict[str, Any]:
        self._file.seek(offset)
        record = parse_object(self._file.readline(MAX_LINE_BYTES))
        # The line was readable when it was indexed.
        if isinstance(record, str):
            raise RequestError(f"{self.path} changed while it was read", "a file that does not change")
        return record


def _unscored_completion(item: Item, sample: int, record: dict[str, Any]) -> UnscoredCompletion:
    text, reason, tokens = record.get("completion"), record.get("finish_reason"), record.get("completion_tokens")
    problem = "" if isinstance(text, str) else _no_text(record)
    return UnscoredCompletion(item=item, sample=sample, text=text if isinstance(text, str) else "", problem=problem,
                    finish_reason=reason if reason in ("stop", "length") else "",
                    tokens=tokens if _is_index(tokens) else -1)


def _no_text(record: dict[str, Any]) -> str:
    if "completion" not in record:
        return "no text: the line has no completion"
    return f"no text: completion is {str(record['completion'])[:40]} ({type(record['completion']).__name__})"


def _are_samples(records: Sequence[dict[str, Any]]) -> bool:
    numbers = [record.get("sample") for record in records]
    return all(_is_index(number) and number < MAX_SAMPLES for number in numbers) and len(set(numbers)) == len(numbers)


def _is_index(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0

