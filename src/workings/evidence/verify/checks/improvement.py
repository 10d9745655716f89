"""Level 2: what `workings improve` says of its rounds, made again from the runs and samples of those rounds."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from workings.evidence.verify.record import Record
from workings.evidence.verify.registry import failed, join_first, not_checked, passed, record_check
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import FolderTree, shown

ROUNDS, ROUNDS_PAGE, IMPROVEMENT = "rounds.json", "rounds.html", "improve.json"
"""Result, page and request of an improvement. They lie beside its runs, outside of every seal."""
MAX_IMPROVEMENTS = 100
"""Folders of improvements in one record: each of them is compared again, round by round."""


@record_check("recompute.rounds", level=2,
              title="accuracies, comparisons and the page of an improvement are those of its runs",
              example="a higher accuracy of a round in `rounds.json` than its run reached",
              # The rounds are read without the limits that hostile files are read with.
              unless_failed="not computed again: other checks failed")
def rounds(record: Record) -> Iterator[CheckFinding]:
    """Result, request and page of each improvement against runs and samples of its rounds, which are compared again."""
    folders = improvement_folders(record)
    for folder in folders[:MAX_IMPROVEMENTS]:
        name = shown(f"{folder}/{ROUNDS}" if folder else ROUNDS)
        if record.rounds is None or not isinstance(record.tree, FolderTree):
            why = "nothing that compares rounds was given" if record.rounds is None else \
                "a zip is not unpacked; unpack it and verify the folder"
            yield not_checked(f"{name}: {why}", blocking=False)
        elif problems := record.rounds(record.tree.path / folder):
            yield failed(f"{name}: {join_first(problems)}")
        else:
            yield passed(f"{name}, computed again")
    if len(folders) > MAX_IMPROVEMENTS:
        yield not_checked(f"{len(folders) - MAX_IMPROVEMENTS:,} improvements more than are compared")


def improvement_folders(record: Record) -> list[str]:
    """Folders that hold the result of an improvement, with its runs below them; "" is the whole record."""
    runs = {run.path.rpartition("/")[0] for run in record.runs}
    found = [str(PurePosixPath(entry.name).parent) for entry in record.unowned_entries
             if entry.kind == "file" and PurePosixPath(entry.name).name == ROUNDS]
    folders = ["" if folder == "." else folder for folder in found]
    return sorted(folder for folder in folders if (f"{folder}/runs" if folder else "runs") in runs)
