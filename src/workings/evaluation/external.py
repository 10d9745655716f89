"""Existing completions, a JSON line each: `{"id": "item-1", "completion": "…", "sample": 0}`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

from workings.data.importing.sources import read_objects
from workings.errors import RequestError
from workings.evaluation.predictions import UnscoredCompletion
from workings.scoring.items import Item

MAX_PROBLEMS_SHOWN = 20
"""Examples named per kind of problem; all are counted."""
MAX_SAMPLES = 10_000


class ExternalPredictions:
    """The lines of a file of predictions, by item."""

    def __init__(self, path: Path, items: Sequence[Item]) -> None:
        """Read the file. Raises `RequestError` if it has no completion of an item, or samples' numbers have gaps."""
        if not path.is_file():
            raise RequestError(f"predictions: {path} is not a file", "a file of JSON lines with id and completion")
        self.problems: dict[str, Any] = {}
        """Kind of problem -> its count, and the first lines or ids with it: `{"count": 1, "first": ["line 7"]}`."""
        self._records: dict[str, list[dict[str, Any]]] = {item.id: [] for item in items}
        for number, record in read_objects(path):
            self._add(number, record)
        records = [record for of_item in self._records.values() for record in of_item]
        if not records:
            raise RequestError(f"predictions: {path}: no line has the id of an item",
                               "lines with id and completion, ids as in the items")
        # Each item is expected to have all samples up to the highest number.
        numbers = [record["sample"] for record in records if _is_sample(record.get("sample"))]
        self.samples = max(numbers, default=0) + 1
        if self.samples > len(records):
            raise RequestError(f"predictions: {path} has a sample {self.samples - 1}, and only {len(records)} lines of "
                               "items", "samples that are numbered from 0", "number the samples of each id from 0")
        if not any(isinstance(record.get("completion"), str) for record in records):
            raise RequestError(f"predictions: {path}: no line has a text as its completion; its keys are "
                               f"{', '.join(records[0])}"[:400], "lines with id and completion (a text)",
                               "name the key that holds the text completion")

    def completions_of(self, item: Item) -> list[UnscoredCompletion]:
        """An item's completion for each sample number; a missing or invalid one becomes a problem of that sample.

        Lines with the same id need different ``sample`` numbers; otherwise the item has one sample with that problem.
        """
        records = self._records[item.id]
        if self._is_double(item.id):
            return [UnscoredCompletion(item=item, problem=f"double: {len(records)} lines with this id")]
        if len(records) > 1:
            by_sample = {record["sample"]: record for record in records}
        else:
            by_sample = dict(enumerate(records))  # a single line is sample 0
        missing = "missing: no line for this sample" if records else "missing: no line with this id"
        return [_unscored_completion(item, sample, by_sample[sample]) if sample in by_sample
                else UnscoredCompletion(item=item, sample=sample, problem=missing)
                for sample in range(self.samples)]

    @property
    def double(self) -> str:
        """The first id with several lines that are not numbered differently; empty if there is none."""
        return next(filter(self._is_double, self._records), "")

    def _is_double(self, name: str) -> bool:
        numbers = [record.get("sample") for record in self._records[name]]
        return len(numbers) > 1 and not (all(map(_is_sample, numbers)) and len({*numbers}) == len(numbers))

    def _add(self, number: int, record: dict[str, Any] | str) -> None:
        """Keep the record of a line, or count its problem; a text is the reason why the line cannot be read."""
        given = None if isinstance(record, str) else record.get("id")
        # A number and its text are the same id. A bool is not an id.
        name = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
        if isinstance(record, str):
            kind, what = "unreadable lines", f"line {number}: {record}"
        elif not isinstance(name, str):
            kind, what = "lines without an id", f"line {number}"
        elif name not in self._records:
            kind, what = "unknown ids", name
        else:
            self._records[name].append(record)
            return
        found = self.problems.setdefault(kind, {"count": 0, "first": []})
        found["count"] += 1
        if found["count"] <= MAX_PROBLEMS_SHOWN:
            found["first"].append(what[:200])


def _unscored_completion(item: Item, sample: int, record: dict[str, Any]) -> UnscoredCompletion:
    text: Any = record.get("completion")
    reason, tokens = record.get("finish_reason"), record.get("completion_tokens")
    problem = ""
    if "completion" not in record:
        problem = "no text: the line has no completion"
    elif not isinstance(text, str):
        problem = f"no text: completion is {str(text)[:40]} ({type(text).__name__})"
    return UnscoredCompletion(item=item, sample=sample, text="" if problem else text, problem=problem,
                              finish_reason=reason if reason in ("stop", "length") else "",
                              tokens=tokens if _is_index(tokens) else -1)


def _is_sample(value: object) -> TypeGuard[int]:
    return _is_index(value) and value < MAX_SAMPLES


def _is_index(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
