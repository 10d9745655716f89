"""Fakes about runs of a small engine, told in every file where it takes several, and about a kept run of JAX.

Of runs that failed or were resumed, and of predictions from elsewhere, they are told as a careful forger tells them.
"""

import struct
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from tests.evidence import walk
from tests.evidence.fakes import (
    FOUND,
    NAMED,
    Fake,
    Files,
    Table,
    add,
    edit,
    every,
    gone,
    header,
    made_again,
    of_data,
    put,
    recipe,
    scored_again,
    text,
    together,
    values_in,
    write,
)
from workings.evidence.verify import load as loading
from workings.evidence.verify.checks.data_order import batches_of, planned_steps
from workings.record.attempts import line_digest

RUN = "a/"
EVAL = RUN + "eval/items"
METRICS, EVENTS, RECIPE = (RUN + name for name in ("train/metrics.jsonl", "train/events.jsonl", "config/recipe.yaml"))
PREDICTIONS, ASKED = EVAL + "/predictions.jsonl", EVAL + "/eval_config.json"
LAST, EARLIER = RUN + "checkpoints/step_000012/", RUN + "checkpoints/step_000009/"
MODEL = LAST + "model.safetensors"


def cut(count: int) -> Fake:
    """A log of this many steps, recorded as all that was asked for."""
    return together(edit(METRICS, lambda found: found[:count]), recipe("a", "training.steps", count))


def moved_checkpoint(files: Files) -> None:
    """The checkpoint of step 12 called that of step 9."""
    for name in [name for name in files if name.startswith(EARLIER)]:
        files[name] = files[LAST + name.rpartition("/")[2]]
    for name in ("state.json", "COMMIT.json"):
        put(EARLIER + name, "step", 9)(files)


def in_the_header(words: dict[str, Any]) -> Fake:
    """Other values of the one tensor in its header."""
    return header(MODEL, lambda found: found["logits"].update(words))


def spaces(data: bytes) -> bytes:
    """A header of 60 kB, most of it spaces."""
    return struct.pack("<Q", 60_000) + data[8:].split(b"}}")[0].ljust(59_998) + b"}}" + b"\0" * 2760


def announced_anew(files: Files) -> None:
    put(EVENTS, "1.items", values_in(files, ASKED)["items"])(files)


def predictions(change: Any) -> Fake:
    """Other predictions, and what is made of them."""
    return together(edit(PREDICTIONS, change), scored_again(EVAL, items=True))


OF_A_RUN: Table = of_data("run") | {
    "a shape that its bytes do not fill": (in_the_header({"shape": [344]}), "content.plain"),
    "another format": (in_the_header({"dtype": "F32"}), "content.plain"),
    "60 kB in a header": (header(MODEL, lambda found: {"__metadata__": {"note": "x" * 60_000}, **found}),
                          "content.plain"),
    "spaces in a header": (add(MODEL, spaces), "content.plain"),
    "a name of 300 letters": (header(MODEL, lambda found: {"x" * 300: found["logits"]}), "content.plain"),
    "another tensor's name": (header(MODEL, lambda found: {"weights": found["logits"]}), NAMED),
    "a later checkpoint under an earlier name": (moved_checkpoint, "consistency.checkpoints"),
    "a log cut": (cut(9), "consistency.checkpoints"),
    "a log cut, the checkpoint renamed": (together(cut(9), moved_checkpoint, gone(LAST)), "consistency.checkpoints"),
    "interrupted and called complete": (together(cut(9), gone(LAST)), "consistency.recipe"),
    "the wrong ones left out": (predictions(lambda found: found[:3]), "consistency.announced"),
    "announced anew": (together(predictions(lambda found: found[:3]), announced_anew), NAMED),
}


def _another_seed(files: Files) -> None:
    together(recipe("a", "seed", 6), text(RECIPE, "seed: 5", "seed: 6"), put(ASKED, "decoding.seed", 6))(files)
    events = values_in(files, EVENTS)
    events[0]["attempt"], events[1]["decoding"]["seed"] = line_digest(values_in(files, "attempts.jsonl")[0]), 6
    write(files, EVENTS, events)
    unit = next(unit for unit in loading.load(walk.MemoryTree(files)).runs)
    steps = planned_steps(unit)
    lines = [planned.line | planned.counts | {"batch_digest": planned.digest} for planned in steps]
    write(files, METRICS, lines)
    for folder in (LAST, EARLIER):
        state = values_in(files, folder + "state.json")
        done = state["step"]
        state["facts"] |= {name: sum(row[name] for row in lines[:done]) for name in ("tokens", "supervised_tokens")} | {
            "position": batches_of(unit).after(steps[done - 1].at).to_json()}
        write(files, folder + "state.json", state)


another_seed_told_everywhere = made_again(_another_seed)
"""Another seed in every file, and batches, counts, places, digests and views rebuilt as it gives them.

Losses and weights stay: nothing in the record says that they belong to other batches. Steps replayed do."""


def better(*steps: int) -> Fake:
    """Better losses of some steps, and the views that follow."""
    return made_again(every(METRICS, lambda each: {"loss": each["loss"] * 0.999} if each["step"] in steps else {}))


def other_weights(data: bytes) -> bytes:
    return save({name: x * np.float64(1.001) for name, x in load(data).items()})


ONLY_A_REPLAY: Table = {
    "another seed, told everywhere": (another_seed_told_everywhere, "replay.steps"),
    "better losses": (better(10, 11, 12), "replay.steps"),
    "the start": (add(EARLIER + "model.safetensors", other_weights), "replay.steps"),
    "the end": (add(MODEL, other_weights), "replay.steps"),
    "completions": (together(every(PREDICTIONS, lambda each: {"completion": "z" + each["completion"][1:]}),
                             scored_again(EVAL)), "replay.predictions")}
"""Consistent in themselves: what finds each when steps and answers are replayed."""

# --- other runs, and predictions from elsewhere --------------------------------------------------------------------

KEPT = "with-steps"
LINES = "elsewhere/predictions.jsonl"


def less_memory(files: Files) -> None:
    """A process that held less than before its first step."""
    every(f"{KEPT}/train/metrics.jsonl", lambda each: {"memory_bytes": each["memory_bytes"] // 4})(files)


OF_A_KEPT_RUN: Table = of_data("kept") | {
    "less memory than before": (less_memory, "consistency.machine: the process held")}
OF_A_RESUMED_RUN: Table = of_data("resumed") | {
    "other gradients in the steps that were kept": (every(METRICS, lambda each: {
        "grad_norm": each["grad_norm"] / 2} if each["step"] < 6 else {}), FOUND)}
OF_PREDICTIONS: Table = of_data("predictions") | {
    "bad samples left out": (together(edit(LINES, lambda found: [
        each for each in found if each["score"] == 1 or each["sample"] == 0]), scored_again("elsewhere", items=True)),
        FOUND)}
KINDS = {"run": OF_A_RUN, "kept": OF_A_KEPT_RUN}
ENDS = {"failed": of_data("failed"), "resumed": OF_A_RESUMED_RUN, "predictions": OF_PREDICTIONS}
