"""Which way of learning to use: seven ways to teach one real model the same task, three seeds, with intervals.

    python -m proof.ways_on_smollm2 --keep FOLDER [--seeds 17 18 19] [--arms prompt steps grpo ...]

SmolLM2-135M-Instruct answers 200 held-out questions about units (`workings quickstart --rewards` has the same task):

- `prompt`: the untrained model, asked;
- `answers`: imitation of 100 questions and 25 everyday facts with bare answers;
- `steps`: imitation of the same traces with their steps; the ways below start from its weights or its traces;
- `iteration`: expert iteration, two rounds: correct samples on 240 further questions, trained from the first weights;
- `dpo`: pairs of its own samples on those questions, a correct against a wrong one;
- `grpo`: rewards for correct answers to those questions;
- `teacher`: distillation on its own samples, from a model that imitated the steps of all 340 questions.

All runs and evaluations stay in FOLDER, and a second call makes only what is missing. Writes
`proof.ways_on_smollm2.json` whenever an arm is complete.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.result_file import load_average, write_result
from workings.config.load import load_recipe
from workings.evaluation.comparison.compare import compare
from workings.evaluation.settings import settings_of
from workings.evaluation.statistics.intervals import t_mean
from workings.evaluation.unit import read_scorecard
from workings.inputs.datasets import read_prompts
from workings.publish.export import export_run
from workings.record.layout import SEAL
from workings.record.reader import RunRecord
from workings.runs.improve import ImproveRequest, improve
from workings.runs.quickstarts.folder import complete_run
from workings.runs.quickstarts.real import RECIPE, ask_untrained
from workings.runs.quickstarts.real_rewards import FULL_SIZE, REWARDS_RECIPE, make_data
from workings.runs.sample import sample_run
from workings.samples.draw import SampleRequest
from workings.samples.pairs import PairRule
from workings.scoring.items import read_items

RESULT = Path(__file__).with_suffix(".json")
SEEDS = (17, 18, 19)
FROM_STEPS = ["model.id=../steps-model"]
LEARNING = ["training.schedule=constant", "training.final_share=0", "training.warmup_steps=2"]


class Seed:
    """One seed: its data and its arms."""

    def __init__(self, folder: Path, seed: int, words: list[str]) -> None:
        self.folder, self.seed, self.words = folder, seed, words
        if not (folder / "data" / "manifest.json").is_file():
            shutil.rmtree(folder / "data", ignore_errors=True)
            make_data(folder / "data", seed, FULL_SIZE)

    def train(self, name: str, words: list[str], recipe: str = RECIPE) -> Path:
        """Trains and evaluates an arm, or finds it complete; returns the run."""
        loaded = load_recipe(recipe, [
            f"name={name}", f"seed={self.seed}", "data.traces=../data/traces.jsonl", "evaluation.base=false",
            "evaluation.items=../data/items.jsonl", "evaluation.max_new_tokens=48", *self.words, *words])
        complete_run(self.folder, name, loaded, print)
        return self.folder / "runs" / name

    def prompt(self) -> Path:
        """The untrained model."""
        unit = self.folder / "prompt"
        ask_untrained(load_recipe(RECIPE, [*self.words, "evaluation.max_new_tokens=48"]),
                      {unit: read_items(self.folder / "data" / "items.jsonl")}, print)
        return unit

    def answers(self) -> Path:
        """Imitation of bare answers."""
        return self.train("answers", ["data.reasoning=answer_only", "data.max_length=96"])

    def steps(self) -> Path:
        """Imitation of steps; also exported, for the ways that go on from its weights."""
        run = self.train("steps", [])
        if not (self.folder / "steps-model").exists():
            export_run(run, self.folder / "steps-model")
        return run

    def iteration(self) -> Path:
        """Expert iteration, two rounds."""
        self.steps()  # round 0 is the same run once more
        recipe = load_recipe(str(self.folder / "recipes" / "steps.yaml"))
        found = improve(recipe, self.folder / "iteration", say=print, request=ImproveRequest(
            rounds=2, prompts=str(self.folder / "data" / "prompts.jsonl"), all_rounds=True))
        return found.rounds[-1].run

    def dpo(self) -> Path:
        """A correct against a wrong one of the model's own samples."""
        run, unit = self.steps(), self.folder / "samples"
        if not (unit / SEAL).is_file():
            settings = settings_of(load_recipe(str(self.folder / "recipes" / "steps.yaml")).recipe)
            sample_run(run, read_prompts(str(self.folder / "data" / "prompts.jsonl")), unit, request=SampleRequest(
                settings=replace(settings, temperature=1.0, samples=8),
                pairs=PairRule(rule="right-wrong", most_per_prompt=4)))
        shutil.copy(unit / "pairs.jsonl", self.folder / "data" / "pairs.jsonl")
        return self.train("dpo", [*FROM_STEPS, *LEARNING, "data.traces=../data/pairs.jsonl", "data.packing=none",
                                  "algorithm={name: dpo, beta: 0.1}", "batch.micro_batch=32", "training.steps=20",
                                  "training.learning_rate=1e-4"])

    def grpo(self) -> Path:
        """Rewards for correct answers."""
        self.steps()
        return self.train("grpo", [*FROM_STEPS, "data.traces=../data/prompts.jsonl"], REWARDS_RECIPE)

    def teacher(self) -> Path:
        """On-policy distillation from a model that imitated more."""
        self.steps()
        more, data = self.folder / "data" / "all-traces.jsonl", self.folder / "all-data"
        if not more.is_file():
            shutil.rmtree(data, ignore_errors=True)
            make_data(data, self.seed, replace(FULL_SIZE, traces=FULL_SIZE.traces + FULL_SIZE.prompts, prompts=0))
            shutil.copy(data / "traces.jsonl", more)
        self.train("teacher-model", ["data.traces=../data/all-traces.jsonl", "training.steps=40"])
        algorithm = {"name": "distill", "teacher": "../runs/teacher-model", "group": 1, "max_new_tokens": 48}
        return self.train("teacher", [*FROM_STEPS, "data.traces=../data/prompts.jsonl", "rewards=[]",
                                      f"algorithm={json.dumps(algorithm)}"], REWARDS_RECIPE)


ARMS: dict[str, Callable[[Seed], Path]] = {
    name: getattr(Seed, name) for name in ("prompt", "answers", "steps", "iteration", "dpo", "grpo", "teacher")}


def arm_values(runs: dict[int, Path], steps: dict[int, Path]) -> dict[str, Any]:
    """Accuracy of each seed with the verdict against `steps`; the mean with its interval over seeds."""
    accuracies = {seed: read_scorecard(run)["overall"]["mean"] for seed, run in runs.items()}
    values: dict[str, Any] = {
        "accuracies": {str(seed): accuracy for seed, accuracy in accuracies.items()},
        "accuracy": float(np.mean(list(accuracies.values()))),
        "against_steps": {str(seed): compare(steps[seed], run).verdict
                          for seed, run in runs.items() if seed in steps and run != steps[seed]},
        "training_seconds": {str(seed): round(RunRecord.open(run).manifest.training_seconds, 1)
                             for seed, run in runs.items() if (run / "run_manifest.json").is_file()}}
    if len(accuracies) > 1:
        interval = t_mean(list(accuracies.values())).interval
        values |= {"ci_low": interval.low, "ci_high": interval.high}
    return values


def main() -> int:
    """Run the arms of every seed and write the result file; 0, whatever they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, required=True, help="folder of all runs; what is complete there is used")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("words", nargs="*", help="overrides of every recipe, e.g. model.id=FOLDER")
    asked = parser.parse_args()
    before = load_average()
    found: dict[str, dict[int, Path]] = {name: {} for name in asked.arms}
    for number in asked.seeds:
        seed = Seed(asked.keep / f"seed-{number}", number, asked.words)
        for arm in asked.arms:
            found[arm][number] = ARMS[arm](seed)
            print(f"seed {number}, {arm}: {read_scorecard(found[arm][number])['overall']['mean']:.1%}", file=sys.stderr)
            write_result(
                RESULT, what="Seven ways to teach SmolLM2-135M-Instruct one task, on held-out questions.",
                command=f"python -m proof.ways_on_smollm2 --keep FOLDER --seeds {' '.join(map(str, asked.seeds))}",
                packages=["torch", "transformers", "numpy"], load_before=before,
                values={"items": FULL_SIZE.items, "traces": FULL_SIZE.traces, "prompts": FULL_SIZE.prompts,
                        "arms": {name: arm_values(runs, found.get("steps", {}))
                                 for name, runs in found.items() if runs}})
    return 0


if __name__ == "__main__":
    sys.exit(main())
