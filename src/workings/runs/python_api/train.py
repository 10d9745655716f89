"""`workings.train`: training as a Python function."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from workings.config.load import LoadedRecipe, RecipeLike, load_recipe
from workings.config.overrides import Overrides
from workings.errors import RequestError
from workings.record.metrics import Callback
from workings.reports.trackers import RunListeners
from workings.runs.create_or_resume import load_to_resume, run_directory
from workings.runs.python_api.keyword_recipe import Keywords, keyword_recipe, refuse_unknown
from workings.runs.python_api.python_rewards import Reward
from workings.runs.python_api.python_rows import Rows
from workings.runs.python_api.run_object import Run
from workings.runs.smoke import Smoke
from workings.runs.train_and_evaluate import train_and_evaluate


def train(recipe: RecipeLike | None = None, out: str | Path | None = None, overrides: Overrides = (), *,
          model: str | Path | Mapping[str, Any] | None = None, data: Rows | None = None, items: Rows | None = None,
          method: Literal["full", "lora", "qlora"] | None = None, steps: int = 0, epochs: float = 0.0,
          learning_rate: float = 0.0, rewards: Reward | Sequence[Reward] = (),
          resume: bool = False, smoke: bool | Smoke = False, force: bool = False,
          callbacks: Sequence[Callback] = (), track: str | Sequence[str] = (),
          **unknown: Any) -> Run:
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
        smoke: a short run with a tiny model of the same architecture.
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
    refuse_unknown(unknown)
    listeners = RunListeners([track] if isinstance(track, str) else track, _say, callbacks)
    small = smoke if isinstance(smoke, Smoke) else Smoke() if smoke else None

    def run(loaded: LoadedRecipe) -> Run:
        name = loaded.recipe.name + "-smoke" * (small is not None)
        path = Path(out) if out is not None else run_directory(name, resume=resume)
        result = train_and_evaluate(loaded, path, resume=resume, smoke=small, force=force, listeners=listeners)
        return Run(path=path, result=result)

    if recipe is not None:
        _refuse_both({"model": model, "data": data, "items": items, "method": method, "steps": steps, "epochs": epochs,
                      "learning_rate": learning_rate, "rewards": rewards or None})
        return run(load_to_resume(recipe, overrides, Path(out), _say) if resume and out is not None
                   else load_recipe(recipe, overrides))
    if model is None or data is None:
        given = [name for name, value in (("model", model), ("data", data)) if value is not None]
        raise RequestError(f"{given[0]} is given alone" if given else "train needs a recipe",
                           "a recipe, or model and data",
                           'workings.train(model="Qwen/Qwen3-0.6B", data=rows, steps=100)')
    # Around the whole run: the rows are in a temporary folder until the run has its own copy.
    with keyword_recipe(Keywords(model=model, data=data, items=items, method=method or "lora", steps=steps,
                                 epochs=epochs, learning_rate=learning_rate, rewards=rewards,
                                 overrides=overrides)) as loaded:
        return run(loaded)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


_KEYS = {"model": "model.id", "data": "data.traces", "items": "evaluation.items", "method": "method.name",
         "steps": "training.steps", "epochs": "training.epochs", "learning_rate": "training.learning_rate",
         "rewards": "rewards"}
"""The recipe's keys for the arguments that make a recipe."""


def _refuse_both(keywords: Mapping[str, Any]) -> None:
    # Compare only numbers with 0: comparing a data frame gives a frame.
    given = [name for name, value in keywords.items()
             if value is not None and not (isinstance(value, int | float) and value == 0)]
    if given:
        words = {_KEYS[name]: _override_value(name, keywords[name]) for name in given}
        raise RequestError(f"a recipe does not go with {', '.join(given)}",
                           "one of the two, because a recipe has all settings",
                           f"overrides={json.dumps(words, default=str)}; or no recipe, with model and data")


def _override_value(name: str, value: Any) -> Any:
    """An argument's value for the proposed override: a text or number, else a placeholder."""
    if name == "rewards":
        return [{"scorer": "FILE.py:FUNCTION"}]
    return value if isinstance(value, str | Path | int | float) else "FILE"
