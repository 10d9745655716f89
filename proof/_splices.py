"""Splices for `proof.fakes`: parts of another run, or invented ones, in a run, sealed again.

A run of a small engine takes 120 steps and keeps a checkpoint every ten; another one takes the same batches from other
first weights. A part of the first one is replaced, at a place and of a length that chance decides:

- invented: the losses of some steps in a row, in the metrics and in every text;
- joined: from one step on all steps, with their checkpoints, are those of the other run;
- inserted: some steps in a row, with their checkpoints, are those of the other run;
- answers: the completions of some items of its evaluation.
"""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import records, reseal
from tests.evidence.fakes import made_again
from tests.runs.pinned import pin_code_version
from tests.runs.runs_helpers import OTHER_PACKAGE, RECIPE, write_recipe
from workings.data.generators import addition
from workings.data.traces import write_items
from workings.engines.registry import find_engine
from workings.evaluation.predictions import read_predictions, summarize
from workings.evidence.verify import verify
from workings.runs.replay import ReplayRequest, replay_run
from workings.runs.train_and_evaluate import train_and_evaluate

STEPS, EVERY, ITEMS, BATCH, LONGEST = 120, 10, 60, 4, 40
FROM_THE_OTHER = ("loss", "grad_norm", "share_of_weights_changed")
"""Keys of a step that another state decides; times and memory stay, or another file would tell."""


def trained(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """The run, and the one that parts of it are replaced by, below `runs`; and the data that both learned from."""
    patch.syspath_prepend(str(OTHER_PACKAGE))
    pin_code_version(patch)
    recipe = write_recipe(folder / "asked", RECIPE.replace("steps: 12", f"steps: {STEPS}").replace(
        "every_steps: 3, keep_last: 2", f"every_steps: {EVERY}, keep_last: {STEPS // EVERY}").replace(
        "traces: held_out.jsonl", "traces: none, base: false").replace(
        "every_steps: 4", f"every_steps: {STEPS}").replace("batch_size: 8", f"batch_size: {BATCH}"))
    write_items(folder / "asked" / "items.jsonl", addition.make(40, ITEMS, 5)[1])
    train_and_evaluate(str(recipe), folder / "runs" / "a")
    # The class that the entry point gives: the module has another name when a test imports it.
    engine_class: Any = find_engine("unigram").engine
    init = engine_class.init

    def elsewhere(engine: Any, seed: int, *, trainable: bool = True) -> Any:
        state = init(engine, seed, trainable=trainable)
        return state | {"logits": init(engine, seed + 1)["logits"]}

    with patch.context() as other:
        other.setattr(engine_class, "init", elsewhere)
        train_and_evaluate(str(recipe), folder / "runs" / "b")


def failed_levels(base: Path, work: Path, kind: str, chance: random.Random) -> list[int]:
    """Levels of the checks that find one splice, when the whole run is recomputed."""
    shutil.copytree(base, work)
    run = work / "runs" / "a"
    KINDS[kind](run, work / "runs" / "b", chance)
    records.tell(run.parent, made_again(lambda files: None), "a/")
    found = verify(run, level=3, replay=lambda path, _: replay_run(path, ReplayRequest(whole=True)))
    shutil.rmtree(work)
    return [check.level for check in found.checks if check.verdict == "failed"]


def invented(run: Path, other: Path, chance: random.Random) -> None:
    """Better losses of some steps in a row."""
    del other
    length = chance.randint(1, LONGEST)
    first = chance.randint(1, STEPS - length + 1)
    steps = range(first, first + length)
    reseal.edit_lines(run / "train/metrics.jsonl", lambda rows: [
        row | ({"loss": row["loss"] * 0.999} if row["step"] in steps else {}) for row in rows])


def joined(run: Path, other: Path, chance: random.Random) -> None:
    """The other run from one step on."""
    first = chance.randint(1, STEPS)
    replace_steps(run, other, range(first, STEPS + 1))


def inserted(run: Path, other: Path, chance: random.Random) -> None:
    """Some steps in a row of the other run: wrong where they begin, and where the first run continues."""
    length = chance.randint(1, LONGEST)
    first = chance.randint(1, STEPS - length + 1)
    replace_steps(run, other, range(first, first + length))


def answers(run: Path, other: Path, chance: random.Random) -> None:
    """Completions of some items that the model did not write."""
    del other
    unit = run / "eval" / "items"
    numbers = chance.sample(range(ITEMS), chance.randint(1, ITEMS // 4))
    reseal.edit_lines(unit / "predictions.jsonl", lambda rows: [
        row | ({"completion": "z" + row["completion"][1:]} if number in numbers else {})
        for number, row in enumerate(rows)])
    reseal.edit_json(unit / "eval_summary.json", lambda value: summarize(
        read_predictions(unit / "predictions.jsonl"), "mean", value["problems"])[1])


KINDS: dict[str, Callable[[Path, Path, random.Random], None]] = {
    each.__name__: each for each in (invented, joined, inserted, answers)}


def replace_steps(run: Path, other: Path, steps: range) -> None:
    """Take the numbers of these steps, and the tensors of the checkpoints among them, from the other run."""
    theirs = [json.loads(line) for line in (other / "train/metrics.jsonl").read_bytes().splitlines()]
    reseal.edit_lines(run / "train/metrics.jsonl", lambda rows: [
        row | ({key: theirs[row["step"] - 1][key] for key in FROM_THE_OTHER} if row["step"] in steps else {})
        for row in rows])
    for checkpoint in (run / "checkpoints").iterdir():
        if int(checkpoint.name.removeprefix("step_")) in steps:
            for file in checkpoint.glob("*.safetensors"):
                shutil.copy(other / "checkpoints" / checkpoint.name / file.name, file)
            reseal.recommit(checkpoint)
