"""`data make`: generated traces and items as files, with a manifest of how they were made and their digests."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workings.data.generators.base import write_items
from workings.data.named_sets import make_kind, make_set, shipped_sets
from workings.data.row_fields import path_beside
from workings.data.traces import write_traces
from workings.errors import RequestError
from workings.record import atomic
from workings.record.digest import file_digest

SCHEMA = 1
TRACES, ITEMS, MANIFEST = "traces.jsonl", "items.jsonl", "manifest.json"
"""Names of the files of a made data set in its folder."""


def write_manifest(directory: Path, **made_by: Any) -> dict[str, Any]:
    """Write `manifest.json` about all files in a directory and below it, and return it.

    ``made_by`` is all that is needed to regenerate them: generator, version, seed and counts.
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


def make_files(kind: str, n_train: int, n_items: int, seed: int, out: Path, *, force: bool) -> dict[str, Any]:
    """Make problems and write them. Returns the keys of `--json`.

    ``out`` is a directory (for `traces.jsonl`, `items.jsonl` and `manifest.json`), or a file that ends with `.jsonl`
    for the traces, with `NAME.items.jsonl` and `NAME.manifest.json` next to it. Other arguments and errors: see
    `make_kind`; existing files are refused without ``force``.
    """
    is_file = out.suffix == ".jsonl"
    names = [out, path_beside(out, ITEMS), path_beside(out, MANIFEST)] if is_file else [
        out / name for name in (TRACES, ITEMS, MANIFEST)]
    # Before anything is made: a set of many problems takes a while.
    _refuse(names, force=force, is_file=is_file)
    traces, items = make_kind(kind, n_train, n_items, seed)
    names[0].parent.mkdir(parents=True, exist_ok=True)
    with atomic.together(*names):
        write_traces(names[0], traces)
        write_items(names[1], items)
        manifest = write_manifest_of(names[2], names[:2], names[0], names[1], {
            "generator": kind, "seed": seed, "traces": n_train, "items": n_items})
    return {"traces": len(traces), "items": len(items),
            "files": {str(path): manifest["files"][path.name]["sha256"] for path in names[:2]}}


def make_named(name: str, out: Path, *, force: bool) -> dict[str, Any]:
    """Write a named data set into one file. Returns the keys of `--json`; errors also as of `make_set`."""
    _refuse([out], force=force, is_file=True)
    traces, items = make_set(name)
    if traces:
        write_traces(out, traces)
    else:
        write_items(out, items)
    return {"traces": len(traces), "items": len(items), "files": {str(out): shipped_sets()[name].sha256}}


def _refuse(paths: Sequence[Path], *, force: bool, is_file: bool) -> None:
    """Raise `RequestError` for paths that exist, and for a file without a folder to be in."""
    existing = [str(path) for path in paths if path.exists()]
    if existing and not force:
        raise RequestError(f"{', '.join(existing)} already exists", "files that do not exist yet",
                           "--force, or another --out")
    out = paths[0]
    if is_file and (out.is_dir() or not out.parent.is_dir()):
        raise RequestError(f"--out {out} is a folder" if out.is_dir() else f"there is no folder {out.parent}",
                           "a file in a directory that exists", f"mkdir -p {out.parent}")
