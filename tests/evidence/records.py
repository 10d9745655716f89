"""Records of every kind, each as files in memory, to be walked over and falsified.

Of a way of learning the recipe is that of `tests/runs/killed.py`: as small as a transformer can be.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import kept_folders
from tests.engines.tiny import request, tiny_shape
from tests.evidence.packs import EXAMPLE, two_runs
from tests.evidence.rewarded import EPISODES_OF, NEW_TOKENS, Elsewhere, Guesses, Later, rewarded_run
from tests.evidence.walk import ScoringHere, Verification, files_of, resealed, write_files
from tests.record import synthetic
from tests.runs import distilled, killed, rewarded
from tests.runs.pinned import pin_code_version
from tests.runs.runs_helpers import OTHER_PACKAGE, forty_additions, write_recipe
from tests.samples.making import samples_unit
from workings.data.traces import write_items, write_traces
from workings.engines.jax.engine import JaxEngine
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.settings import EvaluationSettings
from workings.models.tokenizer_training import train_tokenizer
from workings.publish.pack import pack
from workings.record import attempts
from workings.record.canonical import line
from workings.record.reader import RunRecord
from workings.runs.train import train
from workings.runs.train_and_evaluate import train_and_evaluate
from workings.scoring.items import read_items

Files = dict[str, bytes]
Record = tuple[Files, Verification]
"""Files, and what `verify` reports about them."""
RecordOf = Callable[[str], Record]
ONE_EACH = {"name": "dapo", "group": 4, "max_new_tokens": NEW_TOKENS, "updates": 1, "max_resamples": 3}
ONE_UPDATE = {"group": 4, "max_new_tokens": NEW_TOKENS, "updates": 1}
LORA = """name: lora
seed: 5
engine: jax
device: cpu
model: {source: pretrained, id: base}
tokenizer: model
method: {name: lora, rank: 4, alpha: 8, target_modules: [q_proj, v_proj, down_proj]}
data: {traces: traces.jsonl, template: plain, max_length: 64, buckets: [64]}
batch: {micro_batch: 4, accumulation: 1}
training: {steps: 4, learning_rate: 0.01, schedule: constant}
optimizer: {name: adamw}
checkpoint: {every_steps: 2, keep_last: 2}
evaluation: {items: items.jsonl, max_new_tokens: 4, batch_size: 4}
"""


def small_run(folder: Path, name: str = "a", *words: str) -> Path:
    """A run of the small engine with its evaluation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OTHER_PACKAGE))
        pin_code_version(patch)
        run = train_and_evaluate(str(write_recipe(folder / "asked")), folder / "runs" / name, words).training.run
    sys.modules.pop("other_engine", None)
    return run


def run(folder: Path) -> Files:
    """A run of the small engine with its evaluation, that of its untrained model, and its list."""
    small_run(folder)
    return files_of(folder / "runs")


def rewards(folder: Path) -> Files:
    """A run that learned from two rewards, with two updates a rollout."""
    train(str(killed.write_rewarded(folder)), folder / "runs" / "a", killed.DYNAMIC)
    return files_of(folder / "runs")


def pairs(folder: Path) -> Files:
    """A run that learned from preference pairs."""
    train(str(killed.write_pairs(folder)), folder / "runs" / "a", ["training.learning_rate=0.01"])
    return files_of(folder / "runs")


def teacher(folder: Path) -> Files:
    """A run that learned from a teacher."""
    kept_folders.copy(_taught, folder, "taught")
    return files_of(folder / "runs")


def _taught(folder: Path) -> None:
    train(str(distilled.write(folder, ["training.steps=2"])), folder / "runs" / "student", ["training.steps=2"])


def top_tokens(folder: Path) -> Files:
    """A run that learned from a teacher's top tokens of traces."""
    recipe = distilled.write(folder, ["training.steps=2"], on_traces=True)
    train(str(recipe), folder / "runs" / "student", ["training.steps=2"])
    return files_of(folder / "runs")


def held_out(folder: Path) -> Files:
    """A run with rewards whose held-out items are scored by `exact`."""
    train_and_evaluate(str(rewarded.write(folder / "asked")), folder / "runs" / "a", ["evaluation.scorer=exact"])
    return files_of(folder / "runs")


def adapters(folder: Path) -> Files:
    """A LoRA run on weights from a folder, with its evaluation and that of those weights."""
    base = folder / "asked" / "base"
    base.mkdir(parents=True)
    traces, items = forty_additions()
    write_traces(folder / "asked/traces.jsonl", traces)
    write_items(folder / "asked/items.jsonl", items[:4])
    tokenizer = train_tokenizer((trace.prompt for trace in traces), 512)
    tokenizer.save(base)
    engine = JaxEngine.open(request(tiny_shape(vocab=tokenizer.vocab_size)))
    engine.export(engine.init(0), base)
    recipe = folder / "asked" / "recipe.yaml"
    recipe.write_text(LORA)
    train_and_evaluate(str(recipe), folder / "runs" / "straight")
    return files_of(folder / "runs")


def samples(folder: Path) -> Files:
    """A unit of samples, with what was kept of them and pairs."""
    return {f"drawn/{name}": data for name, data in files_of(samples_unit(folder / "drawn")).items()}


def small_pack(folder: Path) -> Files:
    """A pack of two runs without an engine, one of them with a note and a signature."""
    runs = two_runs(folder / "runs")
    pack([runs / "a", runs / "b"], folder / "pack.zip")
    return files_of(folder / "pack.zip")


def _that_fails(folder: Path, *, resume: bool) -> Files:
    """A run of the small engine whose eighth step fails; with ``resume`` it resumes from the sealed record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(OTHER_PACKAGE))
        pin_code_version(patch)
        recipe = str(write_recipe(folder / "asked"))
        patch.setenv("UNIGRAM_NAN_AT", "8")
        train(recipe, folder / "runs" / "a")
        patch.delenv("UNIGRAM_NAN_AT")
        if resume:
            train(recipe, folder / "runs" / "a", resume=True)
    sys.modules.pop("other_engine", None)
    return files_of(folder / "runs")


def failed(folder: Path) -> Files:
    """A run that failed."""
    return _that_fails(folder, resume=False)


def resumed(folder: Path) -> Files:
    """A run that failed, and the one that resumes from it."""
    return _that_fails(folder, resume=True)


def predictions(folder: Path) -> Files:
    """An evaluation of predictions from elsewhere: two samples of each item, one item without, one unknown id."""
    write_items(folder / "items.jsonl", forty_additions()[1])
    items = read_items(folder / "items.jsonl")
    texts = [{"id": item.id, "sample": sample, "completion": f"<answer>{item.expected_answer if sample else 7}</answer>"
              } for item in items[:-1] for sample in range(2)]
    (folder / "predictions.jsonl").write_text("".join(
        json.dumps(each) + "\n" for each in [*texts, {"id": "of no item", "completion": "7"}]))
    evaluate_predictions(folder / "predictions.jsonl", items, folder / "unit",
                         settings=EvaluationSettings(aggregate="pass"))
    return {f"elsewhere/{name}": data for name, data in files_of(folder / "unit").items()}


ITEMS = [
    {"id": "a", "prompt": "How long?", "expected_answer": "1.50", "tolerance": 0.1, "section": "core"},
    {"id": "b", "prompt": "Who?", "expected_answer": "Eiffel Tower", "aliases": ["La tour Eiffel"], "cluster": "x"},
    {"id": "c", "prompt": "How many?", "expected_answer": 12, "cluster": "x", "source": {"page": 9, "line": 3.5}},
    {"id": "d", "prompt": "How much?", "expected_answer": "7"},
    {"id": "e", "prompt": "Why?", "expected_answer": "because"},
]
COMPLETIONS = [
    {"id": "a", "completion": "<answer>1.55</answer>"}, {"id": "b", "completion": "#### la tour Eiffel"},
    {"id": "c", "completion": "6*2=12\nThe answer is 12."}, {"id": "d", "completion": "x" * 3000},
]


def scored_completions(folder: Path, form: str) -> Path:
    """An evaluation of completions from elsewhere, one too long and one missing."""
    for name, rows in (("items.jsonl", ITEMS), ("predictions.jsonl", COMPLETIONS)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    evaluate_predictions(folder / "predictions.jsonl", read_items(folder / "items.jsonl"), folder / "unit",
                         settings=EvaluationSettings(form=form, max_completion_chars=2000))
    return folder / "unit"


def completions(folder: Path) -> Files:
    """The same."""
    return {f"unit/{name}": data for name, data in files_of(scored_completions(folder, "any")).items()}


def small(folder: Path) -> Files:
    """A run without an engine, with an evaluation."""
    synthetic.add_evaluation(synthetic.sealed_run(folder / "tiny"))
    return files_of(folder)


def chained(folder: Path) -> Files:
    """A run as the third of four starts, its first event naming its line."""
    run = synthetic.sealed_run(folder / "tiny")
    digest = RunRecord.open(run).manifest.config_digest
    (folder / "attempts.jsonl").unlink()
    lines = [attempts.append(folder, {"run": name, **more}) for name, more in (
        ("before", {}), ("between", {}), ("tiny", {"config_digest": digest}), ("after", {}))]
    files = files_of(folder)
    events = [json.loads(text) for text in files["tiny/train/events.jsonl"].splitlines()]
    files["tiny/train/events.jsonl"] = b"".join(map(line, [events[0] | {"attempt": lines[2]}, *events[1:]]))
    return resealed(files)


def rewarded_texts(folder: Path) -> Files:
    """A run that learned from rewards of invented texts."""
    rewarded_run(folder / "tiny")
    return files_of(folder)


def one_update(folder: Path) -> Files:
    """The same with one update a rollout."""
    rewarded_run(folder / "tiny", algorithm={"name": "grpo", **ONE_UPDATE})
    return files_of(folder)


def sampled_elsewhere(folder: Path) -> Files:
    """The same, sampled by another program."""
    rewarded_run(folder / "tiny", Elsewhere, algorithm=ONE_EACH, sampler={"name": "vllm", "ahead": False})
    return files_of(folder)


def sampled_ahead(folder: Path) -> Files:
    """The same, sampled during the update before."""
    rewarded_run(folder / "tiny", Later, algorithm=ONE_EACH, sampler={"name": "vllm", "ahead": True})
    return files_of(folder)


def episodes(folder: Path) -> Files:
    """A run that learned from episodes of several turns."""
    rewarded_run(folder / "tiny", Guesses, **EPISODES_OF)
    return files_of(folder)


def quickstart(folder: Path) -> Files:
    """The runs of this repository, of the JAX engine."""
    del folder
    return files_of(EXAMPLE)


def kept(folder: Path) -> Files:
    """One of them, without its evaluation."""
    return {name.removeprefix("runs/"): data for name, data in quickstart(folder).items()
            if name.startswith("runs/with-steps/") and "/eval/" not in name}


OTHERS: dict[str, Callable[[Path], Files]] = {each.__name__: each for each in (
    rewards, pairs, teacher, adapters, samples, small_pack, failed, resumed, predictions)}
"""Real records of the other ways of learning, and of what is made of runs."""
ALL = OTHERS | {each.__name__: each for each in (
    run, top_tokens, held_out, small, chained, rewarded_texts, one_update, sampled_elsewhere, sampled_ahead, episodes,
    completions, quickstart, kept)}


def record(kind: str, place: Path) -> Files:
    """The files of a record, which is made once for all workers of a session."""
    def make(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            write_files(ALL[kind](Path(scratch)), folder)
    return files_of(kept_folders.copy(make, place, f"record-{kind}"))


def tell(runs: Path, fake: Callable[[Files], object], *units: str) -> None:
    """A fake about the units of a folder, or about those whose places begin so, sealed again."""
    files = {name: data for name, data in files_of(runs).items() if name.startswith(units or "") or "/" not in name}
    fake(files)
    write_files(resealed(files), runs)


def score_here(patch: Any) -> None:
    """Score without its own process: a walk verifies a record hundreds of times."""
    patch.setattr("workings.evidence.verify.checks.evaluations.ScoringProcess", ScoringHere)
