"""Levels 0 and 1: a pack holds the units that it lists, lacks only tensors; views follow from their records."""

from collections.abc import Iterator
from importlib.metadata import version

from workings.evidence.pack.form import BY_DIGEST, PACK, may_be_external, parse_pack
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import (
    check,
    every_pack,
    every_unit,
    failed,
    finding_from,
    join_first,
    not_checked,
)
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.tree import shown
from workings.evidence.verify.views import units_in, views_of, writer_of
from workings.record.layout import MANIFEST, SEAL, SUMS


@check("integrity.pack", every_pack)
def units(pack: Unit) -> Iterator[CheckFinding]:
    """The pack's list against the units that are there: no run and no evaluation was added or taken away."""
    listed, _ = parse_pack(pack.json(PACK))
    present = units_in(pack)
    problems = [f"{shown(path)} is listed and not here" for path in sorted(listed.keys() - present.keys())]
    problems += [f"{shown(path)} is here and not listed" for path in sorted(present.keys() - listed.keys())]
    problems += [f"{shown(path)} has another root than the one listed" for path in sorted(present.keys() & listed)
                 if not present[path].has(SUMS) or present[path].root != listed[path]]
    # A seal in the pack's own files would look like a checked run to a reader, and no check would have opened it.
    problems += [f"{shown(name)}: a unit where none is allowed, so nothing in it was checked"
                 for name in sorted(pack.files) if name.rpartition("/")[2] in (SEAL, SUMS, MANIFEST)]
    yield finding_from(problems, f"{len(listed)} units", pack)


@check("integrity.pack", every_pack)
def by_digest(pack: Unit) -> Iterator[CheckFinding]:
    """Files that the pack names by digest: they are not here and were not hashed, so neither missing nor checked."""
    _, rows = parse_pack(pack.json(PACK))
    runs = {path: unit for path, unit in units_in(pack).items() if unit.is_run}
    present = [f"{shown(run.tree_path(name))}: here, and the pack names such files by digest" for run in runs.values()
             for name in run.files if may_be_external(name)] if pack.json(PACK)["weights"] == BY_DIGEST else []
    if not rows and not present:
        return
    problems, names = present, []
    for row in rows:
        name = shown(f"{row.run_path}/{row.file}")
        if not may_be_external(row.file):
            problems.append(f"{name}: a file of this kind has to be in the pack")
        elif row.run_path not in runs:
            problems.append(f"{name}: of no run in the pack")
        elif row.file not in runs[row.run_path].external_files:
            problems.append(f"{name}: here as well, or not with the digest that the run's sums have")
        names.append(name)
    if problems:
        yield failed(join_first(problems), pack)
        return
    # Not checked rather than passed: these bytes are not here. A replay, which needs them, says so too.
    total = sum(row.bytes for row in rows)
    yield not_checked(f"{len(rows)} files ({total:,} bytes) are named by their digests and are not here: "
                      f"{join_first(names)}", pack, blocking=False)


MAX_VIEW_BYTES = 16 << 20
"""Largest text that is compared."""


@check("consistency.views", every_unit)
def texts(unit: Unit) -> Iterator[CheckFinding]:
    """README, rendered again, byte for byte; those of another version are not compared."""
    views = views_of(unit)
    if not views:
        return
    writer = writer_of(unit)
    if writer != version("workings"):
        yield not_checked(f"written by workings {writer[:20]}; `workings verify --render` prints what this version "
                          "makes of the record", unit, blocking=False)
        return
    problems = [f"{name} is not what the record gives: `workings verify --render {name}` prints that"
                for name, render in views.items()
                if not unit.has(name) or unit.read(name, MAX_VIEW_BYTES) != render().encode("utf-8")]
    yield finding_from(problems, ", ".join(views), unit)
