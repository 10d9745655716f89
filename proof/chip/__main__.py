"""What only a real accelerator can answer, measured in one command, a part at a time.

    python -m proof.chip [PART…] [--device auto|gpu|tpu|cpu] [--out DIR] [--minutes 9] [--tiny] [--rows TEXT]
        [--engines jax torch] [--at-once 1]
    python -m proof.chip --list

Parts: doctor, parity with the CPU, predicted against measured memory, speed next to TRL, sampling, kill and resume,
ways of learning, quickstart. Every row is measured in its own process, and kept in DIR/PART.json as soon as it is
there. A part ends after ``--minutes``; called again, it continues with the rows that are not finished. `table.md` shows
all of them, and what went wrong on the way. It needs no network and installs nothing: packages may be on PYTHONPATH.
With ``--at-once`` this many rows run at once for ``--minutes`` together; rows that need the chip alone come later.

Exits with 0 (every row is finished and holds), 1 (one failed, or does not hold) or 3 (no accelerator, or rows left).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any

from proof.chip.places import ROOT, make_findable

SCRATCH = ROOT / "build" / "chip"
"""Weights and runs: kept between calls, and no evidence."""
ONE_DEVICE = {"CUDA_VISIBLE_DEVICES": "0", "TPU_VISIBLE_CHIPS": "0", "TPU_PROCESS_BOUNDS": "1,1,1",
              "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1"}
"""Rows are about one chip, and a peer would spread over all that it sees."""
SHARED = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.95"}
"""For rows next to each other, unless someone set them: each takes what it needs of the chip's memory, and no process
all of it at its start. Rows that have the chip alone are measured as a run has it."""
# Not where a test imports this: both change what every child of the process sees.
if __name__ == "__main__":
    make_findable(SCRATCH / "site")
    for variable, value in ONE_DEVICE.items():
        os.environ.setdefault(variable, value)

from proof.chip import doctor, memory, parity, quickstart, resume, sampling, speed, ways  # noqa: E402
from proof.chip.evidence import FINISHED, Evidence, write_table  # noqa: E402
from proof.chip.part import Absent, Chip, Part  # noqa: E402
from workings.engines.hardware_probe import accelerators  # noqa: E402
from workings.errors import RequestError  # noqa: E402

PARTS: dict[str, Part] = {module.PART.name: module.PART
                          for module in (doctor, parity, memory, speed, sampling, resume, ways, quickstart)}
RESULTS = Path(__file__).parent / "results"
DESCRIBE = "--describe"


def main(arguments: list[str]) -> int:
    """Measure what is not finished, write the table, say how it is."""
    parser = argparse.ArgumentParser(prog="python -m proof.chip", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "gpu", "tpu"))
    parser.add_argument("--out", type=Path, help="folder of evidence; by default results/DEVICE next to this script")
    parser.add_argument("--minutes", type=float, default=9.0, help="a part ends after this many")
    parser.add_argument("--tiny", action="store_true", help="small models: tries every line, measures nothing")
    parser.add_argument("--engines", nargs="*", default=[], choices=("jax", "torch"))
    parser.add_argument("--rows", default="", help="only rows with this text in their names")
    parser.add_argument("--at-once", type=int, default=1, help="rows that run next to each other, where that may be")
    parser.add_argument("--list", action="store_true", help="name parts and rows, measure nothing")
    asked = parser.parse_args(arguments)
    platform = next(iter(accelerators()), "") if asked.device == "auto" else asked.device
    if not platform:
        print("not measured: this machine shows no accelerator (--device cpu --tiny tries it out)")
        return 3
    chip = describe(Chip(platform=platform, tiny=asked.tiny, only=tuple(asked.engines)))
    parts = [PARTS[name] for name in asked.parts] or list(PARTS.values())
    if asked.list:
        print("\n".join(f"{part.name}: {part.shows}\n  " + "\n  ".join(part.rows(chip)) for part in parts))
        return 0
    name = (chip.kind or platform).lower().replace(" ", "-").replace("/", "-") + ("-tiny" if chip.tiny else "")
    out = asked.out or (SCRATCH / name if platform == "cpu" or chip.tiny else RESULTS / name)
    if asked.at_once > 1:
        measure_beside(parts, chip, out, asked.minutes * 60, asked.rows, asked.at_once)
    for part in parts:
        measure_part(part, chip, out, asked.minutes * 60, asked.rows, alone=asked.at_once > 1)
    print(write_table(out, PARTS.values()))
    print(f"evidence: {out}")
    return exit_code([row for part in parts for row in Evidence(out, part, chip).rows.values()],
                     left=any(Evidence(out, part, chip).left() for part in parts))


def exit_code(rows: list[dict[str, Any]], *, left: bool) -> int:
    """A row that failed or does not hold comes before one that is left."""
    if any(row["status"] == "failed" or row.get("holds") is False for row in rows):
        return 1
    return 3 if left else 0


def describe(chip: Chip) -> Chip:
    """With the device's name and memory, as the first engine that opens it says."""
    for engine in chip.engines:
        code, said, error = child([DESCRIBE, engine, chip.platform], 180)
        if code == 0:
            return replace(chip, **json.loads(said.splitlines()[-1]))
        print(f"{engine} does not open a {chip.platform}: {error.strip().splitlines()[-1:]}", flush=True)
    return chip


def measure_beside(parts: Sequence[Part], chip: Chip, out: Path, seconds: float, having: str, count: int) -> None:
    """Rows of all parts that may run next to others and are not finished, ``count`` at a time, as far as time goes."""
    ends, lock = time.monotonic() + seconds, Lock()

    def measure(part: Part, evidence: Evidence, name: str) -> None:
        if (room := ends - time.monotonic()) <= 0:
            return
        row = measured(part, name, chip, room, SHARED)
        with lock:
            # One that time ended is not kept: it says nothing, and the next call begins with it.
            if row["status"] != "stopped":
                evidence.add(name, row)
            show(part, name, row)

    rows = [(part, evidence, name) for part in parts for evidence in [Evidence(out, part, chip)]
            for name in evidence.left() if having in name and not part.alone(name)]
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(lambda row: measure(*row), rows))


def measure_part(part: Part, chip: Chip, out: Path, seconds: float, having: str = "", *, alone: bool = False) -> None:
    """The rows of a part that are not finished, as far as the time goes; ``alone``: those alone that need the chip."""
    evidence, ends = Evidence(out, part, chip), time.monotonic() + seconds
    left = [name for name in evidence.left() if having in name and (part.alone(name) or not alone)]
    for number, name in enumerate(left):
        room = ends - time.monotonic()
        if room <= 0:
            print(f"{part.name}: time is over, {len(left) - number} rows are left; the same command goes on",
                  flush=True)
            return
        row = measured(part, name, chip, room)
        if row["status"] == "stopped" and room < seconds / 2:
            print(f"{part.name}: time is over within {name}; the same command begins with it", flush=True)
            return
        evidence.add(name, row)
        show(part, name, row)


def show(part: Part, name: str, row: dict[str, Any]) -> None:
    """A line about a row that was measured."""
    print(f"{part.name}: {name}: {row['status']}, {row['seconds']} s"
          + (f", holds: {row['holds']}" if "holds" in row else ""), flush=True)


def measured(part: Part, name: str, chip: Chip, seconds: float,
             environment: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """One row, from its own process, ended after ``seconds``; ``environment``: further variables."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "row.json"
        code, said, error = child([part.name, name, json.dumps(chip.as_json()), str(result)], seconds, environment)
        took = {"seconds": round(time.monotonic() - started, 1)}
        if code is None:
            return took | {"status": "stopped", "error": f"{error[-2000:]}\nnot done after {seconds:.0f} s"}
        if result.is_file():
            return json.loads(result.read_text(encoding="utf-8")) | took
    return took | {"status": "failed", "error": f"exit code {code}\n{said[-1000:]}\n{error[-4000:]}"}


def child(words: list[str], seconds: float,
          environment: Mapping[str, str] = MappingProxyType({})) -> tuple[int | None, str, str]:
    """Exit code (None: ended by the limit), standard output and error of this script for one row."""
    process = subprocess.Popen([sys.executable, "-m", "proof.chip.__main__", "--child", *words], cwd=ROOT, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                               env={**environment, **os.environ})
    try:
        said, error = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # With all that it started: a training run that goes on would hold the chip.
        os.killpg(process.pid, signal.SIGKILL)
        said, error = process.communicate()
        return None, said, error
    return process.returncode, said, error


def in_child(words: list[str]) -> None:
    """Describe the device, or measure one row and write it."""
    if words[0] == DESCRIBE:
        from proof.chip.model import Configuration

        chip = Chip(platform=words[2], tiny=True)
        facts = Configuration(shape="qwen3-0.6b", batch=(1, 1, 1)).open(words[1], chip).describe()
        print(json.dumps({"kind": facts.kind, "memory_bytes": facts.memory_limit_bytes}))
        return
    part, name, result = PARTS[words[0]], words[1], Path(words[3])
    chip = Chip.from_json(json.loads(words[2]))
    try:
        row = {"status": "done", **part.measure(name, chip, SCRATCH / "work" / part.name)}
    except Absent as absent:
        row = {"status": "absent", "error": str(absent)}
    except RequestError as refused:
        row = {"status": "refused", "error": str(refused)}
    assert row["status"] in FINISHED
    result.write_text(json.dumps(row, allow_nan=False), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        in_child(sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:]))
