"""The quickstart's second act: SmolLM2-135M learns from its own correct answers, then from rewards.

It starts with a third of the traces. Two rounds of expert iteration add its own correct answers to other questions, and
GRPO continues from the last round with rewards for correct answers. Every model answers the same held-out questions.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workings.config.load import load_recipe
from workings.data.generate import write_manifest
from workings.data.generators import everyday
from workings.data.generators.base import as_item, write_items
from workings.data.traces import write_traces
from workings.evaluation.comparison.compare import Comparison, compare
from workings.record import atomic
from workings.record.number_text import percent
from workings.reports.html import write_report
from workings.runs.improve import ImproveRequest, improve
from workings.runs.quickstarts.folder import complete_run, goes_on, verify_all, write_recipes
from workings.runs.quickstarts.real import RECIPE, UNTRAINED, ask_untrained, model_id
from workings.scoring.items import read_items

REWARDS_RECIPE = "smollm2-135m-grpo-cpu"
START, REWARDS = "start", "rewards"
IMPROVED_MODEL = "improved-model"
"""Folder of the weights that GRPO begins with."""
Export = Callable[[Path, Path], object]
"""Writes a run's model as a folder; a parameter, because the room `publish` is above this one."""


@dataclass(frozen=True, kw_only=True)
class RewardsSize:
    """Amounts of data and number of rounds; smaller ones are for tests."""

    traces: int = 100
    prompts: int = 240
    items: int = 200
    rounds: int = 2


FULL_SIZE = RewardsSize()


@dataclass(frozen=True, kw_only=True)
class RealRewardsResult:
    """Result of the second act."""

    out: Path
    model: str
    verdict: Comparison
    """The model after GRPO (B) compared with the untrained one (A)."""
    against_start: Comparison
    """The model after GRPO (B) compared with the one that imitated the traces (A)."""
    against_rounds: Comparison
    """The model after GRPO (B) compared with the last round of expert iteration (A)."""
    rounds: tuple[float, ...]
    """Accuracy of the start and of each round."""
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Keys of `quickstart --rewards --json`."""
        values = self.verdict.to_json()
        return {"model": self.model, "accuracy_before": values["a"]["accuracy"], "rounds": list(self.rounds),
                "accuracy_after": values["b"]["accuracy"], "p_value": values["p_value"], "items": values["items"],
                "verdict": values["verdict"], "sentence": self.verdict.sentence, "seconds": round(self.seconds, 1),
                "against": {name: {key: value for key, value in comparison.to_json().items()
                                   if key in ("delta", "delta_ci_low", "delta_ci_high", "p_value", "verdict")}
                            for name, comparison in (("start", self.against_start), ("rounds", self.against_rounds))},
                "run": str(self.out / "runs" / REWARDS), "report": str(self.out / "report.html")}

    def text(self) -> str:
        """The result and the next commands, in words."""
        run = shlex.quote(str(self.out / "runs" / REWARDS))
        rounds = ", ".join(percent(accuracy) for accuracy in self.rounds)
        return "\n".join([
            "", f"Correct after imitating the traces, and after each round on its own answers: {rounds}.",
            self.against_rounds.sentence, self.against_start.sentence, self.verdict.sentence,
            f"All runs are sealed and verified. Report: {self.out / 'report.html'}  ({self.seconds:.0f} s)", "",
            "Try next:",
            f"  workings ask {run} \"How many eggs are in 47 dozen?\"",
            f"  workings ui {shlex.quote(str(self.out))}",
            f"  workings verify {run}",
        ])


def real_quickstart_rewards(out: Path, overrides: Sequence[str] = (), *, export: Export, seed: int = 17,
                            size: RewardsSize = FULL_SIZE,
                            say: Callable[[str], None] = lambda _: None) -> RealRewardsResult:
    """Trains a start, improves it on its own answers, trains it from rewards, compares, verifies, reports.

    An interrupted one is resumed, as in `workings.runs.quickstarts.real.real_quickstart`.

    Args:
        out: folder to make, or that of an interrupted quickstart with rewards.
        overrides: ``key=value`` words for the recipe with rewards, e.g. ``training.steps=4``.
        export: `workings.publish.export.export_run`.
        seed: decides the data, the adapters' first values, the order of rows and sampling.
        size: amounts of data.
        say: prints progress lines.

    Raises:
        RequestError: ``out`` exists and is not this quickstart, interrupted.
        RecordError: a run that was just sealed does not verify.
    """
    started = time.perf_counter()
    data = ["evaluation.items=../data/items.jsonl", "evaluation.base=false", "evaluation.max_new_tokens=48"]
    # An override of the model applies to all recipes, but GRPO's model is the improved one.
    model = [word for word in overrides if word.startswith("model.")]
    start = load_recipe(RECIPE, [f"name={START}", f"seed={seed}", "data.traces=../data/traces.jsonl", *data, *model])
    learning = load_recipe(REWARDS_RECIPE, [
        f"name={REWARDS}", f"seed={seed}", "data.traces=../data/prompts.jsonl", *data,
        *(word for word in overrides if word not in model), f"model.id=../{IMPROVED_MODEL}"])
    if not goes_on(out, {START: start, REWARDS: learning}):
        make_data(out / "data", seed, size)
        write_recipes(out, {START: start, REWARDS: learning})
    untrained = out / UNTRAINED
    ask_untrained(start, {untrained: read_items(out / "data" / "items.jsonl")}, say)
    improved = improve(replace(start, base=out / "recipes"), out / "improve", say=say, request=ImproveRequest(
        rounds=size.rounds, prompts=str(out / "data" / "prompts.jsonl"), all_rounds=True))
    if not (out / IMPROVED_MODEL).exists():
        export(improved.rounds[-1].run, out / IMPROVED_MODEL)
    complete_run(out, REWARDS, learning, say)
    run, runs = out / "runs" / REWARDS, [each.run for each in improved.rounds]
    verdict, against_start, against_rounds = (compare(a, run) for a in (untrained, runs[0], runs[-1]))
    atomic.write_json(out / "compare.json", {UNTRAINED: verdict.to_json(), START: against_start.to_json(),
                                             "rounds": against_rounds.to_json()})
    write_report(out / "report.html", [untrained, runs[0], runs[-1], run], verdict)
    # The result is returned only if all of its records verify.
    verify_all([*runs, run])
    return RealRewardsResult(
        out=out, model=model_id(start), verdict=verdict, against_start=against_start, against_rounds=against_rounds,
        rounds=tuple(each.overall["mean"] for each in improved.rounds), seconds=time.perf_counter() - started)


def make_data(folder: Path, seed: int, size: RewardsSize) -> None:
    """Writes traces, more questions with answers only, and held-out items."""
    folder.mkdir(parents=True)
    units, items = everyday.make_units(size.traces + size.prompts, size.items, seed)
    facts, _ = everyday.make_facts(0, seed)
    write_traces(folder / "traces.jsonl", [*units[:size.traces], *facts[:size.traces // 4]])
    write_items(folder / "prompts.jsonl", map(as_item, units[size.traces:]))
    write_items(folder / "items.jsonl", items)
    write_manifest(folder, generator="everyday", version=everyday.VERSION, seed=seed)
