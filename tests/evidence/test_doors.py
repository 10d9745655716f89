"""An attack through each door: nothing runs, nothing is written outside, time and memory are bounded, no traceback."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evidence import doors
from tests.evidence.doors import DOORS

SECONDS, MEBIBYTES = 60, 1500
"""Processor time and memory that a child gets; a good record of this size takes a second and a hundred MiB."""
VERIFY = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({memory} << 20, {memory} << 20))
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
from pathlib import Path
from workings.evidence.verify import verify
from workings.evidence.verify import run_checks
run_checks.MALFORMED = ()  # the net below the checks is taken away
found = verify(Path(sys.argv[1]))
# `ru_maxrss` of a process counts what its parent held when it was forked; the mark of this program does not.
own = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
peak = max(int(own.split()[1]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
print(json.dumps([[one.id for one in found.checks if one.verdict == "failed"], peak]))
"""


def attacked(run_python, run: Path, attack: Callable[[Path, Path], Path], canary: Path) -> tuple[list[str], int]:
    """Ids that fail, and the most KiB that the child or its own child held; raises if it ends in any other way."""
    target = attack(run, canary)
    done = run_python("-c", VERIFY.format(memory=MEBIBYTES, seconds=SECONDS), target, cwd=run.parent)
    failed, peak = json.loads(done.stdout.splitlines()[-1])
    return failed, peak


# The others are tried by `proof/verify_matrix.py`, and one by one in `test_hostile.py`.
TRIED = [doors.code_as_scorer, doors.template_injection, doors.regex_bomb_in_a_completion]


@pytest.mark.parametrize("attack", TRIED, ids=lambda attack: attack.__name__)
def test_a_door(run: Path, tmp_path: Path, run_python, attack: Callable[[Path, Path], Path]) -> None:
    canary = tmp_path / "canary"
    before = {path for path in tmp_path.rglob("*") if "runs" not in path.parts}
    failed, peak = attacked(run_python, run, attack, canary)
    assert DOORS[attack] in failed if DOORS[attack] else "integrity.sums" not in failed
    assert not os.path.lexists(canary)
    assert {path for path in tmp_path.rglob("*") if "runs" not in path.parts} == before
    assert peak < MEBIBYTES << 10
