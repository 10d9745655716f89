"""What rewards are worth to the quickstart's model, under several seeds: against its start, imitation, random rewards.

    python -m proof.rewards --seeds 17 18 19

A tiny model imitates the steps of 200 sums until nothing is left to imitate (`start`). From these weights three arms go
on, each with a fresh optimizer, the same rate and the same warm-up: `rewards` on sums whose answers alone are known,
`imitation` of the same 200 sums for as many seconds, and `random` with a reward that knows nothing. All answer the same
held-out sums. Each seed decides data, weights, the order of rows and what is drawn. Writes `proof/rewards.json`; exits
with 1 where the aim is missed under a seed.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.result_file import write_result
from workings.config.load import LoadedRecipe, load_recipe
from workings.evaluation.comparison.compare import compare
from workings.evaluation.predictions import item_result, read_predictions
from workings.evaluation.scorecard import build_scorecard
from workings.evaluation.settings import settings_of
from workings.publish.export import export_run
from workings.record.layout import PREDICTIONS, RECIPE_EVALUATION
from workings.record.reader import RunRecord
from workings.runs.evaluate import evaluate_run
from workings.runs.quickstarts.folder import complete_run
from workings.runs.quickstarts.tiny import make_data

HERE = Path(__file__).resolve().parent
AIM = {"start_at_least": 0.30, "start_at_most": 0.75, "points_more_at_least": 0.25, "random_points_more_below": 0.05}
RECIPE = "quickstart-rewards-cpu"
START, REWARDS, IMITATION, RANDOM = "start", "rewards", "imitation", "random"
TRACES, START_STEPS, PROMPTS, SAMPLES = 200, 400, 6_000, 8
SHORT = 0.4
"""Updates with random rewards as a share of the others', with `--short`."""
COIN = '''\
"""A reward that knows nothing of the question: half of all texts earn 1, by a digest that anyone can compute again."""

import hashlib


def coin(prompts, completions, **columns):
    return [float(hashlib.sha256(text.encode()).digest()[0] % 2) for text in completions]
'''


def run_arms(out: Path, seed: int, *, short: bool) -> dict[str, Any]:
    """Trains all four arms below a folder; their scores, and the comparison of `rewards` with each other one."""
    began = time.perf_counter()
    make_data(out / "data", seed, traces=TRACES, prompts=PROMPTS)
    (out / "recipes").mkdir()
    (out / "recipes" / "coin.py").write_text(COIN, encoding="utf-8")
    model = ["model={source: pretrained, id: ../start-model}", "tokenizer=model"]
    items = "evaluation.items=../data/items.jsonl"
    learning = load_recipe(RECIPE, [f"name={REWARDS}", f"seed={seed}", *model, "data.traces=../data/prompts.jsonl",
                                    items])
    training = learning.recipe.training

    def imitating(name: str, *words: str) -> LoadedRecipe:
        return load_recipe("quickstart", [
            f"name={name}", f"seed={seed}", "tokenizer=../data/tokenizer", "data.traces=../data/traces.jsonl",
            "evaluation.traces=none", items, "evaluation.samples=0", "checkpoint.every_steps=1000", *words])

    arms = {START: _arm(out, START, imitating(START, f"training.steps={START_STEPS}"))}
    export_run(out / "runs" / START, out / "start-model")
    arms[REWARDS] = _arm(out, REWARDS, learning)
    # As many seconds, by the start's seconds per step; this optimizer's steps take longer, so it gets rather more.
    steps = max(training.warmup_steps + 1, round(
        arms[REWARDS]["training_seconds"] * START_STEPS / arms[START]["training_seconds"]))
    rate = {"steps": steps, "learning_rate": training.learning_rate, "schedule": "constant",
            "warmup_steps": training.warmup_steps}
    optimizer = learning.recipe.optimizer.model_dump(mode="json", exclude_unset=True)
    arms[IMITATION] = _arm(out, IMITATION, imitating(
        IMITATION, *model, f"training={json.dumps(rate)}", f"optimizer={json.dumps(optimizer)}"))
    arms[RANDOM] = _arm(out, RANDOM, load_recipe(RECIPE, [
        *learning.overrides, f"name={RANDOM}", "rewards=[{scorer: 'coin.py:coin'}]",
        *([f"training.steps={round(training.steps * SHORT)}"] if short else [])]))
    against = {name: compare(out / "runs" / name, out / "runs" / REWARDS).to_json() for name in arms if name != REWARDS}
    kept = ("delta", "delta_ci_low", "delta_ci_high", "p_value", "verdict")
    return {**{f"{name}_{key}": value for name, arm in arms.items() for key, value in arm.items()},
            "items": against[START]["items"], "algorithm": learning.recipe.algorithm.name,
            "seconds": round(time.perf_counter() - began, 1), **{key: against[START][key] for key in kept},
            "against": {name: {key: pair[key] for key in kept} for name, pair in against.items()}}


def _arm(out: Path, name: str, recipe: LoadedRecipe) -> dict[str, Any]:
    """Trains an arm and evaluates it on the held-out items, greedily and at temperature 1."""
    complete_run(out, name, recipe, print)
    run, sampled = RunRecord.open(out / "runs" / name), out / "runs" / name / "eval" / "samples"
    evaluate_run(run.path, out / "data" / "items.jsonl", sampled,
                 settings=replace(settings_of(recipe.recipe), temperature=1.0, samples=SAMPLES))

    def accuracy(unit: Path, aggregate: str) -> float:
        items = [item_result(samples, aggregate) for samples in read_predictions(unit / PREDICTIONS)]
        return build_scorecard(items).accuracy

    return {"accuracy": accuracy(run.path / RECIPE_EVALUATION, "mean"), "pass_at_1": accuracy(sampled, "mean"),
            f"pass_at_{SAMPLES}": accuracy(sampled, "pass"), "steps": run.manifest.completed_steps,
            "training_seconds": round(run.manifest.training_seconds, 1)}


def main() -> int:
    """Run every seed and write down what came out, the bad ones too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[17, 18, 19])
    parser.add_argument("--short", action="store_true", help="Random rewards for fewer updates.")
    asked = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in asked.seeds:
            values = run_arms(Path(folder) / str(seed), seed, short=asked.short)
            rows.append({"seed": seed, "met": _met(values), **values})
    met = [row["seed"] for row in rows if row["met"]]
    write_result(packages=("jax", "jaxlib", "numpy", "tokenizers", "workings"),
                 words=" ".join(["--seeds", *map(str, asked.seeds), *["--short"] * asked.short]),
                 values={"aim": AIM, "seeds": rows, "met": len(met), "of": len(rows)})
    return 0 if len(met) == len(rows) else 1


def _met(found: dict[str, Any]) -> bool:
    start = found["start_accuracy"]
    return bool(AIM["start_at_least"] <= start <= AIM["start_at_most"]
                and found["rewards_accuracy"] >= start + AIM["points_more_at_least"]
                and found["random_accuracy"] < start + AIM["random_points_more_below"])


if __name__ == "__main__":
    sys.exit(main())
