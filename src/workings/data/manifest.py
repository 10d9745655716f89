"""The manifest of a generated data set: generator, contents, and the digest of each file."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workings.record import atomic
from workings.record.digest import file_digest

SCHEMA = 1
"""Version of the manifest's keys."""
TRACES, ITEMS, MANIFEST = "traces.jsonl", "items.jsonl", "manifest.json"
"""Names of the files of a made data set in its folder."""


def write_manifest(directory: Path, **made_by: Any) -> dict[str, Any]:
    """Write `manifest.json` about all files in a directory and below it, and return it.

    Args:
        directory: holds `traces.jsonl` and `items.jsonl`, and anything else that was made with them.
        made_by: generator, version, seed and counts: all that is needed to regenerate it.
    """
    # Without the manifest, which cannot hold its own digest.
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != MANIFEST)
    return write_manifest_of(directory / MANIFEST, files, directory / TRACES, directory / ITEMS, made_by)


def write_manifest_of(path: Path, files: Sequence[Path], traces: Path, items: Path, made_by: Mapping[str, Any]
                      ) -> dict[str, Any]:
    """Write the manifest of these files, which are in its folder or below it, and return it.

    JSON lines are counted by section, category and difficulty; every file has its size and digest.
    """
    # Read back from the disk, so that the manifest describes files and not intentions.
    manifest = {"schema": SCHEMA, "made_by": made_by,
                "files": {file.relative_to(path.parent).as_posix(): file_facts(file) for file in files},
                "split": {"prompts_in_both": prompts_in_both(_records(traces), _records(items))}}
    atomic.write_json(path, manifest)
    return manifest


def file_facts(path: Path) -> dict[str, Any]:
    """Digest and size of a file; of JSON lines also the number of records and how they are labelled."""
    facts: dict[str, Any] = {"sha256": file_digest(path), "bytes": path.stat().st_size}
    if path.suffix != ".jsonl":
        return facts
    records = _records(path)
    return facts | {"records": len(records), "counts": label_counts(records)}


def _records(path: Path) -> list[dict[str, Any]]:
    # On bytes, because `splitlines` of a text also splits at characters that JSON may contain.
    return [json.loads(line) for line in path.read_bytes().splitlines()] if path.is_file() else []


def label_counts(records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Numbers of records by section, category and difficulty; records without a label count as `unlabelled`."""
    counted = {name: Counter(record.get(name) or "unlabelled" for record in records)
               for name in ("section", "category", "difficulty")}
    return {name: dict(sorted(counts.items())) for name, counts in counted.items()}


def prompts_in_both(traces: Sequence[Mapping[str, Any]], items: Sequence[Mapping[str, Any]]) -> int:
    """Number of traces whose prompt is also an item, ignoring white space and case; counted from the files."""
    item_prompts = {" ".join(item["prompt"].split()).casefold() for item in items}
    return sum(" ".join(trace["prompt"].split()).casefold() in item_prompts for trace in traces)
