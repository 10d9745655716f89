"""`data make`: generated traces and items as files, with a manifest of how they were made and their digests."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from workings.data.named_sets import SHIPPED_SETS, make_kind, make_set
from workings.data.row_fields import path_beside
from workings.data.traces import write_items, write_traces
from workings.errors import RequestError
from workings.record import atomic
from workings.record.digest import file_digest

SCHEMA = 2
TRACES, ITEMS, MANIFEST = "traces.jsonl", "items.jsonl", "manifest.json"
"""Names of the files of a made data set in its folder."""


def write_manifest(path: Path, files: Iterable[Path], **made_by: Any) -> dict[str, str]:
    """Write the digests of these files, which are in the manifest's folder or below it, and return them by name.

    ``made_by`` is all that is needed to regenerate the files: generator, version, seed and counts.
    """
    # Read back from the disk, so that the manifest describes files and not intentions.
    digests = {file.relative_to(path.parent).as_posix(): file_digest(file) for file in sorted(files)}
    atomic.write_json(path, {"schema": SCHEMA, "made_by": made_by, "sha256": digests})
    return digests


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
        digests = write_manifest(names[2], names[:2], generator=kind, seed=seed, traces=n_train, items=n_items)
    return {"traces": len(traces), "items": len(items), "files": {str(path): digests[path.name] for path in names[:2]}}


def make_named(name: str, out: Path, *, force: bool) -> dict[str, Any]:
    """Write a named data set into one file. Returns the keys of `--json`; errors also as of `make_set`."""
    _refuse([out], force=force, is_file=True)
    made, recipe = make_set(name), SHIPPED_SETS[name]
    (write_traces if recipe.holds == "traces" else write_items)(out, made)
    return {"traces": 0, "items": 0, recipe.holds: len(made), "files": {str(out): recipe.sha256}}


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
