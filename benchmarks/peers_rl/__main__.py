"""Whole updates of reinforcement learning next to TRL's `GRPOTrainer` and Tunix's `GRPOLearner`, on this machine's CPU.

    python -m benchmarks.peers_rl [--rounds N] [--updates N] [--warm N] [--peers PYTHON] [--contenders NAME…]
        [--without NAME…] [--limit SECONDS] [--imitation STEPS] [--allow-load]

An update is everything: drawing 8 completions of each of 32 prompts, rewarding them, one step. Every contender starts
from the same weights, has the same prompts in the same number, GRPO's loss with one step a rollout and no KL, AdamW
with the same rate and clipping, float32, two threads, in fresh processes that take turns (A B A B). The first updates
compile and are not among the seconds. TRL lives in its own environment (`benchmarks/peers/requirements.txt`).
What some ``--contenders`` alone give is shown and not kept. Exits with 3 without a result when others use more than
half a core before a turn, unless ``--allow-load``, which marks the result as not to be quoted.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.__main__ import turn
from benchmarks.peers_rl.case import CLIP, GROUP, IMITATION, NEW_TOKENS, PROMPTS, RATE, make_case
from tools.other_load import Load
from tools.result_file import ROOT, write_result

LAST = 10
"""Updates over which a reward is averaged: 320 prompts, 2,560 completions. One update's mean moves by 0.05 with its
prompts alone."""
ONCE = ("huge pages, trl", "huge pages, tunix in parts")
"""No setting of theirs: shown, and not among what they are compared by."""
TRL = {"bf16": False, "gradient_checkpointing": False}
"""Drawing as it comes (a growing cache, `sdpa`). Tried on two cores that others used as well, least and median seconds
of TRL's update against these: eager attention 1.25 and 1.18, the static cache 1.23 and 1.05, continuous batching of
transformers 9 and 8 (and 9 GiB). Not tried: vLLM on a CPU, `torch_compile`."""
TRL_PARTS, TUNIX_PARTS = 4, 8
"""Parts in which the 256 completions of an update go through the step, where they do not go whole; so both ways run,
and the faster one counts. Tried likewise, least and median seconds: TRL whole 1.08 and 0.91 times those of 4 parts, in
2 parts 1.02 and 0.90, in 8 parts 1.21 and 1.03; Tunix whole 1.45 to 1.55 and 1.49 to 1.57 times those of 8 parts, in
16 parts 0.99 and 0.93, in 2 and 4 parts no better than whole."""


def contenders(peers: str, asked: argparse.Namespace) -> dict[str, tuple[list[str], dict[str, Any]]]:
    """Name -> command and settings."""
    common = {"warm": asked.warm, "updates": asked.updates, "prompts": PROMPTS, "group": GROUP,
              "new_tokens": NEW_TOKENS, "learning_rate": RATE, "clip_norm": CLIP}
    ours, tunix = ([sys.executable, "-m", f"benchmarks.peers_rl.{name}"] for name in ("ours", "tunix_grpo"))
    trl = [peers, "-m", "benchmarks.peers_rl.trl_grpo"]
    mine, pages = common | {"huge_pages": True}, {"huge_pages": True}
    of_trl, of_tunix = common | {"options": TRL}, common
    trl_parts, tunix_parts = of_trl | {"accumulation": TRL_PARTS}, of_tunix | {"accumulation": TUNIX_PARTS}
    return {
        "jax": (ours, mine | {"engine": "jax"}),
        "trl": (trl, of_trl),
        "torch": (ours, mine | {"engine": "torch"}),
        "tunix in parts": (tunix, tunix_parts),
        "trl in parts": (trl, trl_parts),
        "tunix": (tunix, of_tunix),
        "huge pages, trl": (trl, of_trl | pages),
        "huge pages, tunix in parts": (tunix, tunix_parts | pages),
    }


def summary(turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What all turns of one contender say."""
    measured = [found["updates"][found["warm"]:] for found in turns]
    every, last = [update for updates in measured for update in updates], turns[-1]

    def middle(key: str) -> float:
        return statistics.median(update[key] for update in every)

    seconds, tokens = middle("seconds"), middle("tokens")
    parts = {}
    if all("drawing" in update for update in every):
        parts = {"drawing_seconds": round(middle("drawing"), 4), "tokens_per_second_of_drawing": round(
            statistics.median(update["tokens"] / update["drawing"] for update in every), 1),
            "other_seconds": round(statistics.median(update["seconds"] - update["drawing"] for update in every), 4)}
    # By update, warm-up included: learning begins there.
    rewards = [statistics.fmean(found["updates"][i]["reward"] for found in turns)
               for i in range(len(last["updates"]))]
    return {"seconds_an_update": round(seconds, 4), "least_seconds": round(min(x["seconds"] for x in every), 4),
            "turns": [round(statistics.median(update["seconds"] for update in updates), 4) for updates in measured],
            "updates_per_second": round(1 / seconds, 4), "tokens_an_update": round(tokens),
            "tokens_per_second": round(statistics.median(x["tokens"] / x["seconds"] for x in every), 1), **parts,
            "first_reward": round(statistics.fmean(rewards[:LAST]), 4),
            "last_reward": round(statistics.fmean(rewards[-LAST:]), 4),
            "reward_by_update": [round(reward, 4) for reward in rewards],
            "peak_bytes": max(found["peak_bytes"] for found in turns), "threads": last["threads"],
            "versions": last["versions"], "loads": [found["load_before"] for found in turns]} | {
                key: round(statistics.median(found[key] for found in turns), 2)
                for key in ("cpu_seconds_an_update", "seconds_to_first_update") if key in last}


def after_equal_time(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Mean reward of the last updates that each has done when the fastest has finished.

    A warm-up update counts as any other: what it takes to compile is a matter of the run's length.
    """
    seconds = min(each["seconds_an_update"] * len(each["reward_by_update"]) for each in found.values())
    done = {name: min(len(each["reward_by_update"]), max(1, int(seconds / each["seconds_an_update"] + 1e-6)))
            for name, each in found.items()}
    return {"seconds": round(seconds, 2), "updates": done, "reward": {
        name: round(statistics.fmean(found[name]["reward_by_update"][:count][-LAST:]), 4)
        for name, count in done.items()}}


def ratios(found: dict[str, dict[str, Any]]) -> dict[str, float]:
    """How many times as fast one is as another at its best (the fastest of its settings), by medians of updates."""
    def best(prefix: str) -> float:
        return min((each["seconds_an_update"] for name, each in found.items() if name.startswith(prefix)), default=0.0)

    pairs = (("jax", "trl"), ("jax", "tunix"), ("torch", "trl"), ("torch", "tunix"), ("jax", "torch"),
             ("tunix", "trl"))
    return {f"{one}_to_{other}{'_best' if other in ('trl', 'tunix') else ''}": round(best(other) / best(one), 3)
            for one, other in pairs if best(one) and best(other)}


def show(found: dict[str, dict[str, Any]]) -> None:
    """Print the table."""
    print(f"{'contender':26} {'s/update':>9} {'least':>7} {'updates/s':>10} {'tokens/s':>9} {'drawing s':>10} "
          f"{'other s':>8} {'MiB':>6}  reward")
    for name, each in sorted(found.items(), key=lambda pair: pair[1]["seconds_an_update"]):
        split = [f"{each[key]:.3f}" if key in each else "" for key in ("drawing_seconds", "other_seconds")]
        print(f"{name:26} {each['seconds_an_update']:9.3f} {each['least_seconds']:7.3f} "
              f"{each['updates_per_second']:10.3f} {each['tokens_per_second']:9,.0f} {split[0]:>10} {split[1]:>8} "
              f"{each['peak_bytes'] / 2**20:6.0f}  {each['first_reward']:.3f} to {each['last_reward']:.3f}")


def main(arguments: list[str]) -> int:
    """Run all turns, write the result file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=60)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--contenders", nargs="*", default=[])
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--peers", default=str(ROOT / "build" / "peers" / "bin" / "python"))
    parser.add_argument("--imitation", type=int, default=IMITATION)
    parser.add_argument("--limit", type=float, default=1200.0)
    parser.add_argument("--allow-load", action="store_true")
    asked = parser.parse_args(arguments)
    load = Load(allow=asked.allow_load)
    every = contenders(asked.peers, asked)
    if strangers := {*asked.contenders, *asked.without} - every.keys():
        raise SystemExit(f"no contenders: {', '.join(strangers)}; there are {', '.join(every)}")
    chosen = {name: what for name, what in every.items()
              if (not asked.contenders or name in asked.contenders) and name not in asked.without}
    turns: dict[str, list[dict[str, Any]]] = {}
    unfinished: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        facts = make_case(folder, asked.warm + asked.updates, asked.imitation)
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
                      f"{each['least_seconds']:.3f}), reward {each['first_reward']:.3f} to "
                      f"{each['last_reward']:.3f}, load {before:.2f}", flush=True)
    found = {contender: summary(of_one) for contender, of_one in turns.items()}
    compared = {name: each for name, each in found.items() if name not in ONCE}
    values = facts | {"warm_updates": asked.warm, "updates": asked.updates, "rounds": asked.rounds,
                      "contenders": found, "ratios": ratios(compared),
                      "quotable": not load.passed_over} | (
                          {"after_equal_time": after_equal_time(compared)} if compared else {}) | (
                          {"unfinished": unfinished, "limit_seconds": asked.limit} if unfinished else {}) | (
                              {"left_out": asked.without} if asked.without else {})
    show(found)
    for key in ("ratios", "after_equal_time"):
        print(key.replace("_", " "), values.get(key, {}))
    if asked.contenders:
        print("not kept: some contenders alone")
        return 0
    write_result(packages=["torch", "jax", "google-tunix"], words=" ".join([*arguments]), values=values)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
