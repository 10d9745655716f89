"""Updates on preference pairs beside TRL's `DPOTrainer`, on this machine's CPU: one table.

    python -m benchmarks.peers_dpo [--only tiny base] [--peers PYTHON] [--rounds N] [--limit SECONDS] [--allow-load]

TRL lives in an environment of its own (`benchmarks/peers/requirements.txt` says how it is made; ``--peers`` names its
Python). Every contender trains the same weights on the same pairs with as many an update, DPO's loss, AdamW with the
same rate and clipping, float32, two threads, in fresh processes that take turns (A B A B). TRL asks its reference once
before the first step as we do (``precompute_ref_log_probs``), and in a further contender at every step, which is its
default. Speeds are supervised tokens a second: of the steps alone, and with what the reference's pass over the same
pairs took, as in a run of one epoch. Exits with 3 without a result when others use more than half a core before a turn,
unless ``--allow-load``, which marks the result as not to be quoted.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.__main__ import turn
from benchmarks.peers_dpo.case import BETA, MAX_LENGTH, PAIRS, RATE, make_case
from tools.other_load import Load
from tools.result_file import ROOT, load_average, write_result

RESULT = ROOT / "benchmarks" / "results" / "peers_dpo.json"
STEPS = {"tiny": (5, 60), "base": (2, 8)}
"""Warm-up and measured updates."""
TRL = {"bf16": False, "gradient_checkpointing": False}


def contenders(size: str, peers: str, facts: dict[str, Any]) -> dict[str, tuple[list[str], dict[str, Any]]]:
    """Name -> command and settings."""
    warm, steps = STEPS[size]
    ours = [sys.executable, "-m", "benchmarks.peers_dpo.ours"]
    trl = [peers, str(Path(__file__).parent / "trl_dpo.py")]
    common = {"warm": warm, "steps": steps, "pairs": PAIRS, "beta": BETA, "learning_rate": RATE,
              "max_length": MAX_LENGTH, "order": "sorted"}
    return {
        "jax": (ours, {"engine": "jax", "buckets": facts["buckets"], "huge_pages": True}),
        "trl": (trl, common | {"options": TRL | {"precompute_ref_log_probs": True}}),
        "torch": (ours, {"engine": "torch", "buckets": facts["fine"], "huge_pages": True}),
        "trl, reference at every step": (trl, common | {"options": TRL}),
    }


def summary(turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all turns of one contender say."""
    last = turns[-1]

    def whole(found: dict[str, Any]) -> float:
        return float(found["supervised_tokens"] / (found["seconds"] + found.get("reference_seconds", 0.0)))

    return {"tokens_per_second": round(statistics.median(found["tokens_per_second"] for found in turns), 1),
            "tokens_per_second_with_reference": round(statistics.median(map(whole, turns)), 1),
            "turns": [round(found["tokens_per_second"], 1) for found in turns],
            "reference_seconds": round(statistics.median(found.get("reference_seconds", 0.0) for found in turns), 3),
            "step_seconds": round(statistics.median(found["seconds"] / found["steps"] for found in turns), 4),
            "peak_bytes": max(found["peak_bytes"] for found in turns),
            "loads": [found["load_before"] for found in turns],
            **{key: last[key] for key in ("steps", "supervised_tokens", "padding_share", "mean_loss", "threads",
                                          "versions")}}


def ratios(found: dict[str, dict[str, Any]]) -> dict[str, float]:
    """How many times as fast each engine is as TRL at its best, of steps alone and with the reference."""
    best = {key: max((each[key] for name, each in found.items() if name.startswith("trl")), default=0.0)
            for key in ("tokens_per_second", "tokens_per_second_with_reference")}
    return {f"{engine}_to_trl{'_with_reference' if 'with' in key else ''}": round(found[engine][key] / most, 3)
            for engine in ("jax", "torch") if engine in found for key, most in best.items() if most}


def run_size(size: str, asked: argparse.Namespace, load: Load) -> dict[str, Any]:
    """All contenders on one model."""
    turns: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = make_case(folder, size, *STEPS[size])
        for _ in range(asked.rounds):
            for contender, (command, settings) in contenders(size, asked.peers, facts).items():
                before = load.check()
                found = turn(command, folder, settings, asked.limit)
                if found is None:
                    raise SystemExit(f"{contender}: not done after {asked.limit:g} s")
                turns.setdefault(contender, []).append(found | {"load_before": round(before, 2)})
                each = summary(turns[contender][-1:])
                print(f"{size:5} {contender:29} {each['tokens_per_second']:9.1f} tokens/s, "
                      f"{each['tokens_per_second_with_reference']:9.1f} with the reference, "
                      f"{each['peak_bytes'] / 2**20:6.0f} MiB, mean loss {each['mean_loss']:.4f}, load {before:.2f}",
                      flush=True)
    found = {contender: summary(of_one) for contender, of_one in turns.items()}
    print(size, ratios(found))
    return facts | {"contenders": found, "ratios": ratios(found)}


def main(arguments: list[str]) -> int:
    """Run all turns, write the result file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[*STEPS], choices=[*STEPS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", default=str(ROOT / "build" / "peers" / "bin" / "python"))
    parser.add_argument("--limit", type=float, default=1200.0)
    parser.add_argument("--allow-load", action="store_true")
    asked = parser.parse_args(arguments)
    load, first = Load(allow=asked.allow_load), load_average()
    values = {size: run_size(size, asked, load) for size in asked.only}
    write_result(RESULT, what="Supervised tokens a second of updates on preference pairs, beside TRL on a CPU.",
                 command=" ".join(["python -m benchmarks.peers_dpo", *arguments]), packages=["torch", "jax"],
                 load_before=first, values=values | {"rounds": asked.rounds, "quotable": not load.passed_over})
    print(f"wrote {RESULT.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
