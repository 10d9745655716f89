"""`workings.train`: training as a Python function, from a recipe or from a few keywords with defaults."""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

from workings.config.aliases import counterpart, table
from workings.config.load import LoadedRecipe, RecipeLike, load_recipe
from workings.config.overrides import Overrides, moved_override, override_words
from workings.config.recipe import Recipe
from workings.data.batches import even_accumulation
from workings.engines.hardware_probe import accelerators
from workings.errors import RequestError
from workings.record.layout import CONFIG, GIVEN_ITEMS, GIVEN_TRACES
from workings.record.metrics import Callback
from workings.reports.trackers import RunListeners
from workings.runs.create_or_resume import load_to_resume, run_directory
from workings.runs.python_api import given
from workings.runs.python_api.run_object import Run
from workings.runs.smoke import STEPS
from workings.runs.train_and_evaluate import train_and_evaluate

MAX_LENGTH = 1024
"""Maximum number of tokens of a row."""
ANSWERS_ALONE = "answer_only"
"""Value of `data.reasoning` if no row has steps."""
QUESTIONS = "items"
"""Format of rows that are questions with expected answers. Only algorithms that sample answers can use them."""
BATCH = {"micro_batch": 4, "accumulation": 4}
"""Section `batch` for many rows."""
FINAL_SHARE = 0.1
"""Learning rate at the last step as a share of the peak: with 0 that step would change nothing."""
LEARNING_RATES = {"scratch": 1e-3, "full": 2e-5, "lora": 2e-4, "qlora": 2e-4}
"""Peak learning rate by method; adapters need a far larger one than all weights."""
Method = Literal["full", "lora", "qlora"]
IN_PYTHON = {
    "train_dataset": "data", "eval_dataset": "items", "output_dir": "out", "report_to": "track",
    "num_train_epochs": "epochs", "max_steps": "steps", "load_in_4bit": "method=\"qlora\"",
    "max_length": "data.max_length", "reward_funcs": "rewards"}
"""Arguments of other trainers' constructors and their counterpart here; `aliases.json` has the keys of recipes."""
FOUND_IN_THE_MODEL = ("tokenizer", "processing_class", "args", "peft_config")
_KEYS = {"model": "model.id", "data": "data.traces", "items": "evaluation.items", "method": "method.name",
         "steps": "training.steps", "epochs": "training.epochs", "learning_rate": "training.learning_rate",
         "rewards": "rewards"}
"""The recipe's keys for the arguments that make a recipe."""


@dataclass(frozen=True, kw_only=True)
class Keywords:
    """The arguments of `workings.train` that make a recipe; rewards mean `grpo`, unless the overrides say another."""

    model: str | Path | Mapping[str, Any]
    data: given.Rows
    items: given.Rows | None = None
    method: Method = "lora"
    steps: int = 0
    epochs: float = 0.0
    learning_rate: float = 0.0
    rewards: given.Reward | Sequence[given.Reward] = ()
    overrides: Overrides = ()


_ARGUMENTS = ("recipe", "out", *(field.name for field in fields(Keywords)), "resume", "smoke", "force", "callbacks",
              "track")


def _counterpart(name: str) -> str:
    """What to write instead of an unknown argument."""
    if name in FOUND_IN_THE_MODEL:
        return "leave it out: it comes with the model, and settings are arguments or overrides"
    row = table().get(name, {})
    key = IN_PYTHON.get(name) or row.get("key") or (name if name in Recipe.model_fields else "")
    if key in _ARGUMENTS:
        return f"{key}=…"
    if key:
        return key if "=" in key else f'overrides={{"{key}": …}}'
    if instead := row.get("instead"):
        return str(instead)
    near = get_close_matches(name, _ARGUMENTS, n=1)
    return f"did you mean {near[0]}?" if near else 'any key of a recipe: overrides={"batch.micro_batch": 2}'


@contextmanager
def keyword_recipe(keywords: Keywords) -> Iterator[LoadedRecipe]:
    """The recipe of these arguments. In this context rows that were given are files. Raises `RequestError`."""
    _check(keywords)
    with TemporaryDirectory(prefix="workings-") as folder:
        # Laid out like the run directory, so that the recipe in the run finds the run's copies.
        config = Path(folder, CONFIG).parent
        for subfolder in (config, Path(folder, GIVEN_TRACES).parent):
            subfolder.mkdir(exist_ok=True)
        traces, form = _traces(keywords, Path(folder))
        kept = [GIVEN_TRACES] if form else []
        values = _values(keywords, traces, form, Path(folder, GIVEN_TRACES))
        if keywords.items is not None:
            items = _file(keywords.items)
            if not items:
                given.write_given_items(keywords.items, Path(folder, GIVEN_ITEMS))
                items = f"../{GIVEN_ITEMS}"
                kept.append(GIVEN_ITEMS)
            values["evaluation"] = {"items": items}
        if keywords.rewards:
            entries, written = given.recipe_rewards(keywords.rewards, config, _absolute)
            values |= {"algorithm": {"name": "grpo"}, "rewards": entries}
            kept += [f"{config.name}/{name}" for name in written]
        loaded = load_recipe(values, [moved_override(word, _absolute) for word in override_words(keywords.overrides)])
        if form == QUESTIONS and loaded.recipe.algorithm.examples != "prompts":
            raise RequestError("data: rows with expected_answer have no completion to imitate",
                               "rows with steps and answer, or an algorithm that rewards answers", 'rewards=["answer"]')
        yield replace(loaded, base=config, kept=tuple(kept), chosen=(*loaded.chosen, *_chosen(values, form, loaded)))


def _chosen(values: Mapping[str, Any], form: str, loaded: LoadedRecipe) -> Iterator[str]:
    """A sentence for each setting that the rows decided, such as `batch: 2 x 1, to match the number of rows`."""
    if values["data"]["reasoning"] == ANSWERS_ALONE == loaded.recipe.data.reasoning:
        yield f"data.reasoning: {ANSWERS_ALONE}: " + (
            "completions are learned as given; data.reasoning=tags (think, hashes) splits them into steps and answer"
            if form == given.COMPLETIONS else "no row has steps, so only answers are learned")
    batch = loaded.recipe.batch
    if {"micro_batch": batch.micro_batch, "accumulation": batch.accumulation} == values["batch"] != BATCH:
        yield f"batch: {batch.micro_batch} x {batch.accumulation}, to match the number of rows"


def _traces(keywords: Keywords, folder: Path) -> tuple[str, str]:
    """Value of `data.traces`, and the format of given rows; without a format for a file or a shipped set."""
    if named := _file(keywords.data):
        return named, ""
    rows = given.rows_of(keywords.data, "data")
    if "expected_answer" in rows[0] and "steps" not in rows[0]:
        given.write_given_items(rows, folder / GIVEN_TRACES)
        return f"../{GIVEN_TRACES}", QUESTIONS
    reasoning = dict(_pairs(keywords.overrides)).get("data.reasoning", ANSWERS_ALONE)
    return f"../{GIVEN_TRACES}", given.write_given_traces(rows, folder / GIVEN_TRACES,
                                                    split_completions=reasoning != ANSWERS_ALONE)


def _values(keywords: Keywords, traces: str, form: str, written: Path) -> dict[str, Any]:
    """The recipe's sections, without items and rewards; ``traces`` and ``form`` as `_traces` returned them.

    ``written``: file of the given rows.
    """
    if isinstance(keywords.model, Mapping):
        model = dict(keywords.model)
    else:
        # Absolute, because a recipe's paths start from its own folder, which is a temporary one here.
        model = {"source": "pretrained", "id": _absolute(str(keywords.model))}
    scratch = model.get("source") == "scratch"
    base = re.sub(r"[^a-z0-9._-]+", "-", Path(str(model.get("id", "scratch"))).name.lower()).strip("-._") or "model"
    reasoning, batch = _for_rows(form, written) if form not in ("", QUESTIONS) else ("tags", BATCH)
    values: dict[str, Any] = {"name": f"{base}-{keywords.method}", "engine": "auto", "model": model}
    if scratch:
        values["tokenizer"] = "train"
    values |= {
        "data": {"traces": traces, "template": "gemma" if scratch else "tokenizer", "reasoning": reasoning,
                 "max_length": MAX_LENGTH},
        "method": {"name": keywords.method}, "batch": batch, "training": _training(keywords, scratch),
        "optimizer": {"name": "adamw", "clip_norm": 1.0}, "memory": {"remat": "layer", "loss_chunk": 256}}
    if algorithm := given.algorithm_for(form):
        values["algorithm"] = {"name": algorithm}
    if not scratch:
        values["precision"] = {"compute": "auto"}
        # Updates are far smaller than the spacing of bf16, so full fine-tuning uses stochastic rounding.
        if keywords.method == "full" and accelerators():
            values["precision"] |= {"parameters": "bf16", "rounding": "stochastic"}
    return values


def _for_rows(form: str, written: Path) -> tuple[str, dict[str, int]]:
    """Value of `data.reasoning` and section `batch` that suit the given rows."""
    # Only at newlines: `splitlines` also splits at characters that JSON does not escape.
    lines = [line for line in written.read_text("utf-8").split("\n") if line]
    reasoning = "tags" if any(json.loads(line).get("steps") for line in lines) else ANSWERS_ALONE
    # A preference pair, or a completion with a verdict, is two rows.
    rows = (2 if given.algorithm_for(form) else 1) * len(lines)
    micro_batch = min(BATCH["micro_batch"], rows)
    return reasoning, {"micro_batch": micro_batch,
                       "accumulation": even_accumulation(rows, micro_batch, BATCH["accumulation"])}


def _training(keywords: Keywords, scratch: bool) -> dict[str, Any]:
    values: dict[str, Any] = {}
    # A constant learning rate has no end value.
    if ("training.schedule", "constant") not in _pairs(keywords.overrides):
        values["final_share"] = FINAL_SHARE
    values |= {name: value for name in ("steps", "epochs") if (value := getattr(keywords, name))}
    usual = LEARNING_RATES.get("scratch" if scratch else keywords.method, 1e-4)
    return values | {"learning_rate": keywords.learning_rate or usual}


def _check(keywords: Keywords) -> None:
    """Raises `RequestError` for arguments that make no recipe, in terms of the arguments."""
    if not isinstance(keywords.model, str | Path | Mapping):
        raise RequestError(f"model is an object of type {type(keywords.model).__name__}",
                           "a Hub id, a folder of weights, or a recipe's section `model`",
                           'model.save_pretrained("FOLDER"), the tokenizer too, and model="FOLDER"')
    if keywords.method not in get_args(Method):
        near = get_close_matches(str(keywords.method).lower(), get_args(Method), n=1)
        proposal = f'method="{near[0]}"' if near else f'overrides={{"algorithm.name": "{keywords.method}"}}'
        raise RequestError(f"method {keywords.method!r} is unknown", f"one of {', '.join(get_args(Method))}",
                           counterpart(str(keywords.method)) or proposal)
    if keywords.steps and keywords.epochs:
        raise RequestError(f"steps={keywords.steps} and epochs={keywords.epochs} are both given", "one of the two",
                           "leave one of them out")
    elsewhere = any(key.startswith("training") for key, _ in _pairs(keywords.overrides))
    if not keywords.steps and not keywords.epochs and not elsewhere:
        raise RequestError("neither steps nor epochs are given", "one of the two", "steps=100, or epochs=1")


def _pairs(overrides: Overrides) -> list[tuple[str, Any]]:
    """Keys with their values; values of ``key=value`` words are texts."""
    if isinstance(overrides, Mapping):
        return list(overrides.items())
    return [(word.partition("=")[0], word.partition("=")[2]) for word in overrides]


def _file(data: given.Rows) -> str:
    """The file or shipped set that was named; empty where rows were given."""
    if not isinstance(data, str | Path):
        return ""
    name = _absolute(str(data))
    # A name without a suffix may be a shipped set. A missing file is reported at its path.
    return str(Path(name).absolute()) if Path(name).suffix else name


def _absolute(name: str) -> str:
    """The absolute path of a file or folder that exists here; any other name as it is."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name


def train(recipe: RecipeLike | None = None, out: str | Path | None = None, overrides: Overrides = (), *,
          model: str | Path | Mapping[str, Any] | None = None, data: given.Rows | None = None,
          items: given.Rows | None = None, method: Literal["full", "lora", "qlora"] | None = None, steps: int = 0,
          epochs: float = 0.0, learning_rate: float = 0.0, rewards: given.Reward | Sequence[given.Reward] = (),
          resume: bool = False, smoke: bool | int = False, force: bool = False, callbacks: Sequence[Callback] = (),
          track: str | Sequence[str] = (), **unknown: Any) -> Run:
    """Trains a model, seals the record, and evaluates the model before and after.

    Either a recipe, or ``model`` and ``data``:

        workings.train("smoke-tiny", "runs/s", {"training.steps": 4})
        workings.train(model="Qwen/Qwen3-0.6B", data=rows, method="lora", steps=100)

    Args:
        recipe: a file, a shipped recipe's name, or sections and keys as a dict.
        out: the run directory; it must not exist (with ``resume``: a run that did not finish). By default `runs/NAME`,
            or with the next free number.
        overrides: any key of the recipe, dotted: ``{"training.learning_rate": 1e-4}``; or ``key=value`` words.
        model: a Hub id, a folder of weights, or the recipe's section `model`.
        data: a file, or rows: a list of dicts, a pandas frame, a `datasets.Dataset`. Rows are kept in the run.
        items: questions with expected answers, as a file or rows; for the evaluation before and after training.
        method: which weights are trained; `lora` if not given.
        steps: updates; or
        epochs: passes over all rows.
        learning_rate: its peak; the default depends on the method.
        rewards: what completions earn; the model then learns from them. Each is a shipped reward's name, an entry of
            the recipe's section `rewards`, or a function ``(prompts, completions, **columns)`` that returns a list of
            numbers. The file of an imported function is named with its digest; the source of any other function is
            kept in the run, and must need nothing around it.
        resume: continue a killed, interrupted or failed run after its last checkpoint; with a recipe and without
            ``overrides``, with those that it was started with.
        smoke: a short run with a tiny model of the same architecture; a number: its steps.
        force: run even if the plan says that it does not fit; this is recorded.
        callbacks: each is called with a step's metrics when the step is done; if one returns `False`, the run saves a
            checkpoint and is sealed as interrupted.
        track: tracker, or trackers, that get each step: `tensorboard`, `wandb`, `trackio`, `mlflow`.
        unknown: any other argument is refused; those of other trainers with their counterpart here.

    Returns:
        The run: a notebook shows its report, and it has `metrics`, `ask`, `evaluate`, `compare`, `recipe`, `command`.

    Raises:
        RequestError: the request is wrong; nothing was changed.
        DoesNotFit: the step needs more memory than there is; the message names the nearest plan that fits.
    """
    if unknown:
        raise RequestError(f"workings.train does not take {', '.join(unknown)}",
                           f"arguments of workings.train: {', '.join(_ARGUMENTS)}",
                           "; ".join(map(_counterpart, unknown)))
    listeners = RunListeners([track] if isinstance(track, str) else track, _say, callbacks)
    small = STEPS if smoke is True else int(smoke)

    def run(loaded: LoadedRecipe) -> Run:
        name = f"{loaded.recipe.name}-smoke" if small else loaded.recipe.name
        path = Path(out) if out is not None else run_directory(name, resume=resume)
        result = train_and_evaluate(loaded, path, resume=resume, smoke=small, force=force, listeners=listeners)
        return Run(path=path, result=result)

    if recipe is not None:
        _refuse_both({"model": model, "data": data, "items": items, "method": method, "steps": steps, "epochs": epochs,
                      "learning_rate": learning_rate, "rewards": rewards or None})
        return run(load_to_resume(recipe, overrides, Path(out), _say) if resume and out is not None
                   else load_recipe(recipe, overrides))
    if model is None or data is None:
        alone = next((name for name, value in (("model", model), ("data", data)) if value is not None), "")
        raise RequestError(f"{alone} is given alone" if alone else "train needs a recipe",
                           "a recipe, or model and data",
                           'workings.train(model="Qwen/Qwen3-0.6B", data=rows, steps=100)')
    # Around the whole run, because rows are in a temporary folder until the run has its own copy.
    with keyword_recipe(Keywords(model=model, data=data, items=items, method=method or "lora", steps=steps,
                                 epochs=epochs, learning_rate=learning_rate, rewards=rewards,
                                 overrides=overrides)) as loaded:
        return run(loaded)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _refuse_both(keywords: Mapping[str, Any]) -> None:
    """Raises `RequestError` if any of these arguments is given, with the overrides to write instead."""
    overrides: dict[str, Any] = {}
    names = []
    for name, value in keywords.items():
        is_plain = isinstance(value, str | Path | int | float)
        # Only numbers are compared with 0: comparing a data frame gives a frame.
        if value is None or (is_plain and value == 0):
            continue
        names.append(name)
        replacement = [{"scorer": "FILE.py:FUNCTION"}] if name == "rewards" else "FILE"
        overrides[_KEYS[name]] = value if is_plain and name != "rewards" else replacement
    if names:
        raise RequestError(f"a recipe does not go with {', '.join(names)}",
                           "one of the two, because a recipe has all settings",
                           f"overrides={json.dumps(overrides, default=str)}; or no recipe, with model and data")
