"""How far replayed steps are from the recorded ones under other conditions, and how far wrong ones do.

    python -m proof.replay

Ten steps of the committed example run, and of small runs that are trained here on each engine in each number format,
are replayed with one thread, with an older processor's instructions, and (JAX) over eight simulated devices. Nothing
is scored while it is measured. A tolerance of `workings.evidence.replay.conditions` is the largest difference of a
right replay in its number format times a factor, rounded up; with it, every wrong replay has to be outside. The proof
fails (exit code 1) where one is inside, or where a tolerance is not the one that follows from these numbers. Writes
`proof/replay.json`.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tools.result_file import write_result
from workings.data.generators import addition
from workings.data.traces import write_items, write_traces
from workings.evidence.replay.comparison import MEASURES, is_outside, line_differences
from workings.evidence.replay.conditions import TOLERANCES, Tolerance, number_format
from workings.inputs.datasets import ADDITION_ITEMS, ADDITION_TRACES

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "examples" / "runs" / "quickstart" / "runs.zip"
EXAMPLE_RUN, SEED = "with-steps", 17
LENGTH, ITEMS = 10, 64
FACTORS = {"float32": 10, "bfloat16": 3, "bfloat16 weights": 3}
"""Room above the largest difference seen, because these conditions are not all: as much as wrong replays leave.
In fp32 the nearest of them is far away; in bf16 right replays differ a thousand times as much, and it is close."""
UNJUDGED = Tolerance(loss=math.inf, grad_norm=math.inf, weights=math.inf, completions=0.0, source="none: measured")
"""While it is measured, nothing is outside: controls run to their end."""

ONE, OLDER, EIGHT = "one thread", "older instructions", "eight simulated devices"
CONDITIONS: dict[str, dict[str, tuple[list[str], dict[str, str]]]] = {
    "jax": {
        ONE: (["taskset", "-c", "0"], {"NPROC": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}),
        OLDER: ([], {"XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"}),
        EIGHT: ([], {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}),
    },
    "torch": {
        ONE: (["taskset", "-c", "0"], {"OMP_NUM_THREADS": "1"}),
        OLDER: ([], {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41",
                     "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}),
    },
}
"""By engine: command in front and environment of each replay."""
SETTINGS = ("training.steps=30", "training.learning_rate=2e-3", "training.warmup_steps=5",
            "checkpoint.every_steps=10", "checkpoint.keep_last=3", "evaluation.every_steps=30", "evaluation.samples=0",
            "evaluation.max_new_tokens=16", "evaluation.batch_size=64")
"""Of the quickstart's recipe, so that every replayed step moves the weights and the run keeps its last step's."""
FORMATS: dict[str, tuple[str, ...]] = {
    "fp32": (),
    "bf16 products": ("precision.compute=bf16",),
    "bf16 weights, stochastic": ("precision.parameters=bf16", "precision.compute=bf16", "precision.rounding=stochastic",
                                 "optimizer.name=adafactor"),
}


def main() -> int:
    """Measure, write the result, say what does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", nargs=4, metavar=("RUN", "START", "DATA", "FSDP"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measured(*given.measure)))
        return 0
    with tempfile.TemporaryDirectory() as name:
        rows = [row for run, start, data, facts in runs(Path(name))
                for row in replays(run, start, data, facts)]
    formats = {compute: summed([row for row in rows if row["compute"] == compute])
               for compute in dict.fromkeys(row["compute"] for row in rows)}
    wrong = [text for compute, found in formats.items() for text in problems(compute, found)]
    write_result(packages=("jax", "jaxlib", "torch", "numpy"),
                 values={"steps": LENGTH, "factors": FACTORS, "formats": formats, "replays": rows,
                         "problems": wrong})
    print(json.dumps(formats, indent=1), *wrong, sep="\n")
    return 1 if wrong else 0


def runs(folder: Path) -> Any:
    """The runs to replay, one after the other: path, step to start after, traces, and what they are."""
    data, items = folder / "traces.jsonl", folder / "items.jsonl"
    traces, asked = addition.make(ADDITION_TRACES, ADDITION_ITEMS, SEED)
    write_traces(data, traces)
    write_items(items, asked[:ITEMS])
    with zipfile.ZipFile(EXAMPLE) as archive:
        archive.extractall(folder)
    yield folder / "runs" / EXAMPLE_RUN, 0, data, {"run": "the committed example", "engine": "jax"}
    for engine in CONDITIONS:
        for name, settings in FORMATS.items():
            run = folder / "trained" / f"{engine}-{name.replace(' ', '-').replace(',', '')}"
            ask(["-m", "workings", "train", "quickstart", "--out", str(run), f"engine={engine}", f"data.traces={data}",
                 f"evaluation.items={items}", *SETTINGS, *settings, "--json"])
            yield run, 10, data, {"run": name, "engine": engine}


def replays(run: Path, start: int, data: Path, facts: dict[str, str]) -> list[dict[str, Any]]:
    """One run under each condition of its engine."""
    rows = []
    for name, (front, environment) in CONDITIONS[facts["engine"]].items():
        found = ask(["-m", "proof.replay", "--measure", str(run), str(start), str(data), "8" if name == EIGHT else "0"],
                    front, environment)
        rows.append({**facts, "condition": name, **found})
        print(f"{facts['engine']}, {facts['run']}, {name}: {found['right']}", file=sys.stderr)
    return rows


def measured(run: str, start: str, data: str, fsdp: str) -> dict[str, Any]:
    """Differences of one replay, in this process and its conditions."""
    from workings.runs import replay

    replay.tolerance_for = lambda *unused: UNJUDGED  # type: ignore[assignment]
    facts = replay.replay_run(Path(run), replay.ReplayRequest(
        start=int(start), steps=LENGTH, predictions=ITEMS, data=Path(data), fsdp=int(fsdp)))
    assert facts["mode"] == "tolerance", facts["mode"]
    assert all(line["same_batch"] for line in facts["lines"])
    lines = [line_differences(line) for line in facts["lines"]]
    right = {measure: max(line[measure] for line in lines) for measure in MEASURES}
    if "absent" not in facts["weights"]:
        right["weights"] = facts["weights"]["largest_difference"]
    return {"compute": number_format(replay.RunRecord.open(Path(run)).manifest.actual_dtypes), "right": right,
            "same_completions": facts["predictions"]["same"] / facts["predictions"]["asked"],
            "controls": {name: control["differences"] for name, control in facts["controls"].items()}}


def summed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of one number format: the largest differences of right replays, the tolerance that follows, the controls."""
    largest = {measure: max(row["right"][measure] for row in rows if measure in row["right"])
               for measure in (*MEASURES, "weights")}
    factor = FACTORS.get(rows[0]["compute"], 1)
    rounded = power_above if factor == 10 else one_digit_above
    share = min(row["same_completions"] for row in rows)
    follows = {measure: rounded(factor * value) for measure, value in largest.items()} | {
        "completions": 0.9 if share == 1.0 else math.floor(10 * (1 - factor * (1 - share))) / 10}
    inside = sorted({f"{name} ({row['engine']}, {row['run']}, {row['condition']})" for row in rows
                     for name, differences in row["controls"].items() if not is_outside(differences, follows)})
    return {"replays": len(rows), "largest": largest, "tolerance": follows, "controls_inside": inside,
            "smallest_share_of_same_completions": share,
            "nearest_control": {measure: min(differences[measure] for row in rows
                                             for differences in row["controls"].values()) for measure in MEASURES}}


def power_above(value: float) -> float:
    """The power of ten that is not below a value."""
    return float(f"1e{math.ceil(math.log10(value))}") if value else 0.0


def one_digit_above(value: float) -> float:
    """The number with one digit that is not below a value."""
    unit = 10.0 ** math.floor(math.log10(value))
    return float(f"{math.ceil(value / unit) * unit:.0e}")


def problems(compute: str, found: dict[str, Any]) -> list[str]:
    """Where the package's tolerance is not what these numbers say."""
    tolerance = TOLERANCES[compute]
    wrong = [f"{compute}: tolerance {measure} is {getattr(tolerance, measure):g}, measured {value:g}"
             for measure, value in found["tolerance"].items() if getattr(tolerance, measure) != value]
    return wrong + [f"{compute}: inside the tolerance: {name}" for name in found["controls_inside"]]


def ask(words: list[str], front: list[str] | None = None, environment: dict[str, str] | None = None) -> Any:
    """The last line of a child's output as JSON."""
    command = [*(front or []), sys.executable, *words]
    done = subprocess.run(command, env=os.environ | (environment or {}), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
