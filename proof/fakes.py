"""Fakes about a real record, told in every file where it takes several, and about every file: what finds each.

The record is a run of a small engine with its evaluation, that of its untrained model, a note and the list of attempts.
Fakes are told in memory and everything is sealed again with all sums right. Those that agree with everything else
(splices, another seed told everywhere) are told on disk, and steps and answers are taken again. One counts as missed if
no check fails (of `tests/evidence/fakes.py`: the check that is meant to) and the answer names nothing about it.

Others follow from the record itself, about every field: unknown keys, values of another type,
keys left out, and each value told alike in every place (`tests/evidence/told_alike.py`).

Next to it is about records of other kinds (rewards, pairs, a teacher, adapters, samples, a pack, the runs of the
repository, a run that failed, one that went on, predictions from elsewhere; `tests/evidence/fakes_elsewhere.py`,
`fakes_about_ends.py`), told in every place that a careful forger would think of. There the
answer has to name a field that was changed.
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

from proof import splices
from tests.evidence import (
    every_file,
    fakes,
    fakes_about_ends,
    fakes_elsewhere,
    other_records,
    told_alike,
    walk,
)
from tests.evidence.trained import score_here, trained_files
from tools.result_file import write_result
from workings.evidence.verify import verify
from workings.evidence.verify.registry import CHECKS
from workings.runs.replay.replay import ReplayRequest, replay_run

RESULT = Path(__file__).parent / "fakes.json"
EXAMPLE = Path("examples/runs/quickstart/runs.zip")
EACH = 6
"""Splices of each kind, with as much taken again as finds all of them."""
SURE = 0.999
MARKED, MISSED = "said, not checked", "missed"


def main() -> int:
    """Tell all, write the result file, print one line; 1 if anything was missed."""
    with tempfile.TemporaryDirectory() as folder:
        told, taken_again = fakes_told(Path(folder, "fakes")), replayed(Path(folder, "replayed"))
        elsewhere = told_elsewhere(Path(folder, "elsewhere"))
        alike = of_every_field(Path(folder, "alike"))
    write_result(RESULT, what="What finds fakes about a real record, by level, and which are named as not checked.",
                 command="python -m proof.fakes", packages=["pydantic", "rfc8785", "numpy"], values={
        "tried": told["tried"] + alike["tried"] + taken_again["tried"] + elsewhere["tried"], "told": told,
        "of_every_field": alike, "elsewhere": elsewhere, "taken_again": taken_again})
    for what, each in (("one run", told), ("every field", alike), ("records of other kinds", elsewhere)):
        print(f"{each['tried']} fakes about {what}: {each['found_by_a_check']} found, {each['marked']} named, "
              f"{each['missed']} missed")
    print(f"{taken_again['tried']} that only a replay finds: {taken_again['missed']} missed")
    return 1 if any(each["missed"] for each in (told, alike, elsewhere, taken_again)) else 0


def fakes_told(folder: Path) -> dict[str, Any]:
    """Every fake of `tests/evidence/fakes.py` and `every_file.py`, by kind: what finds it, at the lowest level."""
    with pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        record = trained_files(folder)
        honest = walk.verified(record)
        found: dict[str, dict[str, str]] = {}
        for kind, table in fakes.KINDS.items():
            found[kind] = {name: _of_kind(record, fake, expected) for name, (fake, expected) in table.items()}
        found["every file"] = {name: _outcome(*every_file.outcome(record, honest, fake))
                               for name, fake in every_file.fakes_about(record).items()}
    return counted(found)


def of_every_field(folder: Path) -> dict[str, Any]:
    """Every fake of `tests/evidence/told_alike.py` about a run and records of other kinds: what finds it, by kind."""
    found: dict[str, dict[str, str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        for name, make in {"run": trained_files, **other_records.KINDS}.items():
            (folder / name).mkdir(parents=True)
            record = make(folder / name)
            honest = walk.verified(record)
            for kind in told_alike.KINDS:
                found.setdefault(kind, {}).update({
                    f"{name}: {what}": _outcome(*told_alike.outcome(record, honest, fake))
                    for what, fake in told_alike.fakes_about(record, kind)})
    return counted(found)


def told_elsewhere(folder: Path) -> dict[str, Any]:
    """Every fake of `tests/evidence/fakes_elsewhere.py`, by kind of record: what finds it, at the lowest level."""
    found: dict[str, dict[str, str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        for kind, table in (fakes_elsewhere.KINDS | fakes_about_ends.OF_ENDS).items():
            (folder / kind).mkdir(parents=True)
            record = walk.files_of(EXAMPLE) if kind == "quickstart" else other_records.KINDS[kind](folder / kind)
            honest = walk.verified(record)
            assert not honest.failed, kind
            found[kind] = {name: _elsewhere(*fakes_elsewhere.told(record, honest, fake), expected)
                           for name, (fake, expected) in table.items()}
    return counted(found)


def _elsewhere(failed: list[str], named: list[str], expected: str) -> str:
    # What is meant to be found has to be found; what no record can show, the last sentence of every answer says.
    outcome = _outcome(failed, named)
    if expected == fakes_elsewhere.SENTENCE and outcome == MISSED:
        return MARKED
    return MISSED if expected == fakes_elsewhere.FOUND and outcome == MARKED else outcome


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
    """Splices, and a fake that is told everywhere: levels 0 to 2 pass, and steps taken again find each."""
    found: dict[str, dict[str, str]] = {"splices": {}, "told everywhere": {}}
    with pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        splices.trained(folder / "long", patch)
        chance = random.Random(3)  # noqa: S311 - the same splices each time
        for kind in splices.KINDS:
            for number in range(EACH):
                row = splices.one(folder / "long", folder / "work", kind, SURE, chance)
                passed_below = not row["lower"]
                found["splices"][f"{kind} {number}"] = "level_3" if row["found"] and passed_below else MISSED
        record = trained_files(folder / "short")
        for name, (fake, expected) in fakes.ONLY_A_REPLAY.items():
            found["told everywhere"][name] = _taken_again(folder, record, fake, expected)
    return counted(found)


def _taken_again(folder: Path, record: Mapping[str, bytes], fake: fakes.Fake, expected: str) -> str:
    changed = dict(record)
    fake(changed)
    runs = folder / "told" / "runs"
    for name, data in walk.resealed(changed).items():
        (runs / name).parent.mkdir(parents=True, exist_ok=True)
        (runs / name).write_bytes(data)
    shutil.copytree(folder / "short" / "asked", folder / "told" / "asked")
    found = verify(runs / "a", level=3, replay=lambda path, _: replay_run(path, ReplayRequest(confidence=SURE)).facts)
    failed = {check.id for check in found.checks if check.verdict == "failed"}
    return "level_3" if expected in failed and all(CHECKS[name].level == 3 for name in failed) else MISSED


def _of_kind(record: dict[str, bytes], fake: fakes.Fake, expected: str) -> str:
    failed, marked = fakes.told(record, fake)
    # The check that is meant to find it has to be among those that do.
    return _outcome(failed, marked) if expected == fakes.SAID or expected in failed else MISSED


def _outcome(failed: list[str], marked: list[str]) -> str:
    """The lowest level that finds a fake, or that it is named, or that nothing happened."""
    if failed:
        return f"level_{min(CHECKS[name].level for name in failed)}"
    return MARKED if marked else MISSED


def _levels(outcomes: list[str]) -> dict[str, int]:
    return dict(sorted(Counter(each for each in outcomes if each.startswith("level")).items()))


if __name__ == "__main__":
    sys.exit(main())
