"""Which way of learning to use: seven ways to teach one real model the same task, three seeds, with intervals.

    python -m proof.ways_on_smollm2 --keep FOLDER [--seeds 17 18 19] [--arms prompt steps grpo ...] [--at-once 1]
        [key=value ...]

SmolLM2-135M-Instruct answers 200 held-out questions about units (`workings quickstart --rewards` has the same task):

- `prompt`: the untrained model, asked;
- `answers`: imitation of 100 questions and 25 everyday facts with bare answers;
- `steps`: imitation of the same traces with their steps; the ways below start from its weights or its traces;
- `iteration`: expert iteration, two rounds: correct samples on 240 further questions, trained from the first weights;
- `dpo`: pairs of the model's samples on those questions, a correct against a wrong one;
- `grpo`: rewards for correct answers to those questions;
- `teacher`: distillation on its own samples, from a model that imitated the steps of all 340 questions.

All runs and evaluations stay in FOLDER, and a second call makes only what is missing. The result file keeps the seeds
and arms of earlier calls with the same settings, each with its day and commit. With `--at-once 12` this many arms
run at the same time, each in its own process; on an accelerator that has the memory. Words like `device=gpu` override
every recipe. Writes `proof.ways_on_smollm2.json` whenever an arm is complete.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from tools.result_file import ROOT, earlier, measured, write_result
from workings.config.load import load_recipe
from workings.evaluation.comparison.compare import compare
from workings.evaluation.settings import settings_of
from workings.evaluation.statistics import t_mean
from workings.evaluation.unit import read_scorecard
from workings.inputs.datasets import read_prompts
from workings.publish.export import export_run
from workings.record.layout import SEAL
from workings.record.reader import RunRecord
from workings.runs.improve import ImproveRequest, improve
from workings.runs.quickstarts.folder import complete_run
from workings.runs.quickstarts.real import RECIPE, REWARDS_RECIPE, ask_untrained, make_data
from workings.runs.sample import sample_run
from workings.samples.draw import SampleRequest
from workings.samples.selection import PairRule
from workings.scoring.items import read_items

SEEDS = (17, 18, 19)
SIZE = {"traces": 100, "items": 200, "facts": 0, "prompts": 240}
"""Amounts of data, by the arguments of `make_data`."""
SMALL = SIZE | {"traces": 16, "items": 16, "prompts": 16}
ROUNDS = 2
FROM_STEPS = ["model.id=../steps-model"]
SHORT = "training={steps: 20, learning_rate: 1e-4, schedule: constant, warmup_steps: 2}"


class Seed:
    """One seed: its data and its arms."""

    def __init__(self, asked: argparse.Namespace, seed: int) -> None:
        self.folder, self.seed, self.words = asked.keep / f"seed-{seed}", seed, asked.words
        self.size, folder = asked.size, self.folder
        if not (folder / "data" / "manifest.json").is_file():
            shutil.rmtree(folder / "data", ignore_errors=True)
            make_data(folder / "data", seed, **self.size)

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
        """Imitation of steps; also exported, for the ways that resume from its weights."""
        run = self.train("steps", [])
        if not (self.folder / "steps-model").exists():
            export_run(run, self.folder / "steps-model")
        return run

    def iteration(self) -> Path:
        """Expert iteration, two rounds."""
        self.steps()  # round 0 is the same run once more
        recipe = load_recipe(str(self.folder / "recipes" / "steps.yaml"))
        found = improve(recipe, self.folder / "iteration", say=print, request=ImproveRequest(
            rounds=ROUNDS, prompts=str(self.folder / "data" / "prompts.jsonl"), all_rounds=True))
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
        return self.train("dpo", [*FROM_STEPS, SHORT, "data.traces=../data/pairs.jsonl", "data.packing=none",
                                  "algorithm={name: dpo, beta: 0.1}", "batch.micro_batch=32"])

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
            traces = self.size["traces"] + self.size["prompts"]
            make_data(data, self.seed, **(self.size | {"traces": traces, "prompts": 0}))
            shutil.copy(data / "traces.jsonl", more)
        self.train("teacher-model", ["data.traces=../data/all-traces.jsonl", "training.steps=40"])
        algorithm = {"name": "distill", "teacher": "../runs/teacher-model", "group": 1, "max_new_tokens": 48}
        return self.train("teacher", [*FROM_STEPS, "data.traces=../data/prompts.jsonl", "rewards=[]",
                                      f"algorithm={json.dumps(algorithm)}"], REWARDS_RECIPE)


ARMS: dict[str, Callable[[Seed], Path]] = {
    name: getattr(Seed, name) for name in ("prompt", "answers", "steps", "iteration", "dpo", "grpo", "teacher")}
FIRST = {"prompt", "answers", "steps"}
"""Arms that need no other; the others resume from `steps`."""


def arm_values(runs: dict[int, Path], steps: dict[int, Path], kept: dict[str, Any]) -> dict[str, Any]:
    """Accuracy of each seed with the verdict against `steps`; the mean with its interval over seeds.

    Seeds that this call did not run keep what the result file says of them.
    """
    by_seed = {
        "accuracies": {seed: read_scorecard(run)["overall"]["mean"] for seed, run in runs.items()},
        "against_steps": {seed: compare(steps[seed], run).verdict
                          for seed, run in runs.items() if seed in steps and run != steps[seed]},
        "training_seconds": {seed: round(RunRecord.open(run).manifest.training_seconds, 1)
                             for seed, run in runs.items() if (run / "run_manifest.json").is_file()},
        "measured": {seed: measured() for seed in runs}}
    values: dict[str, Any] = {
        name: dict(sorted((kept.get(name, {}) | {str(seed): value for seed, value in values.items()}).items()))
        for name, values in by_seed.items()}
    accuracies = list(values["accuracies"].values())
    values["accuracy"] = float(np.mean(accuracies))
    if len(accuracies) > 2:  # two say nothing of how far a third might be
        interval = t_mean(accuracies).interval
        values |= {"ci_low": interval.low, "ci_high": interval.high}
    return values


def in_process(asked: argparse.Namespace, seed: int, arm: str) -> Path:
    """Train one arm in a separate process, whose output goes to FOLDER/SEED-ARM.log; returns its run."""
    with (asked.keep / f"{seed}-{arm}.log").open("w") as log:
        done = subprocess.run([sys.executable, "-m", "proof.ways_on_smollm2", "--keep", str(asked.keep), "--only",
                               str(seed), arm, *(["--small"] if asked.small else []), *asked.words],
                              stdout=subprocess.PIPE, stderr=log, text=True, check=False, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{arm} of seed {seed} failed; {log.name} says how")
    return Path(done.stdout.splitlines()[-1])


def write(asked: argparse.Namespace, found: dict[str, dict[int, Path]]) -> None:
    """Write the result file, or in a trial show it."""
    settings = asked.size | {"rounds": ROUNDS, "words": asked.words}
    before_this = earlier()
    kept = before_this.pop("arms", {})
    if before_this != settings:
        kept = {}
    values = settings | {"arms": {
        name: arm_values(found.get(name, {}), found.get("steps", {}), kept.get(name, {}))
        for name in ARMS if found.get(name) or kept.get(name)}}
    if asked.small:
        print(json.dumps(values))
        return
    arms = [] if asked.arms == list(ARMS) else ["--arms", *asked.arms]
    words = " ".join(["--seeds", *map(str, asked.seeds), *arms, "--at-once", str(asked.at_once), *asked.words])
    write_result(packages=["torch", "transformers", "numpy"], words=f"--keep FOLDER {words}", values=values)


def main() -> int:
    """Run the arms of every seed and write the result file; always 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, required=True, help="folder of all runs; what is complete there is used")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--small", action="store_true", help="little data, no result file: tries every line")
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*", help="overrides of every recipe, e.g. device=gpu")
    asked = parser.parse_args()
    asked.size = SMALL if asked.small else SIZE
    asked.keep.mkdir(parents=True, exist_ok=True)
    if asked.only:
        seed, arm = asked.only
        with redirect_stdout(sys.stderr):
            run = ARMS[arm](Seed(asked, int(seed)))
        print(run.absolute())
        return 0
    lock = Lock()
    found: dict[str, dict[int, Path]] = {}

    def make(one: tuple[int, str]) -> None:
        seed, arm = one
        run = in_process(asked, seed, arm)
        with lock:
            found.setdefault(arm, {})[seed] = run
            print(f"seed {seed}, {arm}: {read_scorecard(run)['overall']['mean']:.1%}", file=sys.stderr, flush=True)
            write(asked, found)

    for seed in asked.seeds:
        Seed(asked, seed)  # its data, before several arms read them
    for arms in (FIRST & set(asked.arms), set(asked.arms) - FIRST):
        with ThreadPoolExecutor(asked.at_once) as pool:
            list(pool.map(make, [(seed, arm) for arm in ARMS if arm in arms for seed in asked.seeds]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
