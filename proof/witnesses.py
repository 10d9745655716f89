"""Every field of real records changed in turn: found by its witness, or named as not checked.

The first record is a run of a small engine with its evaluation, that of its untrained model, a note and the list of
attempts. The others are runs that learned from rewards, preference pairs and a teacher, a unit of samples, a sealed
replay and a pack (`tests/evidence/records.py`). Everything happens in memory, and each change is sealed again
with all sums right (`tests/evidence/walk.py`). One counts as missed if the field's witness does not fail and the answer
of `verify` does not name the field.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import generated_fakes, records, walk
from tools.result_file import write_result
from workings.evidence.verify import verify
from workings.evidence.verify.coverage_table import KINDS, rows_of

EXAMPLE = Path("examples/runs/quickstart/runs.zip")


def main() -> int:
    """Change everything, write the result file, print a line a record; 1 if anything was missed."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        records.score_here(patch)
        record = records.run(Path(folder, "trained"))
        found = {"a run": walked(record, walk.steps_of(record))}
        for kind, make in records.OTHERS.items():
            place = Path(folder, kind.replace(" ", "-"))
            place.mkdir()
            files = make(place)
            # Runs in a pack are like those that are walked over by themselves.
            found[kind] = walked(files, [step for step in walk.steps_of(files) if kind != "packs"
                                         or step.name == "runs/attempts.jsonl" or not step.name.startswith("runs/")])
    started = time.process_time()
    example = verify(EXAMPLE)
    seconds = time.process_time() - started
    rows = [row for kind in KINDS for row in rows_of(kind)]
    total = {key: sum(each[key] for each in found.values()) for key in ("tried", "missed")}
    write_result(packages=["pydantic", "rfc8785"], values={
        "table": {"rows": len(rows), "said": sum(not row.check for row in rows),
                  "in_part": sum(row.partly for row in rows)},
        "fields": total | {"by_record": found},
        "example": {"level": example.level, "failed": example.failed, "said": len(example.unchecked_fields),
                    "processor_seconds": round(seconds, 2)}})
    for name, each in found.items():
        print(f"{name}: {each['tried']} fields, {each['missed']} missed")
    return 1 if total["missed"] else 0


def walked(files: dict[str, bytes], steps: list[walk.Step]) -> dict[str, Any]:
    """How many fields of a record were changed, and which changes no one noticed. It has to be a good one itself."""
    honest = walk.verified(files)
    failed = [f"{check.id}: {check.text}" for check in honest.checks if check.verdict == "failed"]
    missed = [*failed, *(problem for step in steps
                         if (problem := generated_fakes.witness_problem((files, honest), step)))]
    return {"tried": len(steps), "missed": len(missed), "names": missed}


if __name__ == "__main__":
    sys.exit(main())
