"""A small real kernel on every device through an engine, each engine in a child process.

A wheel for the wrong card can take the process with it, and two engines must not share a card's memory: so the doctor
itself imports no framework and reads what the child says on its last line.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from workings.doctor.finding import Finding
from workings.engines.registry import engine_names

SECONDS = 300
WHY = "wheels for another card or driver import well and die at the first kernel"
CHILD = "workings.doctor.probe"


def check_kernels(engines: list[str], device: str, dtypes: list[str]) -> Iterator[Finding]:
    """A finding for every engine and number format.

    Args:
        engines: names to try; all registered ones if empty, and then one that is not installed is worth a note only.
        device: ``auto``, ``cpu``, ``gpu``, ``cuda`` or ``tpu``.
        dtypes: number formats, ``fp32`` or ``bf16``.
    """
    for name in engines or engine_names():
        for dtype, found in zip(dtypes, probe(name, device, dtypes), strict=False):
            yield _finding(name, dtype, found, asked=bool(engines))


def probe(engine: str, device: str, dtypes: list[str]) -> list[dict[str, Any]]:
    """What a child that opened the engine and ran the kernels says; ``failure`` where it did not get there."""
    command = [sys.executable, "-m", CHILD, engine, device, *dtypes]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return [{"failure": f"no answer within {SECONDS} s", "kind": "silent"}]
    lines = done.stdout.strip().splitlines()
    if lines and lines[-1].startswith("[{"):
        found: list[dict[str, Any]] = json.loads(lines[-1])
        return found[:1] if all(entry.get("kind") == "not installed" for entry in found) else found
    said = (done.stderr.strip().splitlines() or ["nothing"])[-1][:300]
    return [{"failure": f"the process ended with {done.returncode}: {said}", "kind": "crash"}]


def _finding(engine: str, dtype: str, found: dict[str, Any], asked: bool) -> Finding:
    name = f"kernel.{engine}"
    if "failure" not in found:
        return Finding(id=name, judgement="fine", why=WHY, what=f"{found['kernel']} is right on "
                       f"{', '.join(found['devices'])} ({found['platform']}: {found['device']}; {found['reason']})")
    absent = found["kind"] in ("not installed", "not offered")
    return Finding(id=name, judgement="note" if absent and not asked else "problem",
                   what=f"{dtype}: {found['failure']}", mend=found.get("mend", ""),
                   why="runs that ask for this are refused" if absent else WHY)
