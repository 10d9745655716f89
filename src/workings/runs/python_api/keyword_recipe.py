"""A recipe from a few keywords: what a person chooses, and for the rest what suits most fine-tuning."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, get_args

from workings.config.aliases import table
from workings.config.load import LoadedRecipe, load_recipe
from workings.config.overrides import Overrides, moved_override, override_words
from workings.config.recipe import Recipe
from workings.engines.hardware_probe import accelerators
from workings.errors import RequestError
from workings.record.layout import CONFIG, GIVEN_ITEMS, GIVEN_TRACES
from workings.runs.python_api.python_rows import Rows, holds_pairs, rows_of, write_given_items, write_given_traces

MAX_LENGTH = 1024
"""Tokens of a row at most."""
BUCKETS = (64, 128, 256, 512)
"""Lengths that batches of shorter rows are padded to: to the longest one most rows would be padding."""
ANSWERS_ALONE = "answer_only"
"""Value of `data.reasoning` where no row has steps."""
QUESTIONS = "items"
"""Format of rows that are questions with expected answers, which learning from rewards asks."""
FINAL_SHARE = 0.1
"""Of the peak, at the last step: with 0 that step would change nothing, and it may be the only one."""
LEARNING_RATES = {"scratch": 1e-3, "full": 2e-5, "lora": 2e-4, "qlora": 2e-4}
"""Peak learning rate of a method; adapters take far more than all weights do."""


Method = Literal["full", "lora", "qlora"]


@dataclass(frozen=True, kw_only=True)
class Keywords:
    """What is asked for in so many words."""

    model: str | Path | Mapping[str, Any]
    """A Hub id, a folder of weights, or the recipe's section `model`."""
    data: Rows
    """What to learn from."""
    items: Rows | None = None
    """Questions with expected answers, that the model is asked before and after."""
    method: Method = "lora"
    steps: int = 0
    """Updates; 0: epochs or the overrides say."""
    epochs: float = 0.0
    """Times that every row is learned from; 0: steps or the overrides say."""
    learning_rate: float = 0.0
    """Peak learning rate; 0: by the method."""
    overrides: Overrides = ()
    """Any other key of a recipe."""


_ARGUMENTS = ("recipe", "out", *(field.name for field in fields(Keywords)), "resume", "smoke", "force", "callbacks",
              "track", "notify")


IN_PYTHON = {
    "train_dataset": "data", "eval_dataset": "items", "output_dir": "out", "report_to": "track",
    "num_train_epochs": "epochs", "max_steps": "steps", "load_in_4bit": "method=\"qlora\"",
    "max_length": "data.max_length"}
"""What words of other trainers' constructors are here, where `aliases.json` says it for recipes alone."""
FOUND_IN_THE_MODEL = ("tokenizer", "processing_class", "args", "peft_config")


def refuse_unknown(words: Mapping[str, Any]) -> None:
    """Refuse arguments that `workings.train` does not have, and say what they are here.

    Raises:
        RequestError: there is one.
    """
    for name, value in words.items():
        plain = isinstance(value, str | int | float)
        raise RequestError(f"{name}={value!r}" if plain else f"{name}: a {type(value).__name__}",
                           f"arguments of workings.train: {', '.join(_ARGUMENTS)}",
                           _what_it_is_here(name, repr(value) if plain else "…"))


def _what_it_is_here(name: str, value: str) -> str:
    if name in FOUND_IN_THE_MODEL:
        return "leave it out: it comes with the model, and settings are arguments or overrides"
    row = table().get(name, {})
    key = IN_PYTHON.get(name) or row.get("key", name if name in Recipe.model_fields else "")
    if key and ("." in key or key not in _ARGUMENTS):
        return key if "=" in key else f'overrides={{"{key}": {value}}}'
    if key:
        return f"{key}={value}"
    near = get_close_matches(name, _ARGUMENTS, n=1)
    return row.get("instead") or (f"did you mean {near[0]}?" if near else
                                  'any key of a recipe: overrides={"batch.micro_batch": 2}')


@contextmanager
def keyword_recipe(asked: Keywords) -> Iterator[LoadedRecipe]:
    """The recipe, with the rows that were given as files as long as the context lasts.

    Raises:
        RequestError: rows that are none, or keys that do not go together.
    """
    _check_model_and_method(asked)
    _check_length(asked)
    with TemporaryDirectory(prefix="workings-") as folder:
        # Laid out as the run directory will be, so that the recipe in the run finds the run's own copies.
        config = Path(folder, CONFIG).parent
        for place in (config, Path(folder, GIVEN_TRACES).parent):
            place.mkdir(exist_ok=True)
        traces, form = _traces(asked, Path(folder))
        kept = [GIVEN_TRACES] if form else []
        values = _values(asked, traces, form, Path(folder), kept)
        # Absolute, because a recipe's paths begin in its own folder, and this one has a temporary one.
        loaded = load_recipe(values, [moved_override(word, lambda name: _existing(name) or name)
                                      for word in override_words(asked.overrides)])
        if form == QUESTIONS and not loaded.recipe.uses_rollouts:
            raise RequestError("data: rows with expected_answer, of which nothing can be imitated",
                               "rows with steps and answer, or an algorithm that rewards answers",
                               'overrides={"algorithm.name": "grpo", "rewards": [{"scorer": "answer"}]}')
        chosen = [f"data.reasoning: {ANSWERS_ALONE}: no row has steps, so answers alone are learned"] if (
            values["data"]["reasoning"] == ANSWERS_ALONE == loaded.recipe.data.reasoning) else []
        yield replace(loaded, base=config, kept=tuple(kept), chosen=(*loaded.chosen, *chosen))


def _traces(asked: Keywords, folder: Path) -> tuple[str, str]:
    """What `data.traces` names, and the format of the rows that were given; empty for a file or a shipped set."""
    if named := _file(asked.data, "traces"):
        return named, ""
    rows = rows_of(asked.data, "data")
    if "expected_answer" in rows[0] and "steps" not in rows[0]:
        write_given_items(rows, folder / GIVEN_TRACES)
        return f"../{GIVEN_TRACES}", QUESTIONS
    return f"../{GIVEN_TRACES}", write_given_traces(rows, folder / GIVEN_TRACES)


def _values(asked: Keywords, traces: str, form: str, folder: Path, kept: list[str]) -> dict[str, Any]:
    model: dict[str, Any] = dict(asked.model) if isinstance(asked.model, Mapping) else {
        # Absolute, because a recipe's paths begin in its own folder, and this one has a temporary one.
        "source": "pretrained", "id": _existing(str(asked.model)) or str(asked.model)}
    scratch = model.get("source") == "scratch"
    on_accelerator = bool(accelerators())
    reasoning = _reasoning(folder / GIVEN_TRACES if form not in ("", QUESTIONS) else None)
    values: dict[str, Any] = {
        "name": _name(model, asked.method), "engine": "auto", "model": model,
        **({"tokenizer": "train"} if scratch else {}),
        "data": {"traces": traces, "template": "gemma" if scratch else "tokenizer",
                 "reasoning": reasoning, "max_length": MAX_LENGTH, **_buckets(asked.overrides)},
        "method": {"name": asked.method}, "batch": {"micro_batch": 4, "accumulation": 4},
        "training": {**({} if _is_constant(asked.overrides) else {"final_share": FINAL_SHARE}),
                     **({"steps": asked.steps} if asked.steps else {}),
                     **({"epochs": asked.epochs} if asked.epochs else {}),
                     # A method that does not exist needs none: the recipe is refused, and those that do are named.
                     "learning_rate": asked.learning_rate or LEARNING_RATES.get(
                         "scratch" if scratch else asked.method, 1e-4)},
        "optimizer": {"name": "adamw", "clip_norm": 1.0},
        "memory": {"remat": "layer", "loss_chunk": 256}}
    if holds_pairs(form):
        values["algorithm"] = {"name": "dpo"}
    if on_accelerator and not scratch:
        # An update is far smaller than a step of bf16, so full fine-tuning rounds at random.
        values["precision"] = {"parameters": "bf16", "compute": "bf16",
                               **({"rounding": "stochastic"} if asked.method == "full" else {})}
    if asked.items is not None:
        items = _file(asked.items, "items")
        if not items:
            write_given_items(asked.items, folder / GIVEN_ITEMS)
            items = f"../{GIVEN_ITEMS}"
            kept.append(GIVEN_ITEMS)
        values["evaluation"] = {"items": items}
    return values


def _check_model_and_method(asked: Keywords) -> None:
    if not isinstance(asked.model, str | Path | Mapping):
        raise RequestError(f"model: an object of type {type(asked.model).__name__}",
                           "a Hub id, a folder of weights, or a recipe's section `model`",
                           'model.save_pretrained("FOLDER"), the tokenizer too, and model="FOLDER"')
    if asked.method not in get_args(Method):
        near = get_close_matches(str(asked.method).lower(), get_args(Method), n=1)
        raise RequestError(f"method: {asked.method!r}", f"one of {', '.join(get_args(Method))}",
                           f'method="{near[0]}"' if near else f'overrides={{"algorithm.name": "{asked.method}"}}')


def _check_length(asked: Keywords) -> None:
    """In the words of the call: what the recipe's reader would say names a recipe that nobody wrote."""
    if asked.steps and asked.epochs:
        raise RequestError(f"steps={asked.steps} and epochs={asked.epochs}", "one of the two", "leave one of them out")
    elsewhere = any(key.startswith("training") for key, _ in _pairs(asked.overrides))
    if not asked.steps and not asked.epochs and not elsewhere:
        raise RequestError("neither steps nor epochs", "one of the two", "steps=100, or epochs=1")


def _is_constant(overrides: Overrides) -> bool:
    """Whether a constant learning rate is asked for, which has no end value that could be chosen."""
    return ("training.schedule", "constant") in _pairs(overrides)


def _buckets(overrides: Overrides) -> dict[str, list[int]]:
    """Lengths below the longest row; none where something else is asked for that does not go with them."""
    asked = dict(_pairs(overrides))
    if asked.keys() & {"data", "data.packing", "data.buckets"}:
        return {}
    try:
        longest = int(asked.get("data.max_length", MAX_LENGTH))
    except (TypeError, ValueError):  # the recipe is refused, and says what it may be
        longest = MAX_LENGTH
    return {"buckets": [length for length in BUCKETS if length < longest]}


def _pairs(overrides: Overrides) -> list[tuple[str, Any]]:
    """Keys with their values, which in words are texts."""
    if isinstance(overrides, Mapping):
        return list(overrides.items())
    return [(word.partition("=")[0], word.partition("=")[2]) for word in overrides]


def _file(data: Rows, name: str) -> str:
    """The file or shipped set that was named; empty where rows were given."""
    if not isinstance(data, str | Path):
        return ""
    # A name without an ending may be that of a shipped set. A file that does not exist is missed where it was meant.
    return _existing(str(data)) or (str(Path(data).absolute()) if Path(data).suffix else str(data))


def _existing(name: str) -> str:
    """The absolute path of a file or folder that exists here; empty for any other name."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else ""


def _name(model: Mapping[str, Any], method: str) -> str:
    base = Path(str(model.get("id", "scratch"))).name.lower()
    return f"{re.sub(r'[^a-z0-9._-]+', '-', base).strip('-._') or 'model'}-{method}"


def _reasoning(traces: Path | None) -> str:
    """`answer_only` where no row that was given has steps: nothing is written around answers then."""
    if traces is None:
        return "tags"
    # By newlines alone: `splitlines` also splits at letters that JSON leaves as they are within a text.
    steps = any(json.loads(line).get("steps") for line in traces.read_text("utf-8").split("\n") if line)
    return "tags" if steps else ANSWERS_ALONE
