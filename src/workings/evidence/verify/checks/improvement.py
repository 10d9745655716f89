"""Level 2: the result of `workings improve`, recomputed from the runs and samples of its rounds."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from workings.evidence.verify.record import Record
from workings.evidence.verify.registry import failed, join_first, not_checked, passed, record_check
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import FolderTree, shown

ROUNDS = "rounds.json"
"""Result of an improvement, next to its runs and outside of every seal."""
MAX_IMPROVEMENTS = 100
"""Folders of improvements in one record: each of them is compared again, round by round."""


@record_check("recompute.rounds")
def rounds(record: Record) -> Iterator[CheckFinding]:
    """Result and request of each improvement against runs and samples of its rounds, which are compared again."""
    folders = improvement_folders(record)
    # A bound, because a comparison takes seconds and a foreign tree may hold thousands.
    for folder in folders[:MAX_IMPROVEMENTS]:
        name = shown(f"{folder}/{ROUNDS}" if folder else ROUNDS)
        if record.given.rounds is None:
            yield not_checked(f"{name}: nothing that compares rounds was given", blocking=False)
            continue
        if not isinstance(record.tree, FolderTree):
            yield not_checked(f"{name}: a zip is not unpacked; unpack it and verify the folder")
            continue
        problems = record.given.rounds(record.tree.path / folder)
        yield failed(f"{name}: {join_first(problems)}") if problems else passed(f"{name}, computed again")
    if len(folders) > MAX_IMPROVEMENTS:
        yield not_checked(f"{len(folders) - MAX_IMPROVEMENTS:,} improvements more than are compared")


def improvement_folders(record: Record) -> list[str]:
    """Folders with the result of an improvement and its runs below it; "" is the whole record."""
    # Folders that hold runs; a result without any is only a file of this name.
    runs = {run.path.rpartition("/")[0] for run in record.runs}
    found = [str(PurePosixPath(entry.name).parent) for entry in record.unowned_entries
             if entry.kind == "file" and PurePosixPath(entry.name).name == ROUNDS]
    folders = ["" if folder == "." else folder for folder in found]
    # Sorted, so that the limit cuts off the same ones everywhere.
    return sorted(folder for folder in folders if (f"{folder}/runs" if folder else "runs") in runs)
