"""Every field of a real record changed in turn, and lies of six kinds: found by a check, or named as not checked.

The record is a run of a small engine with its evaluation, that of its untrained model, a note and the list of attempts;
everything happens in memory, and every lie is sealed again with all sums right (`tests/evidence/walk.py`, `lies.py`).
A change counts as missed if no check fails and the answer of `verify` does not name what was changed.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import lies, walk
from tests.evidence.trained import score_here, trained_files
from tools.result_file import write_result
from workings.evidence.verify import verify
from workings.evidence.verify.checks import CHECKS
from workings.evidence.verify.witnesses import kinds, rows_of

RESULT = Path(__file__).parent / "witnesses.json"
EXAMPLE = Path("examples/runs/quickstart/runs.zip")


def main() -> int:
    """Change everything, write the result file, print one line; 1 if anything was missed."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        score_here(patch)
        record = trained_files(Path(folder))
        steps = walk.steps_of(record)
        missed_fields = [problem for step in steps if (problem := walk.outcome(record, step))]
        by_kind = {kind: {name: _told(record, lie, expected) for name, (lie, expected) in table.items()}
                   for kind, table in lies.KINDS.items()}
    started = time.process_time()
    example = verify(EXAMPLE)
    seconds = time.process_time() - started
    all_lies = {f"{kind}: {name}": found for kind, table in by_kind.items() for name, found in table.items()}
    missed = [name for name, found in all_lies.items() if not found["as_expected"]]
    rows = [row for kind in kinds() for row in rows_of(kind)]
    levels = Counter(f"level {CHECKS[found['expected']].level}" if found["expected"] in CHECKS else "said"
                     for found in all_lies.values())
    write_result(RESULT, what="Whether each field of a real record has a witness, and which check finds which lie.",
                 command="python -m proof.witnesses", packages=["pydantic", "rfc8785"], values={
        "table": {"rows": len(rows), "said": sum(not row.check for row in rows),
                  "in_part": sum(row.partly for row in rows)},
        "fields": {"tried": len(steps), "missed": len(missed_fields), "names": missed_fields},
        "lies": {"tried": len(all_lies), "found_by_a_check": len(all_lies) - levels["said"], "marked": levels["said"],
                 "levels": dict(sorted(levels.items())), "missed": len(missed), "names": missed, "by_kind": by_kind},
        "example": {"level": example.level, "failed": example.failed, "said": len(example.said),
                    "processor_seconds": round(seconds, 2)}})
    print(f"{len(steps)} fields, {len(all_lies)} lies: {len(missed_fields) + len(missed)} missed")
    return 1 if missed or missed_fields else 0


def _told(record: dict[str, bytes], lie: lies.Lie, expected: str) -> dict[str, Any]:
    failed, marked = lies.told(record, lie)
    good = expected in failed if expected != lies.SAID else bool(marked) and not failed
    return {"expected": expected, "caught_by": failed, "as_expected": good,
            **({"marked": marked[:1]} if expected == lies.SAID else {})}


if __name__ == "__main__":
    sys.exit(main())
