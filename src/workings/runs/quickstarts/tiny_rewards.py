"""The quickstart with rewards on a CPU: a tiny model that is half right at sums learns from answers alone."""

import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from workings.config.load import LoadedRecipe, load_recipe
from workings.config.section import Section
from workings.config.training import TrainingConfig
from workings.evaluation.comparison.compare import Comparison, compare
from workings.evaluation.comparison.paired import difference_text
from workings.evaluation.predictions import read_results
from workings.evaluation.run import evaluate
from workings.evaluation.scorecard import build_scorecard
from workings.evaluation.settings import EvaluationSettings, settings_of
from workings.inputs.datasets import ADDITION_ITEMS
from workings.record import atomic
from workings.record.layout import PREDICTIONS, RECIPE_EVALUATION
from workings.record.number_text import percent
from workings.record.reader import RunRecord
from workings.reports.html import write_report
from workings.runs.evaluate import evaluate_run
from workings.runs.quickstarts.folder import complete_run, goes_on, verify_all, write_recipes
from workings.runs.quickstarts.tiny import make_data
from workings.runs.train_and_evaluate import TrainAndEvaluateResult

RECIPE = "quickstart-rewards-cpu"
START = "start"
REWARDS = "rewards"
IMITATION = "imitation"
RANDOM = "random"
START_MODEL = "start-model"
"""Folder of the weights that the other arms begin with."""
SAMPLES = 8
"""Number of completions of each held-out item at temperature 1."""
SAMPLED = "eval/samples"
"""Path of their evaluation in a run directory, which sorts after the greedy one."""
RANDOM_SHARE = 0.4
"""Updates of the arm with random rewards as a share of the first arm's, so that all of it takes five minutes."""
RANDOM_REWARD = '''\
"""A reward that knows nothing of the question: half of all texts earn 1, by a digest that anybody can compute again."""

import hashlib


def coin(prompts, completions, **columns):
    return [float(hashlib.sha256(text.encode()).digest()[0] % 2) for text in completions]
'''


@dataclass(frozen=True, kw_only=True)
class Size:
    """Sizes of the demonstration."""

    traces: int = 200
    """The first of the quickstart's 500. They show about 210 of the 262 columns of digits: imitation ends there."""
    start_steps: int = 400
    """Enough to imitate them as well as they can be."""
    prompts: int = 6_000
    """Other problems, of which the answer alone is known; none is among the items, in either order."""
    items: int = ADDITION_ITEMS
    """Held-out problems that all arms are asked."""


FULL_SIZE = Size()
Export = Callable[[Path, Path], object]
"""Writes a run's model as a folder; a parameter, because the room `publish` is above this one."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One of the four models with its accuracy on the held-out items."""

    run: Path
    steps: int
    """Number of updates; of the other arms without those of the start."""
    seconds: float
    """Seconds of training, sampling included."""
    accuracy: float
    """Accuracy of greedy answers."""
    pass_at_1: float
    """Share of right samples."""
    pass_at_8: float
    """Share of items with a right sample."""


@dataclass(frozen=True, kw_only=True)
class RewardsQuickstartResult:
    """Result of the quickstart with rewards."""

    out: Path
    arms: dict[str, Arm]
    against: dict[str, Comparison]
    """Comparison of the arm with rewards (B) with each other one (A)."""
    algorithm: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Keys of `quickstart --rewards --json`."""
        # The change since the start is the result; the other arms stand below `against`.
        compared = self.against[START].to_json()
        values: dict[str, Any] = {}
        for name, arm in self.arms.items():
            values |= {f"{name}_accuracy": arm.accuracy, f"{name}_pass_at_1": arm.pass_at_1,
                       f"{name}_pass_at_{SAMPLES}": arm.pass_at_8, f"{name}_steps": arm.steps,
                       f"{name}_training_seconds": round(arm.seconds, 1)}
        return values | {
            "items": compared["items"], "p_value": compared["p_value"], "seconds": round(self.seconds, 1),
            "runs": [str(arm.run) for arm in self.arms.values()], "algorithm": self.algorithm,
            "delta": compared["delta"], "delta_ci_low": compared["delta_ci_low"],
            "delta_ci_high": compared["delta_ci_high"], "verdict": compared["verdict"],
            "against": {name: {key: comparison[key] for key in ("delta", "delta_ci_low", "delta_ci_high", "p_value",
                                                                "mcnemar_p", "verdict") if key in comparison}
                        for name, comparison in ((name, pair.to_json()) for name, pair in self.against.items())},
            "sentence": self.sentence, "report": str(self.out / "report.html")}

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        start, rewards, imitation, random = (self.arms[name] for name in (START, REWARDS, IMITATION, RANDOM))
        difference = self.against[START].difference
        assert difference is not None  # all arms answer the same items in the same way
        return (f"On {difference.n} held-out sums, {rewards.steps} updates from rewards in {rewards.seconds:.0f} s "
                f"({self.algorithm}, answers alone) took the model from {percent(start.accuracy)} to "
                f"{percent(rewards.accuracy)} right ({difference_text(difference, difference.p_value)}), and from "
                f"{percent(start.pass_at_1)} to {percent(rewards.pass_at_1)} of samples at temperature 1; "
                f"{imitation.seconds:.0f} s of more imitation reached {percent(imitation.accuracy)}, {random.steps} "
                f"updates from random rewards {percent(random.accuracy)}.")

    def text(self) -> str:
        """The result, a table, and next commands, for people."""
        run = shlex.quote(str(self.arms[REWARDS].run))
        lines = [
            "", self.sentence, "",
            f"{'':<10} {'updates':>8} {'seconds':>8} {'greedy':>8} {'pass@1':>8} {f'pass@{SAMPLES}':>8}",
            *(f"{name:<10} {arm.steps:>8} {arm.seconds:>8.1f} {percent(arm.accuracy):>8} "
              f"{percent(arm.pass_at_1):>8} {percent(arm.pass_at_8):>8}" for name, arm in self.arms.items()), "",
            *(self.against[name].sentence for name in (IMITATION, RANDOM)),
            "Equal in all arms: the weights they start from, a fresh optimizer with a warm-up, the held-out items.",
            f"All runs are sealed and verified. Report: {self.out / 'report.html'}  ({self.seconds:.0f} s)", "",
            "Try next:",
            f"  workings ask {quote(str(run))} \"What is 47+25?\"",
            f"  workings verify {quote(str(run))}",
            f"  workings compare {shlex.quote(str(self.arms[START].run))} {run}",
            f"  workings ui {shlex.quote(str(self.out))}",
        ]
        return "\n".join(lines)


def quickstart_rewards(out: Path, overrides: Sequence[str] = (), *, export: Export, seed: int = 17,
                       full: bool = False, size: Size = FULL_SIZE,
                       say: Callable[[str], None] = lambda _: None) -> RewardsQuickstartResult:
    """Trains a start, continues from it in three ways, evaluates, compares, verifies, reports.

    One that was cut short goes on, as `workings.runs.quickstarts.quickstart.quickstart` does.

    Args:
        out: folder to make for everything, or that of a quickstart with rewards that was cut short.
        overrides: ``key=value`` words for the recipe with rewards, e.g. ``training.steps=4``; the other
            arms follow from it.
        export: `workings.publish.export.export_run`.
        seed: decides data, weights, the order of rows and sampling.
        full: as many updates from random rewards as from right ones.
        size: a smaller one is for tests.
        say: told which runs are used or resumed.

    Raises:
        RequestError: ``out`` exists, and is not this quickstart cut short.
        RecordError: a run that was just sealed does not verify.
    """
    started = time.perf_counter()
    model = f"model={{source: pretrained, id: ../{START_MODEL}}}"
    data = ["tokenizer=model", "data.traces=../data/prompts.jsonl", "evaluation.items=../data/items.jsonl"]
    # Loaded before data are generated: a wrong override leaves no folder behind.
    learning = load_recipe(RECIPE, [f"name={REWARDS}", f"seed={seed}", model, *data, *overrides])
    training = learning.recipe.training
    few = training.steps if full else max(1, round(training.steps * RANDOM_SHARE))
    coin = load_recipe(RECIPE, [
        f"name={RANDOM}", f"seed={seed}", model, *data, *overrides, "rewards=[{scorer: 'random_reward.py:coin'}]",
        f"training.steps={few}", f"training.warmup_steps={min(training.warmup_steps, few - 1)}"])
    warmup = min(load_recipe("quickstart").recipe.training.warmup_steps, size.start_steps - 1)
    imitating = imitating_arm(START, seed, [f"training.steps={size.start_steps}", f"training.warmup_steps={warmup}"])
    recipes = {START: imitating, REWARDS: learning, RANDOM: coin}
    if not goes_on(out, recipes):
        make_data(out / "data", seed, traces=size.traces, prompts=size.prompts, item_count=size.items)
        (out / "recipes").mkdir()
        atomic.write_text(out / "recipes" / "random_reward.py", RANDOM_REWARD)
        write_recipes(out, recipes)

    arms = {START: _arm(out, START, imitating, say)}
    if not (out / START_MODEL).exists():
        export(arms[START].run, out / START_MODEL)
    arms[REWARDS] = _arm(out, REWARDS, learning, say)
    # As many seconds, by the start's seconds a step; this optimizer's steps take longer, so it gets rather more.
    steps = max(training.warmup_steps + 1, round(arms[REWARDS].seconds * arms[START].steps / arms[START].seconds))
    arms[IMITATION] = _arm(out, IMITATION, imitating_arm(IMITATION, seed, [
        model, "tokenizer=model", f"training={json.dumps(constant_rate(training, steps))}",
        f"optimizer={_written(learning.recipe.optimizer)}"]), say)
    arms[RANDOM] = _arm(out, RANDOM, coin, say)

    against = {name: compare(arm.run, arms[REWARDS].run) for name, arm in arms.items() if name != REWARDS}
    atomic.write_json(out / "compare.json", {name: comparison.to_json() for name, comparison in against.items()})
    runs = [arm.run for arm in arms.values()]
    write_report(out / "report.html", runs, against[START])
    # The result is returned only if all of its records verify.
    verify_all(runs)
    return RewardsQuickstartResult(out=out, arms=arms, against=against, algorithm=learning.recipe.algorithm.name,
                                   seconds=time.perf_counter() - started)


def constant_rate(training: TrainingConfig, steps: int) -> dict[str, Any]:
    """The section `training` of more imitation: rate and warm-up of the other arms, and no end that is known before."""
    return {"steps": steps, "learning_rate": training.learning_rate, "schedule": "constant",
            "warmup_steps": training.warmup_steps}


def _written(section: Section) -> str:
    """A recipe's section as the value of an override."""
    return json.dumps(section.model_dump(mode="json", exclude_unset=True))


def imitating_arm(name: str, seed: int, overrides: Sequence[str]) -> LoadedRecipe:
    """The quickstart's recipe with steps written out, on the few traces."""
    return load_recipe("quickstart", [
        f"name={name}", f"seed={seed}", "tokenizer=../data/tokenizer", "data.traces=../data/traces.jsonl",
        "evaluation.traces=none", "evaluation.items=../data/items.jsonl", "evaluation.samples=0",
        "checkpoint.every_steps=1000", *overrides])


def _arm(out: Path, name: str, recipe: LoadedRecipe, say: Callable[[str], None]) -> Arm:
    """Trains an arm and evaluates it on the held-out items, greedily and at temperature 1."""
    result = complete_run(out, name, recipe, say)
    run = RunRecord.open(out / "runs" / name)
    if not (run.path / SAMPLED).exists():
        settings: EvaluationSettings = replace(settings_of(recipe.recipe), temperature=1.0, samples=SAMPLES)
        _evaluate_samples(run, out / "data" / "items.jsonl", settings, result)
    # One evaluation of samples gives both scores: their mean, and whether any is right.
    return Arm(run=run.path, steps=run.manifest.completed_steps, seconds=run.manifest.training_seconds,
               accuracy=_accuracy(run, RECIPE_EVALUATION, "mean"), pass_at_1=_accuracy(run, SAMPLED, "mean"),
               pass_at_8=_accuracy(run, SAMPLED, "pass"))


def _accuracy(run: RunRecord, unit: str, aggregate: str) -> float:
    return build_scorecard(list(read_results(run.path / unit / PREDICTIONS, aggregate))).accuracy


def _evaluate_samples(run: RunRecord, items: Path, settings: EvaluationSettings,
                      result: TrainAndEvaluateResult | None) -> None:
    """Seals the evaluation of samples at temperature 1 beside the greedy one."""
    if result is None:  # trained by a call that was cut short
        evaluate_run(run.path, items, run.path / SAMPLED, settings=settings)
        return
    # With the final state, which is still in memory: nothing is loaded again.
    training = result.training
    evaluate(training.setup.session(training.setup.engine, training.state), training.setup.data.items,
             run.path / SAMPLED, settings=settings, made_from=run.root,
             facts={"run": run.manifest.name, "step": training.steps})
