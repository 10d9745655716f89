"""The manifest of a made data set: what made it, what is in it, and the digest of each file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workings.data.items import ItemRecord, items_bytes
from workings.data.traces import Trace, traces_bytes
from workings.record import atomic
from workings.record.digest import bytes_digest

SCHEMA = 1
"""Version of the manifest's keys."""


def write_data_set(directory: Path, name: str, traces: Sequence[Trace], items: Sequence[ItemRecord],
                   made_by: Mapping[str, Any]) -> dict[str, Any]:
    """Write `traces.jsonl`, `items.jsonl` and `manifest.json` into a directory, and return the manifest.

    Args:
        directory: made when absent; files of these names are replaced.
        name: name of the data set.
        traces: for training.
        items: for evaluation.
        made_by: generator, version, seed and counts asked for: all that is needed to make it again.
    """
    files: dict[str, tuple[bytes, Sequence[Trace] | Sequence[ItemRecord]]] = {
        "traces.jsonl": (traces_bytes(traces), traces), "items.jsonl": (items_bytes(items), items)}
    manifest = {
        "schema": SCHEMA,
        "name": name,
        "made_by": dict(made_by),
        "files": {file: {"sha256": bytes_digest(content), "bytes": len(content), "records": len(records),
                         "counts": label_counts(records)}
                  for file, (content, records) in files.items()},
        "split": split_facts(traces, items),
    }
    directory.mkdir(parents=True, exist_ok=True)
    for file, (content, _) in files.items():
        atomic.write_bytes(directory / file, content)
    atomic.write_json(directory / "manifest.json", manifest)
    return manifest


def label_counts(records: Sequence[Trace] | Sequence[ItemRecord]) -> dict[str, dict[str, int]]:
    """How many records each section, category and difficulty has; records without a label count as `unlabelled`."""
    counted = {name: Counter(getattr(record, name) or "unlabelled" for record in records)
               for name in ("section", "category", "difficulty")}
    return {name: dict(sorted(counts.items())) for name, counts in counted.items()}


def split_facts(traces: Sequence[Trace], items: Sequence[ItemRecord]) -> dict[str, int]:
    """Prompts that stand on both sides: counted from what is written, not promised."""
    asked = {" ".join(item.prompt.split()).casefold() for item in items}
    return {"prompts_in_both": sum(" ".join(trace.prompt.split()).casefold() in asked for trace in traces)}
