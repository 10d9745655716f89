"""`workings data make`: generated traces and items as files.

    traces.jsonl    to learn from
    items.jsonl     to evaluate with; no problem is in both
    manifest.json   how the files were made, and their digests

Both quickstarts write such a manifest for their data as well.
"""

from collections.abc import Iterable
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
    """Write a manifest of files in its folder or below, and return their digests by name.

    ``made_by`` is all that is needed to generate the files again: generator, version, seed and counts.
    """
    # Read back from the disk, so that the manifest describes files and not intentions.
    digests = {file.relative_to(path.parent).as_posix(): file_digest(file) for file in sorted(files)}
    atomic.write_json(path, {"schema": SCHEMA, "made_by": made_by, "sha256": digests})
    return digests


def make_files(kind: str, n_train: int, n_items: int, seed: int, out: Path, *, force: bool) -> dict[str, Any]:
    """Generate problems and write them. Returns the keys of `--json`.

    ``out`` is a folder for the three files, or a file that ends with `.jsonl` for the traces; then `NAME.items.jsonl`
    and `NAME.manifest.json` are written next to it. Existing files are refused without ``force``. The other arguments
    and errors are those of `make_kind`.
    """
    is_file = out.suffix == ".jsonl"
    if is_file:
        traces_path, items_path, manifest_path = out, path_beside(out, ITEMS), path_beside(out, MANIFEST)
    else:
        traces_path, items_path, manifest_path = out / TRACES, out / ITEMS, out / MANIFEST
    _refuse_existing([traces_path, items_path, manifest_path], force=force)
    if is_file:
        _refuse_without_folder(out)
    generated = make_kind(kind, n_train, n_items, seed)
    traces_path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.together(traces_path, items_path, manifest_path):
        write_traces(traces_path, generated.traces)
        write_items(items_path, generated.held_out)
        digests = write_manifest(manifest_path, [traces_path, items_path],
                                 generator=kind, seed=seed, traces=n_train, items=n_items)
    return {"traces": len(generated.traces), "items": len(generated.held_out),
            "files": {str(path): digests[path.name] for path in (traces_path, items_path)}}


def make_named(name: str, out: Path, *, force: bool) -> dict[str, Any]:
    """Write a shipped set to one file. Returns the keys of `--json`; errors are also those of `make_set`."""
    _refuse_existing([out], force=force)
    _refuse_without_folder(out)
    made, recipe = make_set(name), SHIPPED_SETS[name]
    if recipe.holds == "traces":
        write_traces(out, made)
    else:
        write_items(out, made)
    return {"traces": 0, "items": 0, recipe.holds: len(made), "files": {str(out): recipe.sha256}}


def _refuse_existing(paths: Iterable[Path], *, force: bool) -> None:
    existing = [str(path) for path in paths if path.exists()]
    if existing and not force:
        raise RequestError(f"{', '.join(existing)} already exists", "files that do not exist yet",
                           "--force, or another --out")


def _refuse_without_folder(out: Path) -> None:
    if out.is_dir() or not out.parent.is_dir():
        problem = f"--out {out} is a folder" if out.is_dir() else f"there is no folder {out.parent}"
        raise RequestError(problem, "a file in a directory that exists", f"mkdir -p {out.parent}")
