"""How far replayed steps lie from the recorded ones under other conditions.

    python -m proof.replay
    python -m proof.replay --run RUN --from STEP --data FILE

Replays ten steps of the committed example run (or of a run of yours), which computes in fp32, with one thread, with an
older processor's instructions, and over eight simulated devices. The tolerance of fp32 in
`workings.evidence.replay.tolerance` has to stand above these. The proof fails (exit code 1) where
a right replay falls outside of it or a wrong one inside. Writes `proof/replay.json`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.result_file import load_average, write_result
from workings.data.generators import addition
from workings.data.traces import write_traces
from workings.evidence.replay.judge import line_differences
from workings.evidence.replay.tolerance import TOLERANCES
from workings.runs.datasets import ADDITION_ITEMS, ADDITION_TRACES

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "examples" / "runs" / "quickstart" / "runs.zip"
EXAMPLE_RUN, EXAMPLE_SEED = "with-steps", 17
LENGTH = 10
EIGHT = "eight simulated devices"
CONDITIONS: dict[str, tuple[list[str], dict[str, str]]] = {
    "one thread": (["taskset", "-c", "0"], {"NPROC": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}),
    "older instructions": ([], {"XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"}),
    EIGHT: ([], {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}),
}
"""Command in front and environment of each replay."""


def example(folder: Path) -> tuple[Path, Path]:
    """The committed run, and the traces that it was trained on, made again from its seed."""
    with zipfile.ZipFile(EXAMPLE) as archive:
        archive.extractall(folder)
    data = folder / "traces.jsonl"
    write_traces(data, addition.make(ADDITION_TRACES, ADDITION_ITEMS, EXAMPLE_SEED)[0])
    return folder / "runs" / EXAMPLE_RUN, data


def replayed(run: Path, data: Path, start: int, name: str) -> dict[str, Any]:
    """One replay's numbers."""
    front, environment = CONDITIONS[name]
    unit = f"{name.replace(' ', '-')}-{start}"
    command = [*front, sys.executable, "-m", "workings", "replay", str(run), "--from", str(start), "--steps",
               str(LENGTH), "--predictions", "8", "--data", str(data), "--fsdp", "8" if name == EIGHT else "0",
               "--name", unit, "--json"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    facts = json.loads((run / "replay" / unit / "replay.json").read_text(encoding="utf-8"))
    lines = [line_differences(line) for line in facts["lines"]]
    row = {"from": start, "mode": facts["mode"], "verdict": facts["verdict"],
           "loss": max(line["loss"] for line in lines), "grad_norm": max(line["grad_norm"] for line in lines),
           "same_completions": facts["predictions"]["same"] / facts["predictions"]["asked"],
           "controls": facts["controls"]}
    return row if "absent" in facts["weights"] else row | {"weights": facts["weights"]["largest_difference"]}


def main() -> int:
    """Measure, write the result, say what does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--from", dest="start", type=int, default=0)
    parser.add_argument("--data", type=Path)
    given = parser.parse_args()
    before = load_average()
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(len(CONDITIONS)) as pool:
        run, data = (given.run, given.data) if given.run else example(Path(name))
        rows = dict(zip(CONDITIONS, pool.map(lambda name: replayed(run, data, given.start, name), CONDITIONS),
                        strict=True))
    largest = {measure: max(row[measure] for row in rows.values()) for measure in ("loss", "grad_norm")}
    wrong = [f"{name}: {row['verdict']}" for name, row in rows.items() if row["verdict"] != "passed"]
    write_result(HERE / "replay.json", what="relative differences of ten replayed steps from the recorded ones, fp32",
                 command="python -m proof.replay", packages=("jax", "jaxlib", "numpy"), load_before=before,
                 values={"run": run.name, "steps": LENGTH, "largest": largest, "conditions": rows, "not_passed": wrong,
                         "tolerance": TOLERANCES["float32"].to_json()})
    print(json.dumps(largest, indent=1), *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
