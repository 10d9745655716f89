"""Fakes about runs that failed or were resumed, and about predictions from elsewhere, as a careful forger tells them.

They have the form of `tests/evidence/fakes_elsewhere.py`: a fake, and whether a check finds it or the answer names it.
"""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from tests.evidence.fakes import Fake, Files, edit, every, put, rows, text, together
from tests.evidence.fakes_elsewhere import FOUND, NAMED
from workings.record.canonical import line

F = "a"
MANIFEST, EVENTS = f"{F}/run_manifest.json", f"{F}/train/events.jsonl"
STOPPED = "asked to stop"


def _reason(files: Files) -> str:
    return str(json.loads(files[MANIFEST])["status_reason"])


def because(reason: str, event: bool = True) -> Fake:
    """Another reason of the failure, in manifest, README and (or not) in the event."""
    def fake(files: Files) -> None:
        text(f"{F}/README.md", _reason(files), reason)(files)
        put(MANIFEST, "status_reason", reason)(files)
        if event:
            every(EVENTS, lambda each: {"reason": reason} if each["kind"] == "failed" else {})(files)
    return fake


def without_events(*kinds: str) -> Fake:
    return rows(EVENTS, lambda found: [each for each in found if each["kind"] not in kinds])


def interrupted(files: Files) -> None:
    """A failure told as an interruption everywhere, with a checkpoint of its last step."""
    text(f"{F}/README.md", f"**failed** ({_reason(files)})", f"**interrupted** ({STOPPED})")(files)
    put(MANIFEST, "status", "interrupted")(files)
    put(MANIFEST, "status_reason", STOPPED)(files)
    put(f"{F}/SEAL.json", "status", "interrupted")(files)
    without_events("failed")(files)


OF_A_FAILURE: dict[str, tuple[Fake, str]] = {
    "interrupted instead of failed": (interrupted, FOUND),
    "interrupted, without a checkpoint": (together(interrupted, lambda files: [
        files.pop(name) for name in list(files) if "/checkpoints/" in name] and None), FOUND),
    "interrupted, and the reason left": (together(interrupted, put(MANIFEST, "status_reason", "step 8: loss nan"), text(
        f"{F}/README.md", f"({STOPPED})", "(step 8: loss nan)")), FOUND),
    "another reason in manifest and README": (because("the disk was full", event=False), FOUND),
    "another reason in the event": (every(EVENTS, lambda each: {"reason": "x"} if each["kind"] == "failed" else {}),
                                    FOUND),
    "another reason everywhere": (because("the disk was full"), NAMED),
    "another step that failed": (because("step 99: loss nan, gradient norm 1.0"), FOUND),
    "memory that ran out at another step": (because("out of memory after step 2"), FOUND),
    "failed, and all steps were taken": (because("all steps were taken"), FOUND),
    "no event of the failure": (without_events("failed"), FOUND),
    "failed twice": (rows(EVENTS, lambda found: [*found, found[-1]]), FOUND),
    "no announcement of an evaluation": (without_events("announced"), FOUND),
    "announced twice": (rows(EVENTS, lambda found: [found[0], *[each for each in found if each["kind"] == "announced"],
                                                    *found[1:]]), FOUND),
    "longer answers announced": (every(EVENTS, lambda each: {"decoding": each["decoding"] | {"max_new_tokens": 64}}
                                       if each["kind"] == "announced" else {}), FOUND),
    "announced for another place": (every(EVENTS, lambda each: {"evaluation": "eval/other"}
                                          if each["kind"] == "announced" else {}), FOUND),
    "more items announced": (every(EVENTS, lambda each: {"items": each["items"] | {"count": 600}}
                                   if each["kind"] == "announced" else {}), NAMED),
    "more processors than there are": (edit(f"{F}/env/env_info.json", lambda value: value | {
        "machine": value["machine"] | {"usable_cores": value["machine"]["logical_cores"] + 64}}), FOUND),
}

# --- a run that failed, and went on from its sealed record ----------------------------------------------------------

LOG, METRICS = f"{F}/train/training_log.txt", f"{F}/train/metrics.jsonl"
EARLIER = f"{F}.interrupted-1"


def resumed(change: dict[str, Any]) -> Fake:
    return every(EVENTS, lambda each: change if each["kind"] == "resumed" else {})


def _first_attempt(old: str, new: str) -> Fake:
    """Other words in the log of the first attempt."""
    def fake(files: Files) -> None:
        data = files[LOG].decode()
        changed = re.sub(old, new, data, count=1)
        assert changed != data, old
        files[LOG] = changed.encode()
    return fake


OF_A_RESUMED_RUN: dict[str, tuple[Fake, str]] = {
    "from another root": (every(EVENTS, lambda each: {"root": "ab" * 32} if "root" in each else {}), FOUND),
    "from a run of another name": (every(EVENTS, lambda each: {"name": "best"} if "root" in each else {}), NAMED),
    "no event of the sealed run": (without_events("resumed_from_sealed"), FOUND),
    "other gradients in the steps that were kept": (rows(METRICS, lambda found: [
        each | ({"grad_norm": each["grad_norm"] / 2} if each["step"] < 6 else {}) for each in found]), FOUND),
    "a failure of before left out": (without_events("failed"), FOUND),
    "fewer steps kept": (resumed({"kept_steps": 2}), FOUND),
    "more steps dropped": (resumed({"dropped_steps": 50}), FOUND),
    "no step dropped": (resumed({"dropped_steps": 0}), FOUND),
    "the checkpoint it went on from was damaged": (resumed({"damaged_checkpoints": ["step_000003: files"]}), FOUND),
    "a damaged checkpoint of later": (resumed({"damaged_checkpoints": ["step_000099: files differ"]}), FOUND),
    "moved to eight devices": (resumed({"moved": ["mesh: {'fsdp': 1, 'tp': 1} before, {'fsdp': 8, 'tp': 1} now"]}),
                               FOUND),
    "moved where it stayed": (resumed({"moved": ["mesh: {'fsdp': 8, 'tp': 1} before, {'fsdp': 1, 'tp': 1} now"]}),
                              NAMED),
    "moved in other words": (resumed({"moved": ["to a better machine"]}), FOUND),
    "the mesh of the first attempt": (_first_attempt(r"mesh       fsdp=1", "mesh       fsdp=8"), NAMED),
    "more rows in the first attempt": (_first_attempt(r"data       \d+ rows", "data       900 rows"), NAMED),
    "another rate in the first attempt": (_first_attempt(r"rate       [\d.]+", "rate       0.001"), NAMED),
    "another model in the first attempt": (_first_attempt(r"1 layers", "26 layers"), NAMED),
    "another library in the first attempt": (_first_attempt(r"(engine     \w+  ).*", r"\g<1>numpy 9.9"), NAMED),
    "the first run looks better": (rows(f"{EARLIER}/train/metrics.jsonl", lambda found: [
        each | {"grad_norm": 0.5} for each in found]), FOUND),
}

# --- predictions from elsewhere ------------------------------------------------------------------------------------

P = "elsewhere"
CONFIG, SUMMARY, LINES = f"{P}/eval_config.json", f"{P}/eval_summary.json", f"{P}/predictions.jsonl"


def counted_again(files: Files) -> None:
    """Scorecard, samples, and the items' digest made again from the lines."""
    from workings.evaluation.summary import EvaluationSummary
    from workings.scoring.items import item_from_json, items_digest
    config, found = json.loads(files[CONFIG]), [json.loads(each) for each in files[LINES].splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "predictions.jsonl")
        path.write_bytes(files[LINES])
        again = EvaluationSummary(path, config["aggregate"])
        files[SUMMARY] = line(again.to_json(json.loads(files[SUMMARY])["problems"]))
        files[f"{P}/samples.md"] = again.samples_text().encode()
    items = {each["id"]: item_from_json({"expected_answer": each["gold"], **{key: each[key] for key in (
        "id", "prompt", "section", "category", "difficulty")}}) for each in found}
    put(CONFIG, "items", {"count": len(items), "digest": items_digest([*items.values()])})(files)


def told(*fakes: Fake) -> Fake:
    return together(*fakes, counted_again)


def missing(change: dict[str, Any]) -> Fake:
    """Other words about the completions that are missing."""
    return told(every(LINES, lambda each: change if "error" in each else {}))


OF_PREDICTIONS: dict[str, tuple[Fake, str]] = {
    "a model": (edit(CONFIG, lambda value: value | {"model": {"id": "best/model"}}), FOUND),
    "an engine": (edit(CONFIG, lambda value: value | {"engine": {"name": "jax", "platform": "tpu"}}), FOUND),
    "a tokenizer": (edit(CONFIG, lambda value: value | {"tokenizer": {"digest": "ab" * 32}}), FOUND),
    "generated by a model": (put(CONFIG, "source", {"kind": "generated"}), FOUND),
    "one sample of each item": (put(CONFIG, "source.samples", 1), FOUND),
    "another file": (put(CONFIG, "source.digest", "ab" * 32), NAMED),
    "bad samples left out": (told(rows(LINES, lambda found: [
        each for each in found if each["score"] == 1 or each["sample"] == 0])), FOUND),
    "a good sample twice": (told(rows(LINES, lambda found: [
        same for each in found for same in ([each, each] if each["score"] == 1 else [each])])), FOUND),
    "samples of one number": (told(every(LINES, lambda each: {"sample": 0})), FOUND),
    "a missing item left out": (told(rows(LINES, lambda found: [each for each in found if "error" not in each])),
                                NAMED),
    "missing completions that are no errors": (told(rows(LINES, lambda found: [
        {key: value for key, value in each.items() if key != "error"} for each in found])), FOUND),
    "missing for another reason": (missing({"error": "time limit of the service"}), FOUND),
    "missing ones with valid steps": (missing({"steps_checked": 3, "steps_valid": 3}), FOUND),
    "missing ones with an answer": (missing({"rule": "answer_tag", "extracted": "1"}), FOUND),
    "missing ones that were cut off": (missing({"truncated": True, "finish_reason": "length"}), FOUND),
    "the form was kept, and none was asked for": (told(every(LINES, lambda each: {"format_ok": True})), FOUND),
    "seeds": (told(every(LINES, lambda each: {"seed": 7})), FOUND),
    "texts without tokens": (told(every(LINES, lambda each: {"completion_tokens": 0})), FOUND),
    "shorter texts": (told(every(LINES, lambda each: {} if "error" in each else {"completion_tokens": 3})), NAMED),
    "all ended by themselves": (told(every(LINES, lambda each: {} if "error" in each else {"finish_reason": "stop"})),
                                NAMED),
    "control tokens": (told(every(LINES, lambda each: {"control_tokens": True})), FOUND),
    "no unknown ids": (put(SUMMARY, "problems", {}), NAMED),
    "a count that is not that of its names": (put(SUMMARY, "problems", {"unknown ids": {"count": 9, "first": ["x"]}}),
                                             FOUND),
    "problems of another kind": (put(SUMMARY, "problems", {"all": "fine"}), FOUND),
}
OF_ENDS = {"failed": OF_A_FAILURE, "resumed": OF_A_RESUMED_RUN, "predictions": OF_PREDICTIONS}
