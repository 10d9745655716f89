"""Levels 0 to 2: a pack holds the units that it lists, lacks only tensors; its views follow from the records."""

import tempfile
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evidence.pack.form import BY_DIGEST, COMPARISON, PACK, REPORT, may_be_external, parse_pack
from workings.evidence.verify.checks.evaluations import differences
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
from workings.evidence.verify.tree import FolderTree, shown
from workings.evidence.verify.views import CARDS, path_in, runs_in, views_of, writer_of
from workings.record.layout import (
    EVALUATION_CONFIG,
    EVALUATION_SUMMARY,
    MANIFEST,
    PREDICTIONS,
    RECIPE,
    SEAL,
    SUMS,
    check_relative,
)

# A larger text is refused before it is searched for numbers.
MAX_DOCUMENT_BYTES = 16 << 20
RECIPES = "recipes"


@check("integrity.pack", every_pack)
def units(pack: Unit) -> Iterator[CheckFinding]:
    """The pack's list against the units that are there: no run and no evaluation was added or taken away."""
    listed, _ = parse_pack(pack.json(PACK))
    present = {path_in(pack, unit): unit for unit in pack.record.units if unit is not pack and unit.path.startswith(
        pack.tree_path(""))}
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
    runs = runs_in(pack)
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


@check("consistency.views", every_pack)
def recipes(pack: Unit) -> Iterator[CheckFinding]:
    """Each recipe of the pack against that of its run; no card of another run."""
    expected = {f"{RECIPES}/{path.rpartition('/')[2]}.yaml": run for path, run in runs_in(pack).items()}
    packed = {name for name in pack.files if name.startswith(f"{RECIPES}/")}
    cards = {name for name in pack.files if name.startswith(f"{CARDS}/")}
    problems = [f"{shown(name)} is here, and not the recipe of a run" if name in packed else
                f"{shown(name)} is missing" for name in sorted(packed ^ expected.keys())]
    problems += [f"{name} is not the recipe of {shown(run.path)}" for name, run in sorted(expected.items())
                 if name in packed and pack.read(name, MAX_DOCUMENT_BYTES) != run.read(RECIPE, MAX_DOCUMENT_BYTES)]
    problems += [f"{shown(name)} is here, and not the card of a run" for name in sorted(cards - views_of(pack).keys())]
    yield finding_from(problems, f"{len(expected)} recipes", pack)


@check("recompute.comparison", every_pack)
def comparison(pack: Unit) -> Iterator[CheckFinding]:
    """Every number of the comparison, its sentence and its verdict, against the two evaluations."""
    if not pack.has(COMPARISON):
        return
    recorded = pack.json(COMPARISON)
    # A foreign pack may lack a side or name a missing evaluation.
    sides = [recorded.get(side, {}).get("path") for side in ("a", "b")] if isinstance(recorded, dict) else []
    both = [next((unit for unit in pack.record.evaluations if path_in(pack, unit) == side), None) for side in sides]
    if len(both) != 2 or both[0] is None or both[1] is None:
        yield failed(f"{COMPARISON} names evaluations that are not here", pack)
        return
    again = compared_again(pack, both[0], both[1], recorded)
    yield finding_from([f"{COMPARISON}: {path}" for path in differences(recorded, again)],
                       f"{shown(str(recorded.get('verdict')))}, every number equal", pack)


def compared_again(pack: Unit, a: Unit, b: Unit, recorded: Mapping[str, Any]) -> Any:
    """The comparison of two evaluations of a pack, computed from their files alone, in the form that was recorded.

    Raises:
        RecordError: the two cannot be compared.
    """
    from workings.evaluation.comparison.compare import compare_records
    from workings.evaluation.unit import EvaluationRecord

    # The comparison reads folders, so the few files that it needs are laid out as they are in a run.
    with tempfile.TemporaryDirectory(prefix="workings-verify-") as folder:
        records = []
        for number, unit in enumerate((a, b)):
            run, path = unit.parent, Path(folder, str(number))
            if run is None:
                path /= _checked_name(unit)
                path.mkdir(parents=True)
            else:
                path = path / _checked_name(run) / "eval" / _checked_name(unit)
                path.mkdir(parents=True)
                path.parent.parent.joinpath(MANIFEST).write_bytes(run.read(MANIFEST))
            for name in (EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS, SUMS):
                (path / name).write_bytes(unit.read(name))
            records.append(EvaluationRecord(path))
        try:
            compared = compare_records(*records)
            value = compared.to_json()
        except (RequestError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RecordError(f"cannot be compared ({str(error)[:100]})") from None
    for side, unit in (("a", a), ("b", b)):
        if side in value:
            value[side]["path"] = path_in(pack, unit)
    return value


def _checked_name(unit: Unit) -> str:
    # The name becomes a folder on this machine: with `..` or a slash in it, it would lead out of the temporary one.
    name = unit.path.rpartition("/")[2]
    return str(check_relative(name))


MAX_PAGE_BYTES = 64 << 20
MAX_RUNS = 4
"""Largest number of runs in a pack with a page."""


@check("recompute.report", every_pack)
def report(pack: Unit) -> Iterator[CheckFinding]:
    """The page, generated again, byte for byte; a page of another version is not compared."""
    if not pack.has(REPORT):
        return
    if pack.record.given.report is None or not isinstance(pack.record.tree, FolderTree):
        why = "no renderer was given" if pack.record.given.report is None else \
            "a zip is not unpacked; unpack it and verify the folder"
        yield not_checked(f"{REPORT}: {why}", pack, blocking=False)
        return
    pack_version, current_version = shown(str(pack.json(PACK).get("workings_version"))), version("workings")
    if pack_version != current_version:
        yield not_checked(f"{REPORT} was rendered by workings {pack_version}, this is {current_version}", pack,
                          blocking=False)
        return
    # Read only now: a page of another version is not compared.
    page = pack.read(REPORT, MAX_PAGE_BYTES)
    try:
        same = pack.record.given.report(page, pack.record.tree.path / pack.path, _unit_paths(pack), _compared(pack))
    except RequestError as error:
        yield not_checked(f"{REPORT} cannot be rendered again: {error.given[:200]}", pack, blocking=False)
        return
    yield finding_from([] if same else [f"{REPORT} differs from the page that this version renders from these records"],
                       f"{REPORT}, rendered again", pack)


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


MAX_VIEW_BYTES = 16 << 20
"""Largest text that is compared."""


@check("consistency.views", every_unit)
def texts(unit: Unit) -> Iterator[CheckFinding]:
    """README, model cards and samples, rendered again, byte for byte; those of another version are not compared."""
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
