"""This project as a contender: ``python -m benchmarks.peers_rl.ours FOLDER SETTINGS``.

What a person types: `workings train` on a recipe, in its own process, with everything that a run keeps. What it
says about itself in ``train/metrics.jsonl`` is what is reported, so `updates_of` is all that depends on those names.
"""

import json
import resource
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from benchmarks.peers.meter import THREADS, two_threads
from benchmarks.peers_rl.case import RANK, REWARD

two_threads()

PACKAGES = {"jax": ("jax", "jaxlib"), "torch": ("torch",)}
MICRO_BATCHES = 4


def recipe(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What `workings train` is asked for."""
    updates = settings["warm"] + settings["updates"]
    return {
        "name": "peers-rl", "seed": settings["seed"], "engine": settings["engine"], "device": "cpu",
        "model": {"source": "pretrained", "id": str(folder / "weights")},
        **(_pairs if settings["way"] == "dpo" else _rewards)(folder, settings),
        "precision": {"compute": settings.get("compute", "fp32")},
        "method": {"name": "lora", "rank": RANK, "alpha": 2 * RANK},
        "training": {"steps": updates, "learning_rate": settings["learning_rate"], "schedule": "constant"},
        "optimizer": {"name": "adamw", "clip_norm": settings["clip_norm"]},
        "checkpoint": {"every_steps": updates, "keep_last": 1},
    }


def _rewards(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    rows = settings["prompts"] * settings["group"]
    longest = json.loads((folder / "facts.json").read_text())["longest_prompt"]
    return {
        "data": {"traces": str(folder / "traces.jsonl"), "template": "tokenizer", "reasoning": "hashes",
                 # No buckets: an update's rows are computed in micro batches of like length, regardless of the longest.
                 "max_length": longest + settings["new_tokens"]},
        "algorithm": {"name": "grpo", "group": settings["group"], "max_new_tokens": settings["new_tokens"]},
        "rewards": [{"scorer": f"{REWARD}:digits"}],
        "batch": {"micro_batch": rows // MICRO_BATCHES, "accumulation": MICRO_BATCHES}}


def _pairs(folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    return {"data": {"traces": str(folder / "traces.jsonl"), "template": "tokenizer",
                     "max_length": settings["max_length"]},
            "algorithm": {"name": "dpo", "beta": settings["beta"]}, "batch": {"micro_batch": 2 * settings["pairs"]}}


def start_run(folder: Path, settings: dict[str, Any]) -> Path:
    """Train; returns the run's directory."""
    number = sum(1 for _ in folder.glob("ours-*.yaml"))
    written, run = folder / f"ours-{number}.yaml", folder / f"ours-{number}"
    written.write_text(yaml.safe_dump(recipe(folder, settings), sort_keys=False))
    subprocess.run([sys.executable, "-m", "workings", "train", str(written), "--out", str(run)], check=True,
                   stdout=sys.stderr)
    return run


def updates_of(run: Path) -> list[dict[str, float]]:
    """The run's updates as `meter.Meter` has those of the others; parts that are not told are left out.

    A line's ``seconds`` are those of the whole update, drawing and rewards included; the reference that DPO asks before
    its first update counts as part of every update.
    """
    lines = [json.loads(line) for line in (run / "train" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    if "reward" not in lines[0]:
        events = [json.loads(line) for line in (run / "train" / "events.jsonl").read_text("utf-8").splitlines()]
        reference = sum(event["seconds"] for event in events if event["kind"] == "reference")
        return [{"seconds": line["seconds"] + reference / len(lines)} for line in lines]
    # Stop tokens are drawn and learned like all others.
    return [{"seconds": line["seconds"], "drawing": line["drawing_seconds"], "reward": line["reward"],
             "tokens": line["completions"] * (line["completion_tokens"] + 1 - line["truncated"])} for line in lines]


def main(folder: Path, settings: dict[str, Any]) -> None:
    """Train and report."""
    updates = updates_of(start_run(folder, settings))
    assert len(updates) == settings["warm"] + settings["updates"], len(updates)
    print(json.dumps({
        "updates": updates, "warm": settings["warm"], "threads": THREADS,
        "versions": {name: version(name) for name in ("workings", *PACKAGES[settings["engine"]])},
        "peak_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
