"""The tiny quickstart, from end to end on a CPU: does a tiny model add better when it writes the carry?"""

import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from workings.config.load import LoadedRecipe, load_recipe
from workings.data.generate import MANIFEST, write_manifest
from workings.data.generators import addition
from workings.data.traces import completion_text, write_items, write_traces
from workings.evaluation.comparison.compare import compare
from workings.inputs.datasets import ADDITION_ITEMS, ADDITION_TRACES
from workings.inputs.resolve import TRAINED_VOCABULARY
from workings.models.tokenizer_training import train_tokenizer
from workings.record.reader import RunRecord
from workings.runs.quickstarts.folder import QuickstartAnswer, begin, complete_run, report
from workings.runs.train_and_evaluate import difference_json

WITH_STEPS = "with-steps"
ANSWER_ONLY = "answer-only"


def tiny_quickstart(out: Path, overrides: Sequence[str] = (), *, seed: int = 17,
                    say: Callable[[str], None] = lambda _: None) -> QuickstartAnswer:
    """Generates data, trains with and without steps, evaluates, compares, verifies, reports; as `real_quickstart`."""
    started = time.perf_counter()
    # Before generating data, so that a wrong override leaves no folder.
    recipes = {name: tiny_recipe(name, seed, form, overrides)
               for name, form in ((WITH_STEPS, "tags"), (ANSWER_ONLY, "answer_only"))}
    begin(out, recipes, lambda folder: make_data(folder, seed))
    for name, recipe in recipes.items():
        complete_run(out, name, recipe, say)
    with_steps, answer_only = out / "runs" / WITH_STEPS, out / "runs" / ANSWER_ONLY
    paths = [with_steps, answer_only]
    comparison = compare(answer_only, with_steps)
    compared = comparison.to_json()
    report(out, compared, paths, comparison, paths)
    run, other = shlex.quote(str(with_steps)), shlex.quote(str(answer_only))
    # Steps are more text to learn from, which is an advantage by itself.
    tokens = {path.name: RunRecord.open(path).manifest.supervised_tokens for path in paths}
    values = {
        "traces_accuracy": compared["b"]["accuracy"], "answer_only_accuracy": compared["a"]["accuracy"],
        "items": compared["items"], "runs": [str(path) for path in paths], **difference_json(comparison),
        "sentence": comparison.sentence, "supervised_tokens": tokens}
    return QuickstartAnswer.of(
        values, [comparison.sentence,
                 "Equal in both: problems, their order, steps, rows per step, model, seed, learning rate, tokenizer.",
                 f"Not equal: supervised tokens ({', '.join(f'{name} {count:,}' for name, count in tokens.items())})."],
        out, started, f"ask {run} \"What is 47+25?\"", f"verify {run}", f"compare {other} {run}",
        f"ui {shlex.quote(str(out))}")


def make_data(folder: Path, seed: int, *, traces: int = ADDITION_TRACES, prompts: int = 0) -> None:
    """Generates traces, held-out traces, items, other ``prompts``, and a tokenizer trained on both forms of answers."""
    folder.mkdir(parents=True)
    problems, items = addition.make(ADDITION_TRACES + prompts, ADDITION_ITEMS, seed)
    shown, others = problems[:traces], problems[ADDITION_TRACES:]
    write_traces(folder / "traces.jsonl", shown)
    write_traces(folder / "held_out.jsonl", items)
    write_items(folder / "items.jsonl", items)
    if others:
        write_items(folder / "prompts.jsonl", others)
    # One tokenizer, so that losses and numbers of tokens are comparable.
    texts = (text for trace in shown for text in (trace.prompt, completion_text(trace, "tags")))
    train_tokenizer(texts, TRAINED_VOCABULARY).save(folder / "tokenizer")
    write_manifest(folder / MANIFEST, folder.rglob("*.json*"), generator="addition", version=addition.VERSION,
                   seed=seed)


def tiny_recipe(name: str, seed: int, reasoning: str, overrides: Sequence[str]) -> LoadedRecipe:
    """The shipped recipe on this quickstart's data; its paths are relative to the folder ``recipes``."""
    return load_recipe("quickstart", [
        f"name={name}", f"seed={seed}", f"data.reasoning={reasoning}", "tokenizer=../data/tokenizer",
        "data.traces=../data/traces.jsonl", "evaluation.traces=../data/held_out.jsonl",
        "evaluation.items=../data/items.jsonl", *overrides])
