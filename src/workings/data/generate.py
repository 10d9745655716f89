"""`data make`: generated traces and items as files, with the manifest that names how they were made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.generators.base import ItemRecord, write_items
from workings.data.manifest import file_facts, prompts_in_both, write_data_set
from workings.data.named_sets import kind_version, make_kinds, make_set
from workings.data.row_fields import path_beside
from workings.data.traces import Trace, write_traces
from workings.errors import RequestError
from workings.record import atomic


@dataclass(frozen=True, kw_only=True)
class MadeFiles:
    """The files of a made data set."""

    traces: int
    items: int
    files: dict[str, str]
    """SHA-256 of each file, by path."""

    def to_json(self) -> dict[str, Any]:
        """Keys of `--json`."""
        return {"traces": self.traces, "items": self.items, "files": self.files}


def make_files(kinds: Sequence[str], n_train: int, n_items: int, seed: int, out: Path, *, force: bool) -> MadeFiles:
    """Make problems and write them.

    Args:
        kinds: `addition`, or any of the other kinds together.
        n_train: traces.
        n_items: held-out items, disjoint from the traces.
        seed: equal seeds give equal files.
        out: a directory (`traces.jsonl`, `items.jsonl` and `manifest.json` in it), or a file that ends with `.jsonl`
            for the traces, with `NAME.items.jsonl` and `NAME.manifest.json` beside it.
        force: replace files that exist.

    Raises:
        RequestError: unknown kinds, more problems than there are, or files that exist.
    """
    beside = out.suffix == ".jsonl"
    names = [out, path_beside(out, "items.jsonl"), path_beside(out, "manifest.json")] if beside else \
        [out / "traces.jsonl", out / "items.jsonl", out / "manifest.json"]
    # Before anything is made: a set of many problems takes a while.
    _refuse_existing(names, force)
    traces, items = make_kinds(kinds, n_train, n_items, seed)
    made_by = {"generator": "+".join(kinds), "version": kind_version(kinds), "seed": seed, "traces": n_train,
               "items": n_items}
    if beside:
        _refuse_absent_folder(out)
    with atomic.together(*names):
        facts = _write_beside(names, traces, items, made_by) if beside else \
            write_data_set(out, traces, items, made_by)["files"]
    files = {str(path): facts[path.name]["sha256"] for path in names[:2]}
    return MadeFiles(traces=len(traces), items=len(items), files=files)


def _write_beside(names: Sequence[Path], traces: Sequence[Trace], items: Sequence[ItemRecord],
                  made_by: Mapping[str, Any]) -> dict[str, Any]:
    """Write traces, items and manifest under these names; facts of the first two."""
    write_traces(names[0], traces)
    write_items(names[1], items)
    # Read back from the disk, so that the manifest describes files and not intentions; it is written last.
    facts = {path.name: file_facts(path) for path in names[:2]}
    split = {"prompts_in_both": prompts_in_both([vars(trace) for trace in traces], [vars(item) for item in items])}
    atomic.write_json(names[2], {"schema": 1, "made_by": made_by, "files": facts, "split": split})
    return facts


def make_named(name: str, out: Path, *, force: bool) -> MadeFiles:
    """Write a named data set into one file.

    Raises:
        RequestError: unknown name, or a file that exists.
        RecordError: the generators no longer make what the name stands for.
    """
    _refuse_existing([out], force)
    _refuse_absent_folder(out)
    # Raises where the bytes are not those of the name's digest, so that digest may be reported below.
    data_set = make_set(name)
    if data_set.traces:
        write_traces(out, data_set.traces)
    else:
        write_items(out, data_set.items)
    return MadeFiles(traces=len(data_set.traces), items=len(data_set.items), files={str(out): data_set.recipe.sha256})


def _refuse_existing(paths: Sequence[Path], force: bool) -> None:
    existing = [str(path) for path in paths if path.exists()]
    if existing and not force:
        raise RequestError(f"{', '.join(existing)}, which exists", "files that do not exist yet",
                           "--force, or another --out")


def _refuse_absent_folder(out: Path) -> None:
    if out.is_dir() or not out.parent.is_dir():
        raise RequestError(f"--out {out}", "a file in a directory that exists", f"mkdir -p {out.parent}")
