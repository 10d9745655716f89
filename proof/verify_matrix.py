"""Every file of a sealed record x every change, forgeries, attacks and hostile values: which check catches what.

The record is a small one with an evaluation, a note and a signature, made through the recorder; packs hold two of them.
Replays are those of a run that a small engine of the tests trained.
Changes, forgeries and attacks are those of the tests (`tests/evidence/`); here each is counted, and the ids that fail
are written down. Attacks run in children with limits on time and memory. Hostile values replace every value of
every JSON file in turn (a sample of ``--fuzz`` cases, the same each time), and the record is sealed again and verified:
a case counts as a traceback if anything but a verdict comes out.
"""

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import (
    doors,
    fakes_about_runs,
    fakes_about_small_runs,
    fakes_elsewhere,
    generated_fakes,
    records,
    test_sign,
    walk,
)
from tests.evidence.fakes import Table, outcome
from tests.evidence.test_mutations import EXPECTED, expected, whole_record
from tests.record import synthetic
from tests.runs.pinned import pin_code_version
from tests.runs.runs_helpers import OTHER_PACKAGE
from tools.result_file import write_result
from workings.evidence.verify import verify
from workings.evidence.verify.registry import CHECKS
from workings.runs.replay import ReplayRequest, replay_run

NOTHING = "nothing"
FOREIGN = ("tokenizer.json", "tokenizer_config.json")


def main() -> int:
    """Run everything, write the result file, print one line; 1 if anything was missed or raised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzz", type=int, default=2000, help="number of hostile values")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        synthetic.add_evaluation(synthetic.sealed_run(base / "tiny"))
        work = Path(folder, "work")
        whole, key = whole_record(base, Path(folder, "whole"))
        mutations = {name: mutated(whole, key, work, *row) for name, row in EXPECTED.items()}
        signatures = {name: {"expected": ["attestation.signed"], "caught_by": changed(whole, work, forge)}
                      for name, forge in test_sign.CHANGES.items()}
        told = {kind: of_a_table(kind, Path(folder, kind), table) for kind, table in {
            "small_pack": fakes_elsewhere.OF_A_PACK, "samples": fakes_elsewhere.OF_SAMPLES,
            "small": fakes_about_small_runs.OF_A_SMALL_RUN,
            "rewarded_texts": fakes_about_small_runs.OF_REWARDED_TEXTS}.items()}
        packs, samples, forgeries, rollouts = told.values()
        replays = replays_changed(Path(folder, "replays"))
        attacks = {name: {"expected": expected, **attacked(base, work, attack)}
                   for name, (attack, expected) in doors.DOORS.items()}
        consistent = of_a_table("small", Path(folder, "consistent"), {
            name: (fake, NOTHING) for name, fake in fakes_about_small_runs.CONSISTENT.items()})
        tried, tracebacks = fuzzed(base, asked.fuzz)
    missed = [name for name, found in mutations.items() if found["missed"]] + [
        f"{name} (counted as consistent)" for name, found in consistent.items() if found["caught_by"]] + [
        name for group in (signatures, replays) for name, found in group.items()
        if not set(found["expected"]) <= set(found["caught_by"]) or not found["caught_by"]] + [
        name for group in told.values() for name, found in group.items() if found["problem"]] + [
        name for name, found in attacks.items() if found["ended"] != "a verdict" or found["canary"]
        or found["expected"].partition(": ")[0] not in ["", *found["caught_by"]]]
    values = {
        "changes": {"kinds": len(mutations), "tried": sum(found["tried"] for found in mutations.values()),
                    "missed": sum(len(found["missed"]) for found in mutations.values()), "by_kind": mutations},
        "forgeries": {"tried": len(forgeries), "by_kind": forgeries,
                      "levels": dict(sorted(Counter(
                          f"level {CHECKS[name].level}" if (name := found["expected"].partition(": ")[0]) in CHECKS
                          else name for found in forgeries.values()).items()))},
        "consistent_inventions": {
            "tried": len(consistent), "names": sorted(consistent),
            "caught_without_an_anchor": sum(bool(each["caught_by"]) for each in consistent.values())},
        "signatures": {"tried": len(signatures), "by_kind": signatures},
        "packs": {"tried": len(packs), "by_kind": packs},
        "rollouts": {"tried": len(rollouts), "by_kind": rollouts},
        "samples": {"tried": len(samples), "by_kind": samples},
        "replays": {"tried": len(replays), "by_kind": replays},
        "attacks": {"tried": len(attacks), "ran_code": sum(found["canary"] for found in attacks.values()),
                    "without_a_verdict": sum(found["ended"] != "a verdict" for found in attacks.values()),
                    "largest_processor_seconds": max(found["processor_seconds"] for found in attacks.values()),
                    "largest_mebibytes": max(found["mebibytes"] for found in attacks.values()),
                    "limits": {"processor_seconds": doors.SECONDS, "mebibytes": doors.MEBIBYTES},
                    "by_kind": attacks},
        "hostile_values": {"tried": tried, "tracebacks": len(tracebacks), "first": tracebacks[:5]},
        "missed": missed,
    }
    write_result(packages=["pydantic", "rfc8785"], words=f"--fuzz {asked.fuzz}", values=values)
    forged_ones = sum(map(len, (forgeries, signatures, packs, rollouts, samples, replays)))
    print(f"{values['changes']['tried']} changes, {forged_ones} forgeries, {len(attacks)} attacks, {tried} hostile "
          f"values: {len(missed)} missed, {len(tracebacks)} tracebacks")
    return 1 if missed or tracebacks else 0


def failed(path: Path, level: int = 2, trusted: tuple[bytes, ...] = ()) -> set[str]:
    """Ids of the checks that fail."""
    return {one.id for one in verify(path, level=level, trusted=trusted).checks if one.verdict == "failed"}


def of_a_table(kind: str, folder: Path, table: Table) -> dict[str, Any]:
    """Each fake of a table about a record of a kind, told in memory and sealed again."""
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        records.score_here(patch)
        files = records.ALL[kind](folder)
        honest = walk.verified(files)
        said = {name: (outcome(files, honest, fake), expected) for name, (fake, expected) in table.items()}
    return {name: {"expected": expected, "caught_by": sorted(found.failed),
                   "problem": "" if expected == NOTHING else found.problem(expected)}
            for name, (found, expected) in said.items()}


def changed(whole: Path, work: Path, change: Any) -> list[str]:
    """Ids that fail for a changed signature."""
    shutil.copytree(whole, work)
    change(work / "tiny")
    found = sorted(failed(work / "tiny", level=0))
    shutil.rmtree(work)
    return found


def replays_changed(folder: Path) -> dict[str, Any]:
    """A run, and inventions that only steps replayed find."""
    sys.path.insert(0, str(OTHER_PACKAGE))
    pin_code_version(pytest.MonkeyPatch())
    records.small_run(folder, "a", "evaluation.base=false")
    invented = {}
    for name, (fake, check) in fakes_about_runs.ONLY_A_REPLAY.items():
        work = shutil.copytree(folder, folder.with_name(f"replays {name}"))
        records.tell(work / "runs", fake)
        found = verify(work / "runs/a", level=3, replay=lambda path, _: replay_run(path, ReplayRequest()))
        invented[f"{name} (level 3)"] = {
            "expected": [check], "caught_by": sorted({one.id for one in found.checks if one.verdict == "failed"})}
    return invented


def attacked(base: Path, work: Path, attack: Any) -> dict[str, Any]:
    """How a child that verifies an attack ends, which ids fail, and whether planted code ran."""
    shutil.copytree(base, work / "runs")
    canary = work / "canary"
    target = attack(work / "runs" / "tiny", canary)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = doors.VERIFY.format(memory=doors.MEBIBYTES, seconds=doors.SECONDS)
    done = subprocess.run([sys.executable, "-c", code, str(target)], capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = "a verdict" if done.returncode == 0 else f"exit {done.returncode}: {done.stderr.strip()[-200:]}"
    ids, kib = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else ([], 0)
    found = {"ended": ended, "canary": canary.exists(), "caught_by": ids, "mebibytes": round(kib / 1024),
             "processor_seconds": round(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, 1)}
    shutil.rmtree(work)
    return found


def mutated(base: Path, key: bytes, work: Path, change: Any, listed: set[str],
            sealing: set[str]) -> dict[str, Any]:
    """One kind of change, made to every file in turn."""
    ids: Counter[str] = Counter()
    missed = []
    files = sorted(path.relative_to(base / "tiny") for path in (base / "tiny").rglob("*") if path.is_file())
    for name in files:
        shutil.copytree(base, work)
        change(work / "tiny" / name)
        found = failed(work / "tiny", level=1, trusted=(key,))
        ids.update(found)
        if not found & expected(name, listed, sealing):
            missed.append(str(name))
        shutil.rmtree(work)
    return {"tried": len(files), "missed": missed, "ids": dict(sorted(ids.items()))}


def fuzzed(base: Path, count: int) -> tuple[int, list[str]]:
    """How many hostile values were tried, and what came out instead of a verdict."""
    files = walk.files_of(base)
    cases = [(name, *case) for name in sorted(files) if ".json" in name and name.startswith("tiny/")
             and not name.endswith(FOREIGN) for case in generated_fakes.hostile_values(files, name)]
    random.Random(0).shuffle(cases)  # noqa: S311 - a sample, not a secret
    tracebacks = []
    for name, place, hostile in cases[:count]:
        try:
            walk.verified(generated_fakes.with_value(files, name, place, hostile))
        except Exception as error:  # noqa: BLE001 - any error is counted
            tracebacks.append(f"{name} {place}: {type(error).__name__}: {str(error)[:80]}")
    return min(count, len(cases)), tracebacks


if __name__ == "__main__":
    sys.exit(main())
