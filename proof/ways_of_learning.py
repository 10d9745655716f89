"""Which way of learning to use: six ways to continue from one model, each with the same seconds.

The quickstart's model is shown 200 sums with their steps and is then right on about half of the held-out ones. From
this one checkpoint six arms go on, each for as many seconds of drawing and training:

- `imitation`: more updates on the same 200 traces;
- `iteration`: expert iteration, two rounds: samples of the model before, the right ones kept, and a new model trained
  on them from the first (random) weights, as `workings improve` does;
- `preferences`: DPO on pairs of the start's own samples, a right against a wrong one of the same sum;
- `rewards`: Dr. GRPO, a reward of 1 for a right answer;
- `teacher`: on-policy distillation from a model of the same size that was shown 500 sums. Its own training is not
  counted: a teacher is something that one has;
- `traces`: the same teacher's most likely tokens on the 200 traces, asked once.

All but `imitation` and `traces` also see the questions and answers of 6,000 further sums, and no steps of them. How
many updates fit into the seconds is found by a short run of each arm; what each really took is reported. Three seeds:
data, weights, order and samples.
"""

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.result_file import load_average, write_result
from workings.config.load import LoadedRecipe, load_recipe
from workings.evaluation.comparison.compare import compare
from workings.evaluation.settings import settings_of
from workings.evaluation.statistics.intervals import t_mean
from workings.evaluation.unit import read_scorecard
from workings.inputs.datasets import read_prompts
from workings.publish.export import export_run
from workings.record import jsonl
from workings.record.reader import RunRecord
from workings.runs.improve import TIMINGS_FILE, ImproveRequest, improve
from workings.runs.quickstarts.folder import complete_run
from workings.runs.quickstarts.tiny import make_data
from workings.runs.sample import sample_run
from workings.runs.train import train
from workings.samples.draw import SampleRequest
from workings.samples.pairs import PairRule

RESULT = Path(__file__).with_suffix(".json")
SEEDS = (17, 18, 19)
ARMS = ("imitation", "iteration", "preferences", "rewards", "teacher", "traces")
TRACES, TEACHER_TRACES, PROMPTS = 200, 500, 6_000
ROUNDS, SAMPLES = 2, 4
CALIBRATION = 24
"""Updates of the short run that says how long one takes; the first of them are left out."""
FROM_START = ["model={source: pretrained, id: ../start-model}", "tokenizer=model"]
ASKED = ["evaluation.traces=none", "evaluation.items=../data/items.jsonl", "evaluation.samples=0",
         "evaluation.every_steps=100000", "checkpoint.every_steps=100000"]
CONSTANT = {"schedule": "constant", "warmup_steps": 10}
DRAWN = {"group": 8, "max_new_tokens": 48, "patience": 1000}


class Seed:
    """One seed: its data, the start, the teacher, and the arms."""

    def __init__(self, folder: Path, seed: int, budget: float) -> None:
        self.folder, self.seed, self.budget = folder, seed, budget
        make_data(folder / "data", seed, traces=TRACES, prompts=PROMPTS)
        make_data(folder / "teacher-data", seed, traces=TEACHER_TRACES)
        (folder / "recipes").mkdir()
        self.start = self.run("start", self.recipe("quickstart", [
            "tokenizer=../data/tokenizer", "data.traces=../data/traces.jsonl", "training.steps=400"]))
        export_run(self.start, folder / "start-model")
        # The vocabulary of the start, so that the two can be compared token by token.
        self.teacher = self.run("teacher", self.recipe("quickstart", [
            "tokenizer=../data/tokenizer", "data.traces=../teacher-data/traces.jsonl"]))

    def recipe(self, name: str, words: Sequence[str]) -> LoadedRecipe:
        """A shipped recipe on this seed's data; its paths are seen from the folder ``recipes``."""
        return load_recipe(name, [f"seed={self.seed}", *ASKED, *words])

    def run(self, name: str, recipe: LoadedRecipe) -> Path:
        """Train and evaluate."""
        complete_run(self.folder, name, recipe, print)
        return self.folder / "runs" / name

    def pace(self, name: str, recipe: Callable[[int], LoadedRecipe]) -> float:
        """Seconds of one update of an arm, by a short run."""
        short = self.folder / "recipes" / f"{name}-short.yaml"
        short.write_text(recipe(CALIBRATION).written())
        run = train(str(short), self.folder / "short" / name).run
        seconds = [line["seconds"] for line in jsonl.read(run / "train" / "metrics.jsonl")[0]]
        return float(np.median(seconds[CALIBRATION // 3:]))

    def filled(self, name: str, recipe: Callable[[int], LoadedRecipe], spent: float = 0.0) -> tuple[Path, float]:
        """An arm of as many updates as fit; the run and its seconds."""
        steps = max(CONSTANT["warmup_steps"] + 1, round((self.budget - spent) / self.pace(name, recipe)))  # type: ignore[operator]
        run = self.run(name, recipe(steps))
        return run, spent + RunRecord.open(run).manifest.training_seconds

    def imitation(self) -> tuple[Path, float]:
        """More updates on the same traces."""
        return self.filled("imitation", lambda steps: self.recipe("quickstart", [
            *FROM_START, "data.traces=../data/traces.jsonl", training(steps, 1e-3)]))

    def iteration(self) -> tuple[Path, float]:
        """Two rounds; the start that `improve` makes again is not counted, it is the same one."""
        words = ["tokenizer=../data/tokenizer", "data.traces=../data/traces.jsonl"]
        first, prompts = RunRecord.open(self.start).manifest, self.some_prompts(1_000)
        # Drawn once more than is learned from: how long a round draws decides how long it may train.
        _, drawing = self.drawn("iteration-short", prompts)
        left = self.budget / ROUNDS - drawing
        steps = max(100, round(left / (first.training_seconds / first.completed_steps)))
        path = self.folder / "recipes" / "iteration.yaml"
        path.write_text(self.recipe("quickstart", [*words, f"training.steps={steps}"]).written())
        out = self.folder / "iteration"
        found = improve(str(path), out, request=ImproveRequest(
            rounds=ROUNDS, prompts=str(prompts), samples=SAMPLES, all_rounds=True))
        drawing = sum(row["seconds"] for row in jsonl.read(out / TIMINGS_FILE)[0] if row["part"].startswith("samples/"))
        learned = sum(RunRecord.open(each.run).manifest.training_seconds for each in found.rounds[1:])
        return found.rounds[-1].run, drawing + learned

    def drawn(self, name: str, prompts: Path) -> tuple[Path, float]:
        """Samples of the start, with pairs made of them, and the seconds that it took."""
        settings = settings_of(self.recipe("quickstart", []).recipe)
        started = time.perf_counter()
        unit = sample_run(self.start, read_prompts(str(prompts)), self.folder / name, request=SampleRequest(
            settings=replace(settings, temperature=1.0, samples=SAMPLES),
            pairs=PairRule(rule="right-wrong", most_per_prompt=2)))
        return unit.path, time.perf_counter() - started

    def preferences(self) -> tuple[Path, float]:
        """Right against wrong ones among the start's own samples."""
        unit, drawing = self.drawn("pairs", self.some_prompts(3_000))
        shutil.copy(unit / "pairs.jsonl", self.folder / "data" / "pairs.jsonl")
        return self.filled("preferences", lambda steps: self.recipe("quickstart", [
            *FROM_START, "data.traces=../data/pairs.jsonl", "data.max_length=96", "data.over_length=drop",
            "algorithm={name: dpo, beta: 1.0}", "batch.micro_batch=64", training(steps, 1e-4)]), drawing)

    def rewards(self) -> tuple[Path, float]:
        """Dr. GRPO with the settings of `workings quickstart --rewards`."""
        return self.filled("rewards", lambda steps: self.recipe("quickstart-rewards-cpu", [
            *FROM_START, "data.traces=../data/prompts.jsonl", f"training.steps={steps}", "algorithm.patience=1000"]))

    def distilled(self) -> tuple[Path, float]:
        """Each token of the student judged by the teacher."""
        algorithm = {"name": "distill", "teacher": "../runs/teacher", "teacher_precision": "fp32", **DRAWN, "group": 1}
        return self.filled("distilled", lambda steps: self.recipe("quickstart-rewards-cpu", [
            *FROM_START, "data.traces=../data/prompts.jsonl", f"algorithm={json.dumps(algorithm)}", "rewards=[]",
            training(steps, 1e-3)]))

    def on_traces(self) -> tuple[Path, float]:
        """The teacher's most likely tokens on the traces of imitation."""
        algorithm = {"name": "distill_traces", "teacher": "../runs/teacher", "teacher_precision": "fp32", "top_k": 16}
        return self.filled("on-traces", lambda steps: self.recipe("quickstart", [
            *FROM_START, "data.traces=../data/traces.jsonl", f"algorithm={json.dumps(algorithm)}",
            training(steps, 1e-3)]))

    def some_prompts(self, count: int) -> Path:
        """The first of the further sums."""
        path = self.folder / "data" / f"prompts-{count}.jsonl"
        path.write_bytes(b"".join((self.folder / "data" / "prompts.jsonl").read_bytes().splitlines(True)[:count]))
        return path


def training(steps: int, rate: float) -> str:
    """The section `training` of an arm: one rate, because nothing has to end at zero."""
    return f"training={json.dumps({'steps': steps, 'learning_rate': rate, **CONSTANT})}"


METHODS: Mapping[str, Callable[[Seed], tuple[Path, float]]] = {
    "imitation": Seed.imitation, "iteration": Seed.iteration, "preferences": Seed.preferences,
    "rewards": Seed.rewards, "teacher": Seed.distilled, "traces": Seed.on_traces}


def arm_values(name: str, starts: list[Path], runs: list[Path], seconds: list[float]) -> dict[str, Any]:
    """Accuracy over seeds with its interval, and the change from the start, each seed's and the method's."""
    accuracies = [read_scorecard(run)["overall"]["mean"] for run in runs]
    values: dict[str, Any] = {"accuracies": accuracies, "accuracy": float(np.mean(accuracies)), "seconds": seconds,
                              "mean_seconds": float(np.mean(seconds)), "verdicts": [
                                  compare(start, run).verdict for start, run in zip(starts, runs, strict=True)]}
    if len(accuracies) > 1:
        interval = t_mean(accuracies).interval
        values |= {"ci_low": interval.low, "ci_high": interval.high}
        # Each seed has its own items, so seeds are compared, and not items over all of them.
        if name != "start":
            change = t_mean([after - read_scorecard(start)["overall"]["mean"]
                             for start, after in zip(starts, accuracies, strict=True)])
            values |= {"change": change.mean, "change_low": change.interval.low, "change_high": change.interval.high}
    return values


def main() -> int:
    """Run the arms of every seed and write the result file; always 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of drawing and training, for each arm")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--arms", nargs="+", default=ARMS, choices=ARMS)
    parser.add_argument("--keep", type=Path, help="folder to make for the runs; without it they are thrown away")
    asked = parser.parse_args()
    before = load_average()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    starts, teachers = list[Path](), list[Path]()
    arms: dict[str, tuple[list[Path], list[float]]] = {name: ([], []) for name in asked.arms}
    with tempfile.TemporaryDirectory() as name:
        folder = asked.keep or Path(name)
        for number in asked.seeds:
            seed = Seed(folder / f"seed-{number}", number, asked.seconds)
            starts.append(seed.start)
            teachers.append(seed.teacher)
            for arm in asked.arms:
                run, seconds = METHODS[arm](seed)
                arms[arm][0].append(run)
                arms[arm][1].append(round(seconds, 1))
                print(f"seed {number}, {arm}: {read_scorecard(run)['overall']['mean']:.1%} after {seconds:.0f} s",
                      file=sys.stderr)
        zeros = [0.0] * len(starts)
        found = {"start": arm_values("start", starts, starts, zeros),
                 **{arm: arm_values(arm, starts, runs, seconds) for arm, (runs, seconds) in arms.items()}}
        teacher = float(np.mean([read_scorecard(run)["overall"]["mean"] for run in teachers]))
    command = f"python -m proof.ways_of_learning --seconds {asked.seconds:g}"
    if tuple(asked.seeds) != SEEDS or tuple(asked.arms) != ARMS:
        command += f" --seeds {' '.join(map(str, asked.seeds))} --arms {' '.join(asked.arms)}"
    write_result(RESULT, what="Six ways to continue from one checkpoint, each with the same seconds, on held-out sums.",
                 command=command, packages=["jax", "jaxlib", "numpy"], load_before=before,
                 values={"seconds_each": asked.seconds, "seeds": list(asked.seeds), "items": 600,
                         "traces": TRACES, "prompts": PROMPTS, "teacher_accuracy": teacher, "arms": found})
    for arm, values in found.items():
        low, high = values.get("ci_low", math.nan), values.get("ci_high", math.nan)
        print(f"{arm:<12} {values['accuracy']:7.1%}  [{low:.1%}, {high:.1%}]  {values['mean_seconds']:6.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
