"""Level 2: the result of `workings improve`, recomputed from the runs and samples of its rounds."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from workings.evidence.verify.record import Record
from workings.evidence.verify.registry import failed, join_first, not_checked, passed, record_check
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import FolderTree, Tree, read, shown
from workings.record.layout import (
    EVALUATION_CONFIG,
    EVALUATION_SUMMARY,
    MANIFEST,
    PREDICTIONS,
    SEAL,
    SELECTION,
    SUMS,
)
from workings.record.manifest import MANIFEST_READS

ROUNDS, ROUNDS_PAGE, IMPROVEMENT = "rounds.json", "rounds.html", "improve.json"
"""Result, page and request of an improvement. They are next to its runs, outside of every seal."""
COMPARED_BY = frozenset({ROUNDS, ROUNDS_PAGE, IMPROVEMENT, MANIFEST, SEAL, SUMS, EVALUATION_CONFIG, EVALUATION_SUMMARY,
                         PREDICTIONS, SELECTION, *(PurePosixPath(name).name for name in MANIFEST_READS)})
"""Names of the files that rounds are compared by."""
MAX_IMPROVEMENTS = 100
"""Folders of improvements in one record: each of them is compared again, round by round."""


@record_check("recompute.rounds")
def rounds(record: Record) -> Iterator[CheckFinding]:
    """Result, request and page of each improvement against runs and samples of its rounds, which are compared again."""
    folders = improvement_folders(record)
    # A bound, because a comparison takes seconds and a foreign tree may hold thousands.
    for folder in folders[:MAX_IMPROVEMENTS]:
        name = shown(f"{folder}/{ROUNDS}" if folder else ROUNDS)
        if record.given.rounds is None:
            yield not_checked(f"{name}: nothing that compares rounds was given", blocking=False)
            continue
        with _on_disk(record.tree, folder) as path:
            problems = record.given.rounds(path)
        yield failed(f"{name}: {join_first(problems)}") if problems else passed(f"{name}, computed again")
    if len(folders) > MAX_IMPROVEMENTS:
        yield not_checked(f"{len(folders) - MAX_IMPROVEMENTS:,} improvements more than are compared")


def improvement_folders(record: Record) -> list[str]:
    """Folders and packs with the result of an improvement and its runs below it; "" is the whole record."""
    # Folders that hold runs; a result without any is only a file of this name.
    runs = {run.path.rpartition("/")[0] for run in record.runs}
    found = [str(PurePosixPath(entry.name).parent) for entry in record.unowned_entries
             if entry.kind == "file" and PurePosixPath(entry.name).name == ROUNDS]
    folders = ["" if folder == "." else folder for folder in found]
    folders += [pack.path for pack in record.packs if pack.has(ROUNDS)]
    # Sorted, so that the limit cuts off the same ones everywhere.
    return sorted(folder for folder in folders if (f"{folder}/runs" if folder else "runs") in runs)


@contextmanager
def _on_disk(tree: Tree, folder: str) -> Iterator[Path]:
    """A folder of the record; of a zip the files that rounds are compared by, laid out for as long."""
    if isinstance(tree, FolderTree):
        yield tree.path / folder
        return
    with tempfile.TemporaryDirectory(prefix="workings-verify-") as there:
        for entry in tree.entries:
            # No name of an entry leads out of its archive: `ZipTree` refuses such an archive as a whole.
            name = PurePosixPath(entry.name)
            if entry.kind == "file" and name.name in COMPARED_BY and (not folder or folder in map(str, name.parents)):
                path = Path(there, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                # Read with the limits of the tree, which refuse what unpacks to too much.
                path.write_bytes(read(tree, entry.name))
        yield Path(there, folder)
