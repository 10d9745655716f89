"""Fakes about a real record, told in every file where it takes several, and about every file: what finds each.

The record is a run of a small engine with its evaluation, that of its untrained model, a note and the list of attempts.
Fakes are told in memory and everything is sealed again with all sums right. Those that agree with everything else
(splices, another seed told everywhere) are told on disk, and steps and answers are repeated. One counts as missed if
it is not found as its table says (`tests/evidence/fakes.toml`, `fakes_about_runs.py`).

Others follow from the record itself, about every file and every field: files left out or another unit's, unknown keys,
values of another type, keys left out, and each value told alike in every place
(`tests/evidence/generated_fakes.py`). They count as missed if no check fails and the answer names nothing about them.

Next to it is about records of other kinds (rewards, pairs, a teacher, adapters, samples, a pack, the runs of the
repository, a run that failed, one that was resumed, predictions from elsewhere; `tests/evidence/fakes_elsewhere.py`,
`fakes_about_runs.py`), told in every place that a careful forger would think of.
"""

import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from proof import _splices
from tests.evidence import fakes_about_runs, fakes_elsewhere, generated_fakes, records, walk
from tests.evidence.fakes import Fake, Outcome, Table, outcome
from tools.result_file import write_result
from workings.evidence.verify import verify
from workings.evidence.verify.registry import CHECKS
from workings.runs.replay import ReplayRequest, replay_run

EACH = 6
"""Splices of each kind, with as much replayed as finds all of them."""
MARKED, MISSED = "said, not checked", "missed"


def main() -> int:
    """Tell all, write the result file, print one line; 1 if anything was missed."""
    with tempfile.TemporaryDirectory() as folder:
        told, taken_again = fakes_told(Path(folder, "fakes")), replayed(Path(folder, "replayed"))
        elsewhere = told_elsewhere(Path(folder, "elsewhere"))
        alike = of_every_field(Path(folder, "alike"))
    write_result(packages=["pydantic", "rfc8785", "numpy"], values={
        "tried": told["tried"] + alike["tried"] + taken_again["tried"] + elsewhere["tried"], "told": told,
        "of_every_field": alike, "elsewhere": elsewhere, "taken_again": taken_again})
    for what, each in (("one run", told), ("every field", alike), ("records of other kinds", elsewhere)):
        print(f"{each['tried']} fakes about {what}: {each['found_by_a_check']} found, {each['marked']} named, "
              f"{each['missed']} missed")
    print(f"{taken_again['tried']} that only a replay finds: {taken_again['missed']} missed")
    return 1 if any(each["missed"] for each in (told, alike, elsewhere, taken_again)) else 0


def record_of(kind: str, folder: Path) -> records.Record:
    """A record of a kind, made in a folder, and its description."""
    (folder / kind).mkdir(parents=True)
    files = records.ALL[kind](folder / kind)
    honest = walk.verified(files)
    assert not honest.failed, kind
    return files, honest


def of_a_table(record: records.Record, table: Table) -> dict[str, str]:
    """What finds each fake of a table, if it is found as the table says."""
    said = {name: (outcome(*record, fake), expected) for name, (fake, expected) in table.items()}
    return {name: MISSED if each.problem(expected) else level_of(each) or MARKED
            for name, (each, expected) in said.items()}


def fakes_told(folder: Path) -> dict[str, Any]:
    """Every fake about a run, and every one about its files, by kind: what finds it, at the lowest level."""
    with pytest.MonkeyPatch.context() as patch:
        records.score_here(patch)
        record = record_of("run", folder)
        return counted({"run": of_a_table(record, fakes_about_runs.OF_A_RUN), "every file": {
            name: level_of(outcome(*record, fake, whole_files=True)) or MISSED
            for name, fake in generated_fakes.of_files(record[0]).items()}})


def of_every_field(folder: Path) -> dict[str, Any]:
    """Every fake about the fields of a run and of records of other kinds: what finds it, by kind."""
    found: dict[str, dict[str, str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        records.score_here(patch)
        for name in ("run", *records.OTHERS):
            record = record_of(name, folder)
            for kind in generated_fakes.KINDS:
                found.setdefault(kind, {}).update({
                    f"{name}: {what}": level_of(outcome(*record, fake, made_again=True)) or MISSED
                    for what, fake in generated_fakes.of_fields(record[0], kind)
                    if generated_fakes.changes(record[0], fake)})
    return counted(found)


def told_elsewhere(folder: Path) -> dict[str, Any]:
    """Every fake about records of other kinds: what finds it, at the lowest level."""
    with pytest.MonkeyPatch.context() as patch:
        records.score_here(patch)
        return counted({kind: of_a_table(record_of(kind, folder), table) for kind, table in (
            fakes_elsewhere.KINDS | fakes_about_runs.ENDS).items()})


def counted(found: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Numbers by outcome, over all kinds and for each."""
    everything = [outcome for table in found.values() for outcome in table.values()]
    levels = _levels(everything)
    return {"tried": len(everything), "found_by_a_check": sum(levels.values()), "levels": levels,
            "marked": everything.count(MARKED), "missed": everything.count(MISSED),
            "names": [f"{kind}: {name}" for kind, table in found.items() for name, outcome in table.items()
                      if outcome == MISSED],
            "by_kind": {kind: {"tried": len(table), "levels": _levels([*table.values()]), "found_by": dict(table)}
                        for kind, table in found.items()}}


def replayed(folder: Path) -> dict[str, Any]:
    """Splices, and a fake that is told everywhere: levels 0 to 2 pass, and replayed steps find each."""
    found: dict[str, dict[str, str]] = {"splices": {}, "told everywhere": {}}
    with pytest.MonkeyPatch.context() as patch:
        records.score_here(patch)
        _splices.trained(folder / "long", patch)
        chance = random.Random(3)  # noqa: S311 - the same splices each time
        for kind in _splices.KINDS:
            for number in range(EACH):
                levels = set(_splices.failed_levels(folder / "long", folder / "work", kind, chance))
                found["splices"][f"{kind} {number}"] = "level_3" if levels == {3} else MISSED
        record = records.run(folder / "short")
        for name, (fake, expected) in fakes_about_runs.ONLY_A_REPLAY.items():
            found["told everywhere"][name] = _taken_again(folder, record, fake, expected)
    return counted(found)


def _taken_again(folder: Path, record: Mapping[str, bytes], fake: Fake, expected: str) -> str:
    changed = dict(record)
    fake(changed)
    told = Path(tempfile.mkdtemp(dir=folder))
    runs = walk.write_files(walk.resealed(changed), told / "runs")
    shutil.copytree(folder / "short" / "asked", told / "asked")
    found = verify(runs / "a", level=3, replay=lambda path, _: replay_run(path, ReplayRequest(whole=True)))
    failed = {check.id for check in found.checks if check.verdict == "failed"}
    return "level_3" if expected in failed and all(CHECKS[name].level == 3 for name in failed) else MISSED


def level_of(said: Outcome) -> str:
    """The lowest level that finds a fake, or that it is named; empty if neither."""
    if said.failed:
        return f"level_{min(CHECKS[name].level for name in said.failed)}"
    return MARKED if said.named else ""


def _levels(outcomes: list[str]) -> dict[str, int]:
    return dict(sorted(Counter(each for each in outcomes if each.startswith("level")).items()))


if __name__ == "__main__":
    sys.exit(main())
