"""Fakes about runs of a small engine, told in every file where it takes several, and about a kept run of JAX.

Of runs that failed or were resumed, and of predictions from elsewhere, they are told as a careful forger tells them.
"""

import re
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
    put,
    recipe,
    recipe_everywhere,
    row,
    scored_again,
    text,
    together,
    values_in,
    without,
    write,
)
from workings.evidence.verify import load as loading
from workings.evidence.verify.checks.data_order import batches_of, next_position, planned_steps
from workings.record.attempts import line_digest
from workings.record.metrics import pace

RUN = "a/"
EVAL = RUN + "eval/items"
MANIFEST, METRICS, EVENTS = RUN + "run_manifest.json", RUN + "train/metrics.jsonl", RUN + "train/events.jsonl"
README, LOG, ROWS = RUN + "README.md", RUN + "train/training_log.txt", RUN + "data/rows.jsonl"
PREDICTIONS, CARD, ASKED = EVAL + "/predictions.jsonl", EVAL + "/eval_summary.json", EVAL + "/eval_config.json"
SHAPE, RECIPE, ENVIRONMENT = RUN + "config/model_shape.json", RUN + "config/recipe.yaml", RUN + "env/env_info.json"
LAST, EARLIER = RUN + "checkpoints/step_000012/", RUN + "checkpoints/step_000009/"
MODEL = LAST + "model.safetensors"


def cut(count: int) -> Fake:
    """A log of this many steps, which is said to be all that was asked for."""
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
    row(EVENTS, 1, items=values_in(files, ASKED)["items"])(files)


def all_a_year_back(files: Files) -> None:
    put(MANIFEST, "finished_at", "2025-11-24T05:00:09.000Z")(files)
    every(EVENTS, lambda each: {"time": "2025-11-24T05:00:01.000Z"})(files)
    every("attempts.jsonl", lambda each: {"started_at": "2025-11-24T05:00:00.000Z"})(files)


def predictions(change: Any) -> Fake:
    """Other predictions, and what is made of them."""
    return together(edit(PREDICTIONS, change), scored_again(EVAL, items=True))


def dropped(**values: Any) -> Fake:
    """A dropped row more."""
    return edit(ROWS, lambda found: [*found, {"id": "x", "status": "dropped", **values}])


VIEWS = "consistency.views"
OF_A_RUN: Table = {
    # --- texts
    "README: praise": (text(README, "- Made by", "The best model that there is.\n- Made by"), VIEWS),
    "log: loss": (text(LOG, "step 5/12  loss 5.6", "step 5/12  loss 1.6"), NAMED),
    "recipe: rate": (text(RECIPE, "learning_rate: 0.5", "learning_rate: 0.1"), "consistency.recipe"),
    "recipe: another": (add(RECIPE, b"name: unigram\n"), "consistency.recipe"),
    "recipe: no one can read it": (add(RECIPE, lambda data: data + b"favourite: blue\n"), "consistency.recipe"),
    "recipe: no items, everywhere": (recipe_everywhere("a", "evaluation.items", "none"), "consistency.recipe"),
    "recipe: more devices, everywhere": (recipe_everywhere("a", "mesh.tp", 2), "consistency.machine"),
    "a text next to the runs": (add("RESULTS.md", b"98 %\n"), NAMED),
    # --- tensors
    "wider, with its parameters": (together(put(SHAPE, "width", 16), put(MANIFEST, "parameters", 6848)),
                                   "consistency.tensors"),
    "no shape": (gone(SHAPE), NAMED),
    "a shape that its bytes do not fill": (in_the_header({"shape": [344]}), "content.plain"),
    "another format": (in_the_header({"dtype": "F32"}), "content.plain"),
    "60 kB in a header": (header(MODEL, lambda found: {"__metadata__": {"note": "x" * 60_000}, **found}),
                          "content.plain"),
    "spaces in a header": (add(MODEL, spaces), "content.plain"),
    "a name of 300 letters": (header(MODEL, lambda found: {"x" * 300: found["logits"]}), "content.plain"),
    "another tensor's name": (header(MODEL, lambda found: {"weights": found["logits"]}), NAMED),
    "no step that changed a weight": (every(METRICS, lambda each: {"share_of_weights_changed": 0}),
                                      "consistency.checkpoints"),
    "checkpoints without weights": (gone(*(folder + name for folder in (LAST, EARLIER) for name in (
        "model.safetensors", "optimizer.safetensors"))), "consistency.checkpoints"),
    "no checkpoints": (gone(RUN + "checkpoints/"), "consistency.checkpoints: and no checkpoint of its last step"),
    "no last checkpoint": (gone(LAST), "consistency.checkpoints"),
    "no earlier checkpoint": (gone(EARLIER), "consistency.checkpoints"),
    "a later checkpoint under an earlier name": (moved_checkpoint, "consistency.checkpoints"),
    "another tokenizer": (text(RUN + "config/tokenizer/tokenizer.json", "reasoning", "reasonings"),
                          "consistency.tokenizer"),
    "another end of text": (text(RUN + "config/tokenizer/tokenizer_config.json", "<eos>", "<bos>"),
                            "consistency.tokenizer"),
    # --- steps
    "faster": (every(METRICS, lambda each: {"seconds": 1e-6}), "consistency.checkpoints"),
    "a log cut": (cut(9), "consistency.checkpoints"),
    "a log cut, the checkpoint renamed": (together(cut(9), moved_checkpoint, gone(LAST)), "consistency.checkpoints"),
    "interrupted and called complete": (together(cut(9), gone(LAST)), "consistency.recipe"),
    "a row dropped for nothing": (dropped(tokens=9, reason="odd"), "consistency.rows"),
    "a dropped row more": (dropped(tokens=900, reason="900 tokens, and data.max_length is 64"), "consistency.rows"),
    "seconds that are true": (every(METRICS, lambda each: {"seconds": True}), "form.schema"),
    "lines of another system": (add(METRICS, lambda data: data.replace(b"\n", b"\r\n")), "form.json"),
    "a failure in the events": (edit(EVENTS, lambda found: [*found, {
        "kind": "failed", "reason": "at step 3", "time": found[-1]["time"]}]), "consistency.steps"),
    "a smoke run": (put(MANIFEST, "facts.smoke", True), VIEWS),
    # --- evaluations
    "the wrong ones left out": (predictions(lambda found: found[:3]), "consistency.announced"),
    "easier items": (predictions(lambda found: [each | {"prompt": "What is 1+1?"} for each in found]),
                     "consistency.announced"),
    "announced anew": (together(predictions(lambda found: found[:3]), announced_anew), NAMED),
    "not announced": (edit(EVENTS, lambda found: found[:1]), "consistency.recipe: 0 events announce the evaluation"),
    "announced other settings": (row(EVENTS, 1, decoding={"samples": 9}), "consistency.announced"),
    "no decoding": (put(ASKED, "decoding", {"absent": "not recorded"}), "consistency.announced"),
    "ended by a person": (row(PREDICTIONS, 0, finish_reason="enough", truncated=False), "consistency.answers"),
    "more tokens than asked": (every(PREDICTIONS, lambda each: {"completion_tokens": 9}), "consistency.answers"),
    "a completion missing": (row(PREDICTIONS, 0, completion={"absent": "missing"}), "consistency.answers"),
    "standing twice": (lambda files: files.update({
        name.replace("/items/", "/again/"): data for name, data in files.items() if name.startswith(EVAL)}), NAMED),
    # --- times, versions
    "all a year back": (all_a_year_back, "consistency.time_and_memory"),
    "no start": (row(EVENTS, 0, kind="begun"), "consistency.time_and_memory"),
    "another version ran": (put(ENVIRONMENT, "packages.workings", "9.0"), "consistency.announced"),
}


def _log_with_the_pace_of(log: str, lines: list[dict[str, Any]]) -> str:
    """A training log whose lines of steps tell the pace that these metrics give."""
    def told(match: re.Match[str]) -> str:
        now = pace(lines[:int(match[2])], len(lines))
        return match[1] + ("" if now is None else f"  {now.text}")
    return re.sub(r"(?m)^(step (\d+)/.*?  lr \S+).*$", told, log)


def another_seed_told_everywhere(files: Files) -> None:
    """Another seed in every file, and batches, counts, places and digests rebuilt as it gives them.

    Losses and weights stay: nothing in the record says that they belong to other batches. Steps replayed do.
    """
    together(recipe("a", "seed", 6), text(RECIPE, "seed: 5", "seed: 6"),
             text(README, "seed 5", "seed 6"), put(ASKED, "decoding.seed", 6))(files)
    events = values_in(files, EVENTS)
    events[0]["attempt"], events[1]["decoding"]["seed"] = line_digest(values_in(files, "attempts.jsonl")[0]), 6
    write(files, EVENTS, events)
    unit = next(unit for unit in loading.load(walk.MemoryTree(files)).runs)
    steps = planned_steps(unit)
    lines = [row | planned.counts | {"batch_digest": planned.digest} for row, planned in steps]
    write(files, METRICS, lines)
    sums = {name: sum(row[name] for row in lines) for name in ("tokens", "supervised_tokens")}
    learned = f"on {sums['supervised_tokens']:,} supervised tokens;".encode()
    files[README] = re.sub(rb"on [\d,]+ supervised tokens;", learned, files[README])
    padding = batches_of(unit).padding_share()
    files[LOG] = _log_with_the_pace_of(files[LOG].decode(), lines).encode()
    for name in (README, LOG):
        files[name] = re.sub(rb"[\d.]+ % padding", f"{100 * padding:.1f} % padding".encode(), files[name])
    for folder in (LAST, EARLIER):
        state = values_in(files, folder + "state.json")
        done = state["step"]
        state["facts"] |= {name: sum(row[name] for row in lines[:done]) for name in sums} | {
            "position": next_position(steps[done - 1][1].at, batches_of(unit)).to_json()}
        write(files, folder + "state.json", state)


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

# --- a kept run of JAX, without its evaluation ---------------------------------------------------------------------

KEPT = "with-steps"
DEVICES, KEPT_MANIFEST, PLAN, MEASURED, HOST = (f"{KEPT}/{name}" for name in (
    "env/device_checks.json", "run_manifest.json", "plan/plan.json", "plan/measured.json", "env/env_info.json"))


def devices(**values: Any) -> Fake:
    return edit(DEVICES, lambda found: found | values)


def less_memory(files: Files) -> None:
    """A process that held less than before its first step."""
    every(f"{KEPT}/train/metrics.jsonl", lambda each: {"memory_bytes": each["memory_bytes"] // 4})(files)


OF_A_KEPT_RUN: Table = {
    "another mesh was checked": (devices(mesh={"fsdp": 2, "tp": 1}), "consistency.machine"),
    "more devices than XLA was told to show": (put(HOST, "variables.XLA_FLAGS",
                                                   "--xla_force_host_platform_device_count=0"), "consistency.machine"),
    "one device checked twice": (devices(devices=["cpu:0", "cpu:0"], count=2), "consistency.device"),
    "more processes than devices": (devices(processes=4), "consistency.device"),
    "a device of another process": (devices(devices=["cpu:0 of process 1"], processes=1), "consistency.device"),
    "two processes on devices of one": (devices(devices=["cpu:0 of process 0"], processes=2), "consistency.device"),
    "a kernel that was wrong": (devices(max_difference_to_numpy=5.0), "consistency.device"),
    "another model": (put(KEPT_MANIFEST, "model_id", "google/gemma-2b"), "consistency.tensors"),
    "a revision of random weights": (put(KEPT_MANIFEST, "model_revision", "main"), "consistency.tensors"),
    "a number format that no engine names": (put(KEPT_MANIFEST, "actual_dtypes.everything", "float64"),
                                             "consistency.tensors"),
    "no shape of the model": (put(f"{KEPT}/config/model_shape.json", "", {"note": "a large one"}),
                              "consistency.tensors"),
    "a key more in the shape": (edit(f"{KEPT}/config/model_shape.json", lambda found: found | {
        "width": 4096, "reviewed": True}), "consistency.tensors"),
    "more processors than there are": (put(HOST, "machine.usable_cores", lambda found: found["logical_cores"] + 1),
                                       "consistency.machine"),
    "other variables of threads": (together(put(HOST, "machine.threads", {"OMP_NUM_THREADS": "8"}),
                                            put(HOST, "variables.OMP_NUM_THREADS", "1")), "consistency.machine"),
    "an engine from elsewhere": (put(KEPT_MANIFEST, "engine_distribution", {"name": "other", "version": "1.0"}),
                                 "consistency.engine"),
    "a larger part": (put(PLAN, "parts.0.size_bytes", 10**12), "consistency.machine"),
    "a part without a size": (put(PLAN, "parts.0.size_bytes", "much"), "consistency.machine"),
    "moments of half their size": (
        put(PLAN, "parts.3.size_bytes", 802_816),
        "consistency.machine: moments take 802,816 bytes, by the recipe 1,605,632"),
    "parameters of half their size": (
        put(PLAN, "parts.6.size_bytes", 401_408),
        "consistency.machine: parameters take 401,408 bytes, by the recipe 802,816"),
    "another sum": (put(PLAN, "breakdown.sum", 1), "consistency.machine"),
    "other arguments": (put(PLAN, "breakdown.arguments", 1), "consistency.machine"),
    "another peak of the compiler": (put(PLAN, "breakdown.compiler_peak", 10**12), "consistency.machine"),
    "less memory than before": (less_memory, "consistency.machine: the process held"),
    **{f"tensors: {new}": (add(f"{KEPT}/checkpoints/step_000450/model.safetensors", lambda data, old=old, new=new: (
        data.replace(old.encode(), new.encode(), 1))), "consistency.tensors") for old, new in (
        ('"dtype":"F32"', '"dtype":"I32"'), ('"shape":[345,64]', '"shape":[64,345]'),
        ("model.norm.weight", "model.norm.weighs"))},
}

# --- runs that failed ------------------------------------------------------------------------------------------------

STOPPED = "asked to stop"


def reason(files: Files) -> str:
    return str(values_in(files, MANIFEST)["status_reason"])


def event(kind: str, change: Any) -> Fake:
    """Other values in the events of a kind."""
    return every(EVENTS, lambda each: (change(each) if callable(change) else change) if each["kind"] == kind else {})


def because(words: str) -> Fake:
    """Another reason of the failure, in manifest and README."""
    return together(lambda files: text(README, reason(files), words)(files), put(MANIFEST, "status_reason", words))


def because_everywhere(words: str) -> Fake:
    return together(because(words), event("failed", {"reason": words}))


def without_events(kind: str) -> Fake:
    return edit(EVENTS, lambda found: [each for each in found if each["kind"] != kind])


def announced_twice(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [found[0], *[each for each in found if each["kind"] == "announced"], *found[1:]]


INTERRUPTED = together(
    lambda files: text(README, f"**failed** ({reason(files)})", f"**interrupted** ({STOPPED})")(files),
    put(MANIFEST, "status", "interrupted"), put(MANIFEST, "status_reason", STOPPED),
    put(RUN + "SEAL.json", "status", "interrupted"), without_events("failed"))
"""A failure told as an interruption everywhere, with a checkpoint of its last step."""
OF_A_FAILURE: Table = {
    "interrupted instead of failed": (INTERRUPTED, FOUND),
    "interrupted, without a checkpoint": (together(INTERRUPTED, gone(RUN + "checkpoints/")), FOUND),
    "interrupted, and the reason left": (together(INTERRUPTED, because("step 8: loss nan")), FOUND),
    "another reason in manifest and README": (because("the disk was full"), FOUND),
    "another reason in the event": (event("failed", {"reason": "x"}), FOUND),
    "another reason everywhere": (because_everywhere("the disk was full"), NAMED),
    "another step that failed": (because_everywhere("step 99: loss nan, gradient norm 1.0"), FOUND),
    "memory that ran out at another step": (because_everywhere("out of memory after step 2"), FOUND),
    "failed, and all steps were taken": (because_everywhere("all steps were taken"), FOUND),
    "no event of the failure": (without_events("failed"), FOUND),
    "failed twice": (edit(EVENTS, lambda found: [*found, found[-1]]), FOUND),
    "no announcement of an evaluation": (without_events("announced"), FOUND),
    "announced twice": (edit(EVENTS, announced_twice), FOUND),
    "longer answers announced": (event("announced", lambda each: {
        "decoding": each["decoding"] | {"max_new_tokens": 64}}), FOUND),
    "announced for another place": (event("announced", {"evaluation": "eval/other"}), FOUND),
    "more items announced": (event("announced", lambda each: {"items": each["items"] | {"count": 600}}), NAMED),
}

# --- a run that failed, and resumed from its sealed record ----------------------------------------------------------

def went_on(**values: Any) -> Fake:
    return event("resumed", values)


def from_run(**values: Any) -> Fake:
    return every(EVENTS, lambda each: values if "root" in each else {})


def first_attempt(old: str, new: str) -> Fake:
    """Other words in the log of the first attempt."""
    return add(LOG, lambda data: re.sub(old, new, data.decode(), count=1).encode())


OF_A_RESUMED_RUN: Table = {
    "from another root": (from_run(root="ab" * 32), FOUND),
    "from a run of another name": (from_run(name="best"), NAMED),
    "no event of the sealed run": (without_events("resumed_from_sealed"), FOUND),
    "other gradients in the steps that were kept": (every(METRICS, lambda each: {
        "grad_norm": each["grad_norm"] / 2} if each["step"] < 6 else {}), FOUND),
    "a failure of before left out": (without_events("failed"), FOUND),
    "fewer steps kept": (went_on(kept_steps=2), FOUND),
    "more steps dropped": (went_on(dropped_steps=50), FOUND),
    "the checkpoint it went on from was damaged": (went_on(damaged_checkpoints=["step_000003: files"]), FOUND),
    "a damaged checkpoint of later": (went_on(damaged_checkpoints=["step_000099: files differ"]), FOUND),
    "moved to eight devices": (went_on(moved=["mesh: {'fsdp': 1, 'tp': 1} before, {'fsdp': 8, 'tp': 1} now"]), FOUND),
    "moved where it stayed": (went_on(moved=["mesh: {'fsdp': 8, 'tp': 1} before, {'fsdp': 1, 'tp': 1} now"]), NAMED),
    "moved in other words": (went_on(moved=["to a better machine"]), FOUND),
    "the mesh of the first attempt": (first_attempt(r"mesh       fsdp=1", "mesh       fsdp=8"), NAMED),
    "the first run looks better": (
        every("a.interrupted-1/train/metrics.jsonl", lambda each: {"grad_norm": 0.5}), FOUND),
}

# --- predictions from elsewhere ------------------------------------------------------------------------------------

P = "elsewhere"
CONFIG, SUMMARY, LINES = f"{P}/eval_config.json", f"{P}/eval_summary.json", f"{P}/predictions.jsonl"


def lines(change: Any) -> Fake:
    """Other lines, and what is made of them."""
    return together(edit(LINES, change), scored_again(P, items=True))


def missing(**values: Any) -> Fake:
    """Other words about the completions that are missing."""
    return lines(lambda found: [each | (values if "error" in each else {}) for each in found])


def there(**values: Any) -> Fake:
    """Other words about the completions that are there."""
    return lines(lambda found: [each | ({} if "error" in each else values) for each in found])


def everyone(**values: Any) -> Fake:
    return lines(lambda found: [each | values for each in found])


OF_PREDICTIONS: Table = {
    "a model": (put(CONFIG, "model", {"id": "best/model"}), FOUND),
    "an engine": (put(CONFIG, "engine", {"name": "jax", "platform": "tpu"}), FOUND),
    "a tokenizer": (put(CONFIG, "tokenizer", {"digest": "ab" * 32}), FOUND),
    "a kind that no evaluation has": (put(CONFIG, "source.kind", "oracle"), "consistency.answers"),
    "generated by a model": (put(CONFIG, "source", {"kind": "generated"}), FOUND),
    "one sample of each item": (put(CONFIG, "source.samples", 1), FOUND),
    "another file": (put(CONFIG, "source.digest", "ab" * 32), NAMED),
    "bad samples left out": (lines(lambda found: [each for each in found if each["score"] == 1 or each["sample"] == 0]),
                             FOUND),
    "a good sample twice": (lines(lambda found: [
        same for each in found for same in ([each, each] if each["score"] == 1 else [each])]), FOUND),
    "samples of one number": (everyone(sample=0), FOUND),
    "a missing item left out": (lines(lambda found: [each for each in found if "error" not in each]), NAMED),
    "missing completions that are no errors": (together(without(LINES, "error"), scored_again(P, items=True)),
                                               FOUND),
    "missing for another reason": (missing(error="time limit of the service"), FOUND),
    "missing ones with valid steps": (missing(steps_checked=3, steps_valid=3), FOUND),
    "missing ones with an answer": (missing(rule="answer_tag", extracted="1"), FOUND),
    "missing ones that were cut off": (missing(truncated=True, finish_reason="length"), FOUND),
    "the form was kept, and none was asked for": (everyone(format_ok=True), FOUND),
    "seeds": (everyone(seed=7), FOUND),
    "texts without tokens": (everyone(completion_tokens=0), FOUND),
    "shorter texts": (there(completion_tokens=3), NAMED),
    "control tokens": (everyone(control_tokens=True), FOUND),
    "no unknown ids": (put(SUMMARY, "problems", {}), NAMED),
    "a count that is not that of its names": (put(SUMMARY, "problems", {"unknown ids": {"count": 9, "first": ["x"]}}),
                                             FOUND),
    "problems of another kind": (put(SUMMARY, "problems", {"all": "fine"}), FOUND),
}
KINDS = {"run": OF_A_RUN, "kept": OF_A_KEPT_RUN}
ENDS = {"failed": OF_A_FAILURE, "resumed": OF_A_RESUMED_RUN, "predictions": OF_PREDICTIONS}
