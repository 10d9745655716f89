"""Whole updates of GRPO or DPO next to TRL's `GRPOTrainer` and `DPOTrainer`, on this machine's CPU.

    python -m benchmarks.peers_rl [--way dpo] [--rounds N] [--updates N] [--warm N] [--gsm8k FILE] [--peers PYTHON]
        [--contenders NAME…] [--limit SECONDS] [--allow-load]

SmolLM2-135M-Instruct from its package learns with LoRA from GSM8K. An update is everything: with GRPO sampling 8
completions of each of 4 prompts, rewarding them, one step; with DPO (``--way dpo``) one step on 4 pairs and the
reference's log probabilities. Every contender starts from the same weights, has the same
prompts and the same reward, GRPO's loss with one step per rollout and no KL, AdamW with the same rate and clipping,
float32 unless its name says bf16, two threads, in fresh processes that take turns (A B A B). The first updates compile
and are not among the seconds. TRL lives in its own environment (`benchmarks/peers/requirements.txt`). What some
``--contenders`` alone give is shown and not kept. Exits with 3 without a result when others use more than half a core
before a turn, unless ``--allow-load``, which marks the result as not to be quoted.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.__main__ import turn
from benchmarks.peers_rl.case import CLIP, GROUP, LONGEST_PAIR, NEW_TOKENS, PAIRS, PROMPTS, RANK, RATE, make_case
from tools.other_load import Load
from tools.result_file import ROOT, write_result

RESULTS = {"grpo": ROOT / "benchmarks" / "results" / "peers_rl.json",
           "dpo": ROOT / "benchmarks" / "results" / "peers_dpo.json"}
TRL = {"bf16": False, "gradient_checkpointing": False}
"""Sampling as it comes: a growing cache, `sdpa`."""
BETA = 0.1
ONCE = ("trl in parts", "trl bf16", "torch bf16", "trl defaults")
"""Settings far from their trainer's best: one turn."""
TRL_PARTS = 4
"""Parts in which the 32 completions of an update go through the step; TRL runs whole and in parts, as ours."""


def contenders(peers: str, asked: argparse.Namespace) -> dict[str, tuple[list[str], dict[str, Any]]]:
    """Name -> command and settings."""
    common: dict[str, Any] = {"way": asked.way, "warm": asked.warm, "updates": asked.updates, "learning_rate": RATE,
                              "clip_norm": CLIP, "lora_rank": RANK}
    ours = [sys.executable, "-m", "benchmarks.peers_rl.ours"]
    trl = [peers, "-m", f"benchmarks.peers_rl.trl_{asked.way}"]
    if asked.way == "dpo":
        common |= {"pairs": PAIRS, "beta": BETA, "max_length": LONGEST_PAIR}
        return {
            "torch": (ours, common | {"engine": "torch"}),
            "trl": (trl, common | {"options": TRL}),
            "jax": (ours, common | {"engine": "jax"}),
            "trl reference first": (trl, common | {"options": TRL | {"precompute_ref_log_probs": True}}),
            "trl defaults": (trl, common | {"options": {}}),
        }
    common |= {"prompts": PROMPTS, "group": GROUP, "new_tokens": NEW_TOKENS}
    return {
        "torch": (ours, common | {"engine": "torch"}),
        "trl": (trl, common | {"options": TRL}),
        "jax": (ours, common | {"engine": "jax"}),
        "trl in parts": (trl, common | {"options": TRL, "accumulation": TRL_PARTS}),
        "trl bf16": (trl, common | {"options": TRL | {"bf16": True}}),
        "torch bf16": (ours, common | {"engine": "torch", "compute": "bf16"}),
    }


def summary(turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all turns of one contender say."""
    measured = [found["updates"][found["warm"]:] for found in turns]
    every, last = [update for updates in measured for update in updates], turns[-1]

    def middle(key: str) -> float:
        return statistics.median(update[key] for update in every)

    seconds, parts = middle("seconds"), {}
    if all("tokens" in update for update in every):
        parts = {"tokens_an_update": round(middle("tokens")),
                 "tokens_per_second": round(statistics.median(x["tokens"] / x["seconds"] for x in every), 1)}
    if all("drawing" in update for update in every):
        parts |= {"drawing_seconds": round(middle("drawing"), 4), "tokens_per_second_of_drawing": round(
            statistics.median(update["tokens"] / update["drawing"] for update in every), 1),
            "other_seconds": round(statistics.median(update["seconds"] - update["drawing"] for update in every), 4)}
    return {"seconds_an_update": round(seconds, 4), "least_seconds": round(min(x["seconds"] for x in every), 4),
            "turns": [round(statistics.median(update["seconds"] for update in updates), 4) for updates in measured],
            "updates_per_second": round(1 / seconds, 4), **parts,
            "peak_bytes": max(found["peak_bytes"] for found in turns), "threads": last["threads"],
            "versions": last["versions"], "loads": [found["load_before"] for found in turns]} | {
                key: round(statistics.median(found[key] for found in turns), 2)
                for key in ("cpu_seconds_an_update", "seconds_to_first_update") if key in last}


def ratios(found: dict[str, dict[str, Any]]) -> dict[str, float]:
    """How many times as fast one is as another at its best (the fastest of its settings), by medians of updates."""
    def best(prefix: str) -> float:
        return min((each["seconds_an_update"] for name, each in found.items() if name.startswith(prefix)), default=0.0)

    pairs = (("torch", "trl"), ("jax", "trl"), ("jax", "torch"))
    return {f"{one}_to_{other}{'_best' if other == 'trl' else ''}": round(best(other) / best(one), 3)
            for one, other in pairs if best(one) and best(other)}


def show(found: dict[str, dict[str, Any]]) -> None:
    """Print the table."""
    print(f"{'contender':26} {'s/update':>9} {'least':>7} {'updates/s':>10} {'tokens/s':>9} {'drawing s':>10} "
          f"{'other s':>8} {'MiB':>6}")
    for name, each in sorted(found.items(), key=lambda pair: pair[1]["seconds_an_update"]):
        split = [f"{each[key]:.3f}" if key in each else "" for key in ("drawing_seconds", "other_seconds")]
        print(f"{name:26} {each['seconds_an_update']:9.3f} {each['least_seconds']:7.3f} "
              f"{each['updates_per_second']:10.3f} {each.get('tokens_per_second', 0):9,.0f} {split[0]:>10} "
              f"{split[1]:>8} {each['peak_bytes'] / 2**20:6.0f}")


def main(arguments: list[str]) -> int:
    """Run all turns, write the result file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--way", choices=["grpo", "dpo"], default="grpo")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--warm", type=int, default=1)
    parser.add_argument("--contenders", nargs="*", default=[])
    parser.add_argument("--gsm8k", type=Path, default=Path(os.environ.get("GSM8K_TRAIN", "gsm8k/train.jsonl")))
    parser.add_argument("--peers", default=str(ROOT / "build" / "peers" / "bin" / "python"))
    parser.add_argument("--limit", type=float, default=1200.0)
    parser.add_argument("--allow-load", action="store_true")
    asked = parser.parse_args(arguments)
    load = Load(allow=asked.allow_load)
    every = contenders(asked.peers, asked)
    if strangers := {*asked.contenders} - every.keys():
        raise SystemExit(f"no contenders: {', '.join(strangers)}; there are {', '.join(every)}")
    chosen = {name: what for name, what in every.items() if not asked.contenders or name in asked.contenders}
    turns: dict[str, list[dict[str, Any]]] = {}
    unfinished: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = make_case(folder, asked.gsm8k, asked.warm + asked.updates, asked.way)
        for number in range(asked.rounds):
            for contender, (command, settings) in chosen.items():
                if contender in unfinished or (number and contender in ONCE):
                    continue
                before = load.check()
                found = turn(command, folder, settings | {"seed": number}, asked.limit)
                if found is None:
                    unfinished.append(contender)
                    print(f"{contender:26} not done after {asked.limit:g} s, load {before:.2f}", flush=True)
                    continue
                turns.setdefault(contender, []).append(found | {"load_before": round(before, 2)})
                each = summary(turns[contender][-1:])
                print(f"{contender:26} {each['seconds_an_update']:.3f} s an update (least "
                      f"{each['least_seconds']:.3f}), load {before:.2f}", flush=True)
    found = {contender: summary(of_one) for contender, of_one in turns.items()}
    values = facts | {"warm_updates": asked.warm, "updates": asked.updates, "rounds": asked.rounds,
                      "contenders": found, "ratios": ratios(found),
                      "quotable": not load.passed_over} | (
                          {"unfinished": unfinished, "limit_seconds": asked.limit} if unfinished else {})
    show(found)
    print("ratios", values["ratios"])
    if asked.contenders:
        print("not kept: some contenders alone")
        return 0
    write_result(RESULTS[asked.way], packages=["torch", "jax"], values=values,
                 words=f"--way {asked.way} --rounds {asked.rounds} --updates {asked.updates}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
