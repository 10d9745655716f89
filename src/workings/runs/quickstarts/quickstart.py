"""The quickstart, from end to end on a CPU: does a tiny model add better when it writes the carry?"""

import shlex
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workings.config.load import LoadedRecipe, load_recipe
from workings.data.generators import addition
from workings.data.generators.base import ItemRecord, write_items
from workings.data.manifest import write_manifest
from workings.data.traces import completion_text, write_traces
from workings.errors import Interrupted, RecordError, RequestError
from workings.evaluation.comparison.compare import Comparison, compare
from workings.evidence.verify import verify
from workings.models.tokenizer_training import train_tokenizer
from workings.record import atomic
from workings.record.layout import SEAL, partial_path
from workings.record.reader import RunRecord
from workings.reports.html import write_report
from workings.runs.create_or_resume import evaluation_is_missing
from workings.runs.data.datasets import ADDITION_ITEMS, ADDITION_TRACES
from workings.runs.improve import ImproveRequest, improve
from workings.runs.improve_result import REQUEST, ImproveResult
from workings.runs.resolve import TRAINED_VOCABULARY
from workings.runs.train_and_evaluate import TrainAndEvaluateResult, train_and_evaluate
from workings.ui.verification_cache import VerificationCache

WITH_STEPS = "with-steps"
ANSWER_ONLY = "answer-only"
SAME_TOKENS = "answer-only-same-tokens"


@dataclass(frozen=True, kw_only=True)
class QuickstartResult:
    """Result of the quickstart."""

    out: Path
    runs: dict[str, RunRecord]
    comparison: Comparison
    seconds: float
    more: dict[str, Comparison] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Keys of `quickstart --json`."""
        compared = self.comparison.to_json()
        values = {
            "traces_accuracy": compared["b"]["accuracy"], "answer_only_accuracy": compared["a"]["accuracy"],
            "items": compared["items"], "p_value": compared["p_value"], "seconds": round(self.seconds, 1),
            "runs": [str(run.path) for run in self.runs.values()],
            "delta": compared["delta"], "delta_ci_low": compared["delta_ci_low"],
            "delta_ci_high": compared["delta_ci_high"],
            "verdict": compared["verdict"], "sentence": self.comparison.sentence,
            "report": str(self.out / "report.html"),
            "supervised_tokens": {name: run.manifest.supervised_tokens for name, run in self.runs.items()}}
        # Only with `--full` there is a third run.
        if SAME_TOKENS in self.more:
            values["same_tokens_accuracy"] = self.more[SAME_TOKENS].to_json()["a"]["accuracy"]
        return values

    def text(self) -> str:
        """The result and next commands, for people."""
        run = self.runs[WITH_STEPS].path
        # Said beside what is equal: steps are more text to learn from, which is an advantage by itself.
        tokens = ", ".join(f"{name} {run.manifest.supervised_tokens:,}" for name, run in self.runs.items())
        lines = [
            "", self.comparison.sentence,
            *(f"{name}: {comparison.sentence}" for name, comparison in self.more.items()),
            "Equal in both: problems, their order, steps, rows a step, model, seed, learning rate, tokenizer.",
            f"Not equal: supervised tokens ({tokens}).",
            f"All runs are sealed and verified. Report: {self.out / 'report.html'}  ({self.seconds:.0f} s)", "",
            "Try next:",
            f"  workings ask {shlex.quote(str(run))} \"What is 47+25?\"",
            f"  workings verify {shlex.quote(str(run))}",
            f"  workings compare {shlex.quote(str(self.runs[ANSWER_ONLY].path))} {shlex.quote(str(run))}",
            f"  workings ui {shlex.quote(str(self.out))}",
        ]
        return "\n".join(lines)


def quickstart(out: Path, overrides: Sequence[str] = (), *, seed: int = 17, full: bool = False,
               say: Callable[[str], None] = lambda _: None) -> QuickstartResult:
    """Generates data, trains with and without steps, evaluates, compares, verifies, reports.

    A quickstart that was cut short goes on: complete runs in ``out`` are used, and an unfinished one is resumed.

    Args:
        out: folder to make for everything, or that of a quickstart that was cut short.
        overrides: ``key=value`` words for the recipe of every run, e.g. ``training.steps=40``.
        seed: decides data, weights and the order of rows.
        full: train a third model on answers only, with as many supervised tokens as the one with steps.
        say: told which runs are used or resumed.

    Raises:
        RequestError: ``out`` exists, and is not this quickstart cut short.
        RecordError: a run that was just sealed does not verify.
    """
    started = time.perf_counter()
    # Loaded before data are generated: a wrong override leaves no folder behind.
    recipes = {WITH_STEPS: _recipe(WITH_STEPS, seed, "tags", overrides),
               ANSWER_ONLY: _recipe(ANSWER_ONLY, seed, "answer_only", overrides)}
    if not goes_on(out, recipes):
        make_data(out / "data", seed)
        write_recipes(out, recipes)
    for name, recipe in recipes.items():
        complete_run(out, name, recipe, say)
    runs = {name: RunRecord.open(out / "runs" / name) for name in recipes}
    if full:
        # Answers without steps have fewer supervised tokens, so the same number takes more steps.
        with_steps, answer_only = (runs[name].manifest for name in (WITH_STEPS, ANSWER_ONLY))
        steps = round(answer_only.completed_steps * with_steps.supervised_tokens / answer_only.supervised_tokens)
        complete_run(out, SAME_TOKENS, _recipe(SAME_TOKENS, seed, "answer_only",
                                               [*overrides, f"training.steps={steps}"]), say)
        runs[SAME_TOKENS] = RunRecord.open(out / "runs" / SAME_TOKENS)

    paths = {name: run.path for name, run in runs.items()}
    comparison = compare(paths[ANSWER_ONLY], paths[WITH_STEPS])
    more = {name: compare(paths[name], paths[WITH_STEPS]) for name in paths if name == SAME_TOKENS}
    atomic.write_json(out / "compare.json", comparison.to_json())
    write_report(out / "report.html", list(paths.values()), comparison)
    # The result is returned only if all of its records verify.
    verify_all(list(paths.values()))
    return QuickstartResult(out=out, runs=runs, comparison=comparison, more=more, seconds=time.perf_counter() - started)


def goes_on(out: Path, recipes: Mapping[str, LoadedRecipe]) -> bool:
    """Whether ``out`` is a quickstart with these recipes that was cut short; False if it does not exist.

    Raises `RequestError` for any other folder.
    """
    if not out.exists():
        return False
    files = {name: _recipe_file(out, name) for name in recipes}
    if not all(file.is_file() for file in files.values()) or (out / "report.html").exists():
        raise RequestError(f"--out {out}, which exists", "a folder that does not exist yet, or a quickstart that was "
                           "cut short while it trained", "another --out")
    for name, file in files.items():
        if file.read_text(encoding="utf-8") != recipes[name].written():
            raise RequestError(f"--out {out}, where a quickstart with another seed or other overrides was cut short",
                               "the same words as before, or another folder",
                               f"another --out; the recipe of before is {file}")
    return True


def write_recipes(out: Path, recipes: Mapping[str, LoadedRecipe]) -> None:
    """Writes the recipes by which `goes_on` knows a quickstart again; after its data, which are complete then."""
    (out / "recipes").mkdir(exist_ok=True)
    for name, recipe in recipes.items():
        atomic.write_text(_recipe_file(out, name), recipe.written())


def _recipe_file(out: Path, name: str) -> Path:
    return out / "recipes" / f"{name}.yaml"


def complete_run(out: Path, name: str, recipe: LoadedRecipe, say: Callable[[str], None]
                 ) -> TrainAndEvaluateResult | None:
    """Trains and evaluates a recipe at ``out/runs/NAME``, from its last checkpoint if it was cut short.

    Returns:
        The result, or None for a run that was complete before.

    Raises:
        Interrupted: it was stopped; the message says how to go on.
        RecordError: it failed.
    """
    path = out / "runs" / name
    begun = path.exists() or partial_path(path).exists()
    if (path / SEAL).is_file() and RunRecord.open(path).status == "complete" and not evaluation_is_missing(path):
        say(f"{path} is complete and is used as it is")
        return None
    if begun:
        say(f"{path} was cut short and goes on")
    # As a file: the record of each run then names a recipe that can be repeated.
    write_recipes(out, {name: recipe})
    result = train_and_evaluate(str(_recipe_file(out, name)), path, resume=begun)
    if result.training.status == "interrupted":
        raise Interrupted(f"stopped while {name} was trained; what is finished lies in {out}; to go on: the same "
                          f"command with --out {shlex.quote(str(out))}")
    if result.training.status != "complete":
        raise RecordError(f"{name}: {result.training.status}: {result.training.reason}")
    return result


def make_data(folder: Path, seed: int, *, traces: int = ADDITION_TRACES, prompts: int = 0,
              item_count: int = ADDITION_ITEMS) -> None:
    """Generates traces, held-out traces, items and one tokenizer for all runs, trained on both forms of answers.

    With ``prompts`` also this number of other problems with their answer alone.
    """
    folder.mkdir(parents=True)
    problems, items = addition.make(ADDITION_TRACES + prompts, item_count, seed)
    shown, others = problems[:traces], problems[ADDITION_TRACES:]
    # From the items, none of which is among the traces: their loss is that of unseen problems.
    held_out = addition.held_out_traces(items, seed)
    write_traces(folder / "traces.jsonl", shown)
    write_traces(folder / "held_out.jsonl", held_out)
    write_items(folder / "items.jsonl", items)
    if others:
        write_items(folder / "prompts.jsonl", (ItemRecord(
            id=trace.id, prompt=trace.prompt, expected_answer=trace.answer, section=trace.section,
            category=trace.category, difficulty=trace.difficulty) for trace in others))
    # With a tokenizer for each form, losses and numbers of tokens could not be compared.
    texts = (text for trace in shown for text in (trace.prompt, completion_text(trace, "tags")))
    train_tokenizer(texts, TRAINED_VOCABULARY).save(folder / "tokenizer")
    write_manifest(folder, generator="addition", version=addition.VERSION, seed=seed)


def _recipe(name: str, seed: int, reasoning: str, overrides: Sequence[str]) -> LoadedRecipe:
    """The shipped recipe on this quickstart's data; its paths are relative to the folder ``recipes``."""
    return load_recipe("quickstart", [
        f"name={name}", f"seed={seed}", f"data.reasoning={reasoning}", "tokenizer=../data/tokenizer",
        "data.traces=../data/traces.jsonl", "evaluation.traces=../data/held_out.jsonl",
        "evaluation.items=../data/items.jsonl", *overrides])


def verify_all(runs: list[Path]) -> None:
    """Raises `RecordError` if a record does not verify."""
    verdicts = VerificationCache.here()  # the page's badges
    for run in runs:
        before = verdicts.stamps(run)
        verification = verify(run)
        verdicts.keep_same(before, verification.to_json())
        if verification.failed:
            raise RecordError(f"{run} does not verify: " + "; ".join(
                f"{check.id}: {check.text}" for check in verification.checks if check.verdict == "failed"))


RECIPE = "quickstart"
TRACES = 100
"""Number of the quickstart's 500 traces that are used; the model is then right on one sum in ten."""
SEED = 17
PROMPTS = 1_000
"""Number of other sums, used with their answer alone; none is among the held-out items, in either order."""


def improve_quickstart(out: Path, overrides: Sequence[str] = (), *, request: ImproveRequest,
                       say: Callable[[str], None] = lambda text: None) -> ImproveResult:
    """`improve` on the quickstart's recipe with generated data.

    Args:
        out: folder for everything; an unfinished one is continued.
        overrides: ``key=value`` words for every round's recipe, e.g. ``training.steps=40``.
        request: as in `improve`; ``prompts`` is set here.
        say: as in `improve`.

    Raises:
        RequestError: as `improve`.
    """
    data = out / "data"
    words = [f"seed={SEED}", "tokenizer=data/tokenizer", "data.traces=data/traces.jsonl", "evaluation.traces=none",
             "evaluation.items=data/items.jsonl", "evaluation.samples=0", *overrides]
    # Loaded before data are generated: a wrong override leaves no folder behind.
    recipe = replace(load_recipe(RECIPE, words), base=out)
    if out.exists() and not (out / REQUEST).is_file() and {path.name for path in out.iterdir()} - {data.name}:
        raise RequestError(f"--out {out}, which exists", "a folder that does not exist yet", f"--out {out}-2")
    if not (data / "manifest.json").is_file():  # written last: data of a killed call are generated again
        shutil.rmtree(data, ignore_errors=True)
        make_data(data, SEED, traces=TRACES, prompts=PROMPTS)
    return improve(recipe, out, request=replace(request, prompts=str(data / "prompts.jsonl")), say=say)
