"""Fakes about runs that failed or were resumed and about predictions from elsewhere, as a careful forger tells them."""

import re
from typing import Any

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
    put,
    scored_again,
    text,
    together,
    values_in,
    without,
)

F = "a"
MANIFEST, EVENTS, README, HOST = (f"{F}/{name}" for name in (
    "run_manifest.json", "train/events.jsonl", "README.md", "env/env_info.json"))
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
    put(f"{F}/SEAL.json", "status", "interrupted"), without_events("failed"))
"""A failure told as an interruption everywhere, with a checkpoint of its last step."""
OF_A_FAILURE: Table = {
    "interrupted instead of failed": (INTERRUPTED, FOUND),
    "interrupted, without a checkpoint": (together(INTERRUPTED, gone(f"{F}/checkpoints/")), FOUND),
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
    "more processors than there are": (put(HOST, "machine.usable_cores", lambda found: found["logical_cores"] + 64),
                                       FOUND),
}

# --- a run that failed, and resumed from its sealed record ----------------------------------------------------------

LOG, METRICS = f"{F}/train/training_log.txt", f"{F}/train/metrics.jsonl"
EARLIER = f"{F}.interrupted-1"


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
    "the first run looks better": (every(f"{EARLIER}/train/metrics.jsonl", lambda each: {"grad_norm": 0.5}), FOUND),
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
KINDS = {"failed": OF_A_FAILURE, "resumed": OF_A_RESUMED_RUN, "predictions": OF_PREDICTIONS}
