"""Real models on this machine's CPU: our two engines next to TRL's `SFTTrainer` and Tunix's `PeftTrainer`, one table.

    python -m benchmarks.peers [--only CASE…] [--gsm8k FILE] [--peers PYTHON]
        [--rounds N] [--contenders NAME…] [--without NAME…] [--limit SECONDS] [--allow-load]

SmolLM2-135M-Instruct and Gemma 3 270M from their packages learn GSM8K's rows with their steps, 8 rows per update.
TRL lives in its own environment (`benchmarks/peers/requirements.txt` says how it is made; `--peers` names its
Python). Every contender trains the same weights on the same rows with the same rows per update, in fresh processes
that take turns (A B A B), with two threads; the median of a contender's turns counts. A contender whose turn is not
over after ``--limit`` seconds is stopped, has no further turn and is told as unfinished: bfloat16 takes hours on a
processor without instructions for it. ``--without`` leaves contenders out from the start, and the table says so; what
some ``--contenders`` alone give is shown and not kept. A turn waits until others use at most half a core; after five
minutes it exits with 3, unless ``--allow-load``, which marks the result as not to be quoted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.peers.case import DATA, make_real_case
from tools.by_engine import NOTHING_KEPT
from tools.other_load import Load
from tools.result_file import ROOT, load_average, measured, write_result

RESULT = ROOT / "benchmarks" / "results" / "peers.json"
HERE = Path(__file__).parent
WARM, STEPS = 1, 6
CASES = ("smollm2-lora", "smollm2-full", "gemma3-lora", "gemma3-full")
LORA_RANK = 16
RATE = 1e-4
ONCE = ("trl defaults", "trl packed", "trl bf16 grouped", "trl bf16 weights", "torch bf16", "torch bf16 weights",
        "tunix defaults")
"""Settings that are far from their trainer's best: one turn."""
FP32 = {"bf16": False, "gradient_checkpointing": False}
GROUPED = {"train_sampling_strategy": "sequential"}
"""Rows that come sorted by length are grouped without any padding to speak of; TRL's own `group_by_length` would begin
with the longest rows, and so with more supervised tokens per step than the others are given."""


def contenders(case: str, peers: str, facts: dict[str, Any]) -> dict[str, tuple[list[str], dict[str, Any]]]:
    """Name -> command and settings."""
    kind, method = DATA["gsm8k"], case.partition("-")[2]
    common = {"warm": WARM, "steps": STEPS, "learning_rate": RATE, "rows": kind.rows, "max_length": kind.max_length,
              "lora_rank": LORA_RANK if method == "lora" else 0}
    ours, tunix = ([sys.executable, "-m", f"benchmarks.peers.{name}"] for name in ("ours", "tunix_peft"))
    trl = [peers, str(HERE / "trl_sft.py")]
    mine = common | {"compute": "fp32"}
    of_torch = mine | {"engine": "torch", "buckets": facts["fine"]}

    def of_trl(dtype: str = "float32", **options: Any) -> tuple[list[str], dict[str, Any]]:
        order = "sorted" if "train_sampling_strategy" in options else "rows"
        return trl, common | {"options": options, "order": order, "dtype": dtype}

    return {
        "torch": (ours, of_torch),
        "trl grouped": of_trl(**FP32, **GROUPED),
        "jax": (ours, mine | {"engine": "jax", "buckets": facts["buckets"]}),
        "trl defaults": of_trl(),
        "trl packed": of_trl(**FP32, packing=True),
        "trl bf16 grouped": of_trl(bf16=True, gradient_checkpointing=False, **GROUPED),
        "trl bf16 weights": of_trl(dtype="bfloat16", bf16=True, gradient_checkpointing=False, **GROUPED),
        "torch bf16": (ours, of_torch | {"compute": "bf16"}),
        "torch bf16 weights": (ours, of_torch | {"parameters": "bf16", "compute": "bf16"}),
    } | ({} if case != "gemma3-full" else {  # Tunix's classes are Gemma's, and its LoRA has other matrices
        "tunix grouped": (tunix, common | {"buckets": facts["buckets"]}),
        "tunix defaults": (tunix, common),
    })


def turn(command: list[str], folder: Path, settings: dict[str, Any], limit: float) -> dict[str, Any] | None:
    """One contender in a fresh process; None if it failed, or was not done after ``limit`` seconds."""
    try:
        done = subprocess.run([*command, str(folder), json.dumps(settings)], capture_output=True, text=True,
                              check=False, cwd=ROOT, timeout=limit, env=os.environ | NOTHING_KEPT | (
                                  {"PYTHONPATH": str(ROOT)} if command[0] == sys.executable else {}))
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        # The other contenders' turns count all the same.
        print(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}", file=sys.stderr)
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_case(case: str, asked: argparse.Namespace, load: Load) -> dict[str, Any]:
    """All contenders on one model and one kind of data."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = make_real_case(folder, case.split("-")[0], asked.gsm8k, WARM, STEPS)
        turns: dict[str, list[dict[str, Any]]] = {}
        unfinished: list[str] = []
        every = contenders(case, asked.peers, facts)
        if strangers := {*asked.contenders, *asked.without} - every.keys():
            raise SystemExit(f"no contenders: {', '.join(strangers)}; there are {', '.join(every)}")
        chosen = {name: what for name, what in every.items()
                  if (not asked.contenders or name in asked.contenders) and name not in asked.without}
        for number in range(asked.rounds):
            for contender, (command, settings) in chosen.items():
                if contender in unfinished or (number and contender in ONCE):
                    continue
                before = load.check()
                found = turn(command, folder, settings, asked.limit)
                if found is None:
                    unfinished.append(contender)
                    print(f"{case:11} {contender:17} failed, or was not done after {asked.limit:g} s, "
                          f"load {before:.2f}", flush=True)
                    continue
                found["load_before"] = round(before, 2)
                turns.setdefault(contender, []).append(found)
                print(f"{case:11} {contender:17} {found['tokens_per_second']:9.1f} tokens/s, "
                      f"{found['tokens_per_cpu_second']:8.1f} a CPU second, "
                      f"{found['peak_bytes'] / 2**20:6.0f} MiB, padding {found['padding_share']:.3f}, loss "
                      f"{found['first_loss']:.3f} to {found['last_loss']:.3f}, load {before:.2f}", flush=True)
    summary = {contender: _summary(found) for contender, found in turns.items()}
    return facts | {"warm_steps": WARM, "steps": STEPS, "contenders": summary,
                    "ratios": ratios(summary)} | (
                        {"unfinished": unfinished, "limit_seconds": asked.limit} if unfinished else {}) | (
                            {"left_out": asked.without} if asked.without else {})


def _summary(turns: list[dict[str, Any]]) -> dict[str, Any]:
    speeds = [found["tokens_per_second"] for found in turns]
    last = turns[-1]
    return {"tokens_per_second": round(statistics.median(speeds), 1), "turns": [round(x, 1) for x in speeds],
            "tokens_per_cpu_second": round(statistics.median(found["tokens_per_cpu_second"] for found in turns), 1),
            "threads": last["threads"],
            "loads": [found["load_before"] for found in turns], "padding_share": round(last["padding_share"], 4),
            "peak_bytes": max(found["peak_bytes"] for found in turns), "versions": last["versions"],
            "seconds_to_first_step": round(statistics.median(found["seconds_to_first_step"] for found in turns), 1),
            "first_loss": round(last["first_loss"], 4), "last_loss": round(last["last_loss"], 4)}


def ratios(summary: dict[str, Any]) -> dict[str, float]:
    """Our engines against each peer at its best (the fastest of its settings that ran)."""
    def best(prefix: str) -> float:
        return max((found["tokens_per_second"] for name, found in summary.items() if name.startswith(prefix)),
                   default=0.0)

    pairs = {"torch_to_trl_best": ("torch", "trl"), "jax_to_trl_best": ("jax", "trl"),
             "jax_to_tunix_best": ("jax", "tunix"), "torch_to_tunix_best": ("torch", "tunix"),
             "jax_to_torch": ("jax", "torch")}
    return {name: round(best(one) / best(other), 3) for name, (one, other) in pairs.items()
            if best(one) and best(other)}


def main(arguments: list[str]) -> int:
    """Run the cases, write the result file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--contenders", nargs="*", default=[])
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--gsm8k", type=Path, default=Path(os.environ.get("GSM8K_TRAIN", "gsm8k/train.jsonl")))
    parser.add_argument("--peers", default=str(ROOT / "build" / "peers" / "bin" / "python"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600.0)
    parser.add_argument("--allow-load", action="store_true")
    asked = parser.parse_args(arguments)
    if not asked.gsm8k.is_file():
        raise SystemExit(f"{asked.gsm8k} does not exist; --gsm8k FILE names GSM8K's train.jsonl")
    load, first = Load(allow=asked.allow_load), load_average()
    values = json.loads(RESULT.read_text())["values"] if RESULT.is_file() else {"cases": {}}
    for case in asked.only:
        found = run_case(case, asked, load)
        values["cases"][case] = found | {"quotable": not load.passed_over and not asked.contenders,
                                         "measured": measured()}
        print(case, json.dumps(values["cases"][case]["ratios"]))
        if not asked.contenders:
            write_result(RESULT, what="Supervised tokens per second and peak memory next to TRL and Tunix on a CPU.",
                         command="python -m benchmarks.peers", packages=["torch", "jax", "google-tunix"],
                         load_before=first, values=values)
            print(f"wrote {RESULT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
