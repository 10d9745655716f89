"""Level 2: the report page of a pack, generated again and compared byte for byte."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from workings.errors import RequestError
from workings.evidence.pack.form import COMPARISON, PACK, REPORT
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_pack, finding_from, not_checked
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import FolderTree, shown

MAX_PAGE_BYTES = 64 << 20
MAX_RUNS = 4
"""Largest number of runs in a pack with a page."""


@check("recompute.report", level=2, title="a pack's report page is the one that this version draws of its records",
       units=every_pack, example="a smoother curve in the report of a pack",
       # The page is drawn without the limits that hostile files are read with.
       unless_failed="not drawn again: other checks failed")
def report(pack: Unit) -> Iterator[CheckFinding]:
    """The page, generated again, byte for byte; a page of another version is not compared."""
    if not pack.has(REPORT):
        return
    if pack.record.given.report is None or not isinstance(pack.record.tree, FolderTree):
        why = "nothing that draws it was given" if pack.record.given.report is None else \
            "a zip is not unpacked; unpack it and verify the folder"
        yield not_checked(f"{REPORT}: {why}", pack, blocking=False)
        return
    pack_version, current_version = shown(str(pack.json(PACK).get("workings_version"))), version("workings")
    if pack_version != current_version:
        yield not_checked(f"{REPORT} was drawn by workings {pack_version}, this is {current_version}", pack,
                          blocking=False)
        return
    # Read only now: a page of another version is not compared.
    page = pack.read(REPORT, MAX_PAGE_BYTES)
    try:
        same = pack.record.given.report(page, pack.record.tree.path / pack.path, _unit_paths(pack), _compared(pack))
    except RequestError as error:
        yield not_checked(f"{REPORT} cannot be drawn again: {error.given[:200]}", pack, blocking=False)
        return
    yield finding_from([] if same else [f"{REPORT} is not what this version draws of these records"],
                       f"{REPORT}, drawn again", pack)


def _unit_paths(pack: Unit) -> list[str]:
    """Paths in the pack of its runs, and of evaluations that are in no run."""
    prefix = pack.tree_path("")
    units = [unit for unit in pack.record.units if unit is not pack and unit.path.startswith(prefix)
             and (unit.is_run or (unit.parent is None and unit in pack.record.evaluations))]
    return [unit.path.removeprefix(prefix) for unit in units][:MAX_RUNS]


def _compared(pack: Unit) -> list[str]:
    if not pack.has(COMPARISON):
        return []
    value: Any = pack.json(COMPARISON)
    return [str(value[side]["path"]) for side in ("a", "b")]
