"""How far replayed steps lie from the recorded ones under other conditions, and how far wrong ones lie.

    python -m proof.replay

Trains the quickstart's model with fp32 and with bf16 arithmetic, and replays ten steps from every checkpoint under the
recorded conditions, with one thread, with another processor's instructions, and over eight simulated devices. The
tolerances of `workings.evidence.replay.tolerance` are taken from these numbers; the proof fails (exit code 1) where a
right replay falls outside of them, a wrong one inside, or equal conditions do not give equal bits. Writes
`proof/replay.json`.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.result_file import load_average, write_result
from workings.evidence.replay.judge import line_differences
from workings.evidence.replay.tolerance import TOLERANCES

HERE = Path(__file__).resolve().parent
STEPS, LENGTH = 160, 10
STARTS = (0, 80, 150)
LONG = 80
"""Steps of a stretch that shows how differences grow; no tolerance is meant for it."""
LONG_UNDER = ("one thread",)
FORMATS = {"float32": "fp32", "bfloat16": "bf16"}
EIGHT = "eight simulated devices"
CONDITIONS: dict[str, tuple[list[str], dict[str, str]]] = {
    "as recorded": ([], {}),
    "one thread": (["taskset", "-c", "0"], {"NPROC": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}),
    "older instructions": ([], {"XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"}),
    EIGHT: ([], {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}),
}
"""Command in front and environment of each replay."""


def workings(*words: str, front: list[str] | None = None, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """One command's JSON answer; its exit code may say no."""
    done = subprocess.run([*(front or []), sys.executable, "-m", "workings", *words, "--json"], text=True,
                          env=os.environ | (environment or {}), capture_output=True, check=False)
    if not done.stdout.strip():
        raise SystemExit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def replayed(run: Path, start: int, name: str) -> dict[str, Any]:
    """One replay's numbers."""
    front, environment = CONDITIONS[name]
    told = workings("replay", str(run), "--from", str(start), "--steps", str(LENGTH), "--predictions", "32",
                    "--name", f"{name.replace(' ', '-')}-{start}", "--fsdp", "8" if name == EIGHT else "0",
                    front=front, environment=environment)
    facts = json.loads((Path(told["unit"]) / "replay.json").read_text(encoding="utf-8"))
    lines = [line_differences(line) for line in facts["lines"]]
    row = {"from": start, "mode": facts["mode"], "verdict": facts["verdict"],
           "loss": max(line["loss"] for line in lines), "grad_norm": max(line["grad_norm"] for line in lines),
           "same_completions": facts["predictions"]["same"] / facts["predictions"]["asked"],
           "controls": {control: found["differences"] for control, found in facts["controls"].items()},
           "controls_outside": {control: found["outside"] for control, found in facts["controls"].items()}}
    return row if "absent" in facts["weights"] else row | {"weights": facts["weights"]["largest_difference"]}


def measured(folder: Path, compute: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """All conditions and checkpoints of one run, and a long stretch under each."""
    run = folder / compute
    workings("train", "quickstart", "--out", str(run), f"training.steps={STEPS}", f"checkpoint.every_steps={LENGTH}",
             "checkpoint.keep_last=99", f"precision.compute={FORMATS[compute]}")
    rows = {}
    for name in CONDITIONS:
        rows[name] = [replayed(run, start, name) for start in STARTS]
        print(compute, name, [(row["loss"], row["grad_norm"], row["verdict"]) for row in rows[name]], flush=True)
    return rows, {name: grown(run, name) for name in LONG_UNDER}


def grown(run: Path, name: str) -> dict[str, Any]:
    """Differences over a long stretch, its last ten steps apart."""
    front, environment = CONDITIONS[name]
    told = workings("replay", str(run), "--from", "0", "--steps", str(LONG), "--predictions", "0",
                    "--name", f"{name.replace(' ', '-')}-long", front=front, environment=environment)
    facts = json.loads((Path(told["unit"]) / "replay.json").read_text(encoding="utf-8"))
    lines = [line_differences(line) for line in facts["lines"]]
    return {"steps": LONG, "loss": max(line["loss"] for line in lines),
            "loss_last_ten": max(line["loss"] for line in lines[-10:]),
            "weights": facts["weights"]["largest_difference"]}


def problems(values: dict[str, Any]) -> list[str]:
    """What does not hold."""
    found = []
    for compute, conditions in values.items():
        for name, rows in conditions.items():
            for row in rows:
                place = f"{compute}, {name}, from {row['from']}"
                if row["verdict"] == "failed":
                    found.append(f"{place}: a right replay fell outside the tolerance")
                if row["mode"] == "bitwise" and (row["loss"] or row["grad_norm"]):
                    found.append(f"{place}: equal conditions, other bits")
                found += [f"{place}: control {control} fell inside" for control, outside in
                          row.get("controls_outside", {}).items() if not outside]
    return found


def main() -> int:
    """Measure, write the result, say what does not hold."""
    before = load_average()
    with tempfile.TemporaryDirectory() as name:
        found = {compute: measured(Path(name), compute) for compute in FORMATS}
    values = {compute: rows for compute, (rows, _) in found.items()}
    wrong = problems(values)
    largest = {compute: {measure: max(row[measure] for rows in conditions.values() for row in rows if measure in row)
                         for measure in ("loss", "grad_norm", "weights")} | {
        "same_completions": min(row["same_completions"] for rows in conditions.values() for row in rows
                                if "same_completions" in row)} for compute, conditions in values.items()}
    write_result(HERE / "replay.json", what="relative differences of replayed steps from the recorded ones",
                 command="python -m proof.replay", packages=("jax", "jaxlib", "numpy"), load_before=before,
                 values={"steps": LENGTH, "largest": largest, "conditions": values, "problems": wrong,
                         "long": {compute: long for compute, (_, long) in found.items()},
                         "tolerances": {compute: TOLERANCES[compute].to_json() for compute in FORMATS}})
    print(json.dumps(largest, indent=1), *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
