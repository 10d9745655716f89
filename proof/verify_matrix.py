"""Every file of a sealed record x every change, forgeries sealed again, and hostile values: which check catches what.

The record is a small one with an evaluation, made through the recorder. Changes and forgeries are those of the tests
(`tests/evidence/`); here each is counted and the ids that fail are written down. Hostile values replace every value of
every JSON file in turn (a sample of ``--fuzz`` cases, the same each time), the record is sealed again and verified with
the net below the checks taken away: a case counts as a traceback if anything but a verdict comes out.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.evidence import reseal
from tests.evidence.test_forgeries import CAUGHT, ONLY_ANCHOR_OR_REPLAY
from tests.evidence.test_hostile import HOSTILE, places, put
from tests.evidence.test_mutations import EXPECTED, SEALING
from tests.record import synthetic
from tools.result_file import write_result
from workings.evidence.verify import core, verify
from workings.evidence.verify.registry import CHECKS
from workings.record.seal import seal_unit

RESULT = Path(__file__).parent / "verify_matrix.json"
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
        mutations = {change.__name__: mutated(base, work, change, listed, sealing)
                     for change, listed, sealing in EXPECTED}
        forgeries = {forge.__name__: {"expected": CAUGHT[forge], "caught_by": forged(base, work, forge)}
                     for forge in CAUGHT}
        consistent = {forge.__name__: forged(base, work, forge) for forge in ONLY_ANCHOR_OR_REPLAY}
        tried, tracebacks = fuzzed(base, work, asked.fuzz)
    missed = [name for name, found in mutations.items() if found["missed"]] + [
        name for name, found in forgeries.items() if found["expected"] not in found["caught_by"]] + [
        f"{name} (counted as consistent)" for name, ids in consistent.items() if ids]
    values = {
        "changes": {"kinds": len(mutations), "tried": sum(found["tried"] for found in mutations.values()),
                    "missed": sum(len(found["missed"]) for found in mutations.values()), "by_kind": mutations},
        "forgeries": {"tried": len(forgeries), "by_kind": forgeries,
                      "levels": dict(sorted(Counter(f"level {CHECKS[found['expected']].level}"
                                                    for found in forgeries.values()).items()))},
        "consistent_inventions": {"tried": len(consistent), "names": sorted(consistent),
                                  "caught_without_an_anchor": sum(map(bool, consistent.values()))},
        "hostile_values": {"tried": tried, "tracebacks": len(tracebacks), "first": tracebacks[:5]},
        "missed": missed,
    }
    write_result(RESULT, what="What verification catches in a sealed record that was changed, forged, or made to harm.",
                 command=f"python -m proof.verify_matrix --fuzz {asked.fuzz}", packages=["pydantic", "rfc8785"],
                 values=values)
    print(f"{values['changes']['tried']} changes, {len(forgeries)} forgeries, {tried} hostile values: "
          f"{len(missed)} missed, {len(tracebacks)} tracebacks")
    return 1 if missed or tracebacks else 0


def failed(path: Path, level: int = core.HIGHEST_LEVEL) -> set[str]:
    """Ids of the checks that fail."""
    return {one.id for one in verify(path, level=level).checks if one.verdict == "failed"}


def mutated(base: Path, work: Path, change: Any, listed: set[str], sealing: set[str]) -> dict[str, Any]:
    """One kind of change, made to every file in turn."""
    ids: Counter[str] = Counter()
    missed = []
    files = sorted(path.relative_to(base / "tiny") for path in (base / "tiny").rglob("*") if path.is_file())
    for name in files:
        shutil.copytree(base, work)
        change(work / "tiny" / name)
        found = failed(work / "tiny", level=1)
        ids.update(found)
        if not found & (sealing if name.name in SEALING else listed):
            missed.append(str(name))
        shutil.rmtree(work)
    return {"tried": len(files), "missed": missed, "ids": dict(sorted(ids.items()))}


def forged(base: Path, work: Path, forge: Any) -> list[str]:
    """Ids that fail for a forgery that was sealed again."""
    shutil.copytree(base, work)
    forge(work / "tiny")
    reseal.reseal(work / "tiny")
    found = sorted(failed(work / "tiny"))
    shutil.rmtree(work)
    return found


def fuzzed(base: Path, work: Path, count: int) -> tuple[int, list[str]]:
    """How many hostile values were tried, and what came out instead of a verdict."""
    cases = list(_cases(base / "tiny"))
    random.Random(0).shuffle(cases)  # noqa: S311 - a sample, not a secret
    core.MALFORMED = ()  # type: ignore[assignment]
    tracebacks = []
    for name, place, hostile in cases[:count]:
        shutil.copytree(base, work)
        _write(work / "tiny" / name, put(_read(work / "tiny" / name), place, hostile))
        unit = work / "tiny" / "eval" / "test" if name.startswith("eval") else work / "tiny"
        if Path(name).name != "SEAL.json":
            _seal_again(unit)
        try:
            verify(work / "tiny")
        except Exception as error:  # noqa: BLE001 - whatever comes out is what is counted
            tracebacks.append(f"{name} {place}: {type(error).__name__}: {str(error)[:80]}")
        shutil.rmtree(work)
    return min(count, len(cases)), tracebacks


def _cases(run: Path) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    for path in sorted(run.rglob("*.json*")):
        if path.name not in FOREIGN:
            for place in places(_read(path)):
                for hostile in HOSTILE:
                    yield path.relative_to(run).as_posix(), place, hostile


def _read(path: Path) -> Any:
    data = path.read_bytes()
    return [json.loads(line) for line in data.splitlines()] if path.suffix == ".jsonl" else json.loads(data)


def _write(path: Path, value: Any) -> None:
    rows = value if path.suffix == ".jsonl" and isinstance(value, list) else [value]
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def _seal_again(unit: Path) -> None:
    seal = json.loads((unit / "SEAL.json").read_bytes())
    (unit / "SEAL.json").unlink()
    (unit / "SHA256SUMS").unlink()
    origin = seal["made_from"] if isinstance(seal["made_from"], str) else None
    seal_unit(unit, seal["unit"], seal["status"], origin)


if __name__ == "__main__":
    sys.exit(main())
