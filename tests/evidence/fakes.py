"""Fakes about a real record, each sealed again with all sums right, by kind: what is changed, and what finds it.

A fake is a function that changes files in memory. Where a forger would have to change several files to be believed, it
changes them. ``SAID`` means a fake that nothing in the record contradicts: the answer names the field.
"""

import json
import re
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.evidence import walk
from workings.evidence.verify.checks.data_order import batches_of, next_position, planned_steps
from workings.evidence.verify.load import load
from workings.record.attempts import line_digest
from workings.record.canonical import line
from workings.record.digest import json_digest
from workings.record.pace import pace
from workings.scoring.items import item_from_json, items_digest

Files = dict[str, bytes]
Fake = Callable[[Files], None]
SAID = "said, not checked"
RUN = "a/"
MANIFEST, METRICS, ROWS = RUN + "run_manifest.json", RUN + "train/metrics.jsonl", RUN + "data/rows.jsonl"
EVENTS, LOG, README = RUN + "train/events.jsonl", RUN + "train/training_log.txt", RUN + "README.md"
EVAL = RUN + "eval/items/"
PREDICTIONS, ASKED, CARD = EVAL + "predictions.jsonl", EVAL + "eval_config.json", EVAL + "eval_summary.json"
PLAN, MEASURED, ENVIRONMENT = RUN + "plan/plan.json", RUN + "plan/measured.json", RUN + "env/env_info.json"
CHECKS, DIGESTS = RUN + "env/device_checks.json", RUN + "data/digests.json"
SHAPE, RECIPE, WORDS = RUN + "config/model_shape.json", RUN + "config/recipe.yaml", RUN + "config/overrides.json"
LAST = RUN + "checkpoints/step_000012/"


def edit(name: str, change: Callable[[Any], Any]) -> Fake:
    """Change a JSON file's value in place, or replace it by what comes back."""
    def fake(files: Files) -> None:
        value = json.loads(files[name])
        files[name] = line(change(value) or value)
    return fake


def put(name: str, place: str, value: Any) -> Fake:
    """Another value at a dotted place."""
    def change(root: Any) -> None:
        *way, last = place.split(".")
        here = root
        for part in way:
            here = here[part]
        here[last] = value
    return edit(name, change)


def rows(name: str, change: Callable[[list[dict[str, Any]]], Any]) -> Fake:
    """Change the lines of a file in place, or replace them by what comes back."""
    def fake(files: Files) -> None:
        found = [json.loads(text) for text in files[name].splitlines()]
        files[name] = b"".join(map(line, change(found) or found))
    return fake


def row(name: str, number: int, **values: Any) -> Fake:
    """Other values in one line."""
    return rows(name, lambda found: found[number].update(values))


def every(name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Fake:
    """Other values in every line."""
    return rows(name, lambda found: [each | change(each) for each in found])


def text(name: str, old: str, new: str) -> Fake:
    """Other words in a text."""
    def fake(files: Files) -> None:
        assert old.encode() in files[name], (name, old)
        files[name] = files[name].replace(old.encode(), new.encode())
    return fake


def add(name: str, data: bytes) -> Fake:
    return lambda files: files.__setitem__(name, data)


def gone(*names: str) -> Fake:
    """Files, or folders of them, left out."""
    def fake(files: Files) -> None:
        for name in [name for name in files if name.startswith(names)]:
            del files[name]
    return fake


def together(*fakes: Fake) -> Fake:
    """Several changes, as one fake."""
    def fake(files: Files) -> None:
        for each in fakes:
            each(files)
    return fake


def recipe(place: str, value: Any) -> Fake:
    """The resolved recipe, with its digest in the list of attempts."""
    def fake(files: Files) -> None:
        put(RUN + "config/resolved.json", place, value)(files)
        resolved = json.loads(files[RUN + "config/resolved.json"])
        row("attempts.jsonl", 0, config_digest=json_digest(resolved))(files)
    return fake


def scored_again(files: Files) -> None:
    """Scorecard, samples, and the items' count and digest made again from the predictions."""
    from workings.evaluation.summary import EvaluationSummary
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "predictions.jsonl")
        path.write_bytes(files[PREDICTIONS])
        again = EvaluationSummary(path, "mean")
        files[CARD] = line(again.to_json({}))
        files[EVAL + "samples.md"] = again.samples_text().encode()
    found = [json.loads(each) for each in files[PREDICTIONS].splitlines()]
    items = [item_from_json({"expected_answer": each["gold"], **{key: each[key] for key in (
        "id", "prompt", "section", "category", "difficulty")}}) for each in found]
    put(ASKED, "items", {"count": len(items), "digest": items_digest(items)})(files)


def header(name: str, change: Callable[[dict[str, Any]], Any]) -> Fake:
    """Another header of a safetensors file, over the same bytes."""
    def fake(files: Files) -> None:
        data = files[name]
        size = struct.unpack("<Q", data[:8])[0]
        value = json.loads(data[8:8 + size])
        new = json.dumps(change(value) or value, separators=(",", ":")).encode()
        files[name] = struct.pack("<Q", len(new)) + new + data[8 + size:]
    return fake


def cut(count: int) -> Fake:
    """A log of so many steps, which is said to be all that was asked for."""
    return together(rows(METRICS, lambda found: found[:count]), recipe("training.steps", count))


def moved_checkpoint(files: Files) -> None:
    """The checkpoint of step 12 called that of step 9."""
    for name in [name for name in files if name.startswith(RUN + "checkpoints/step_000009/")]:
        files[name] = files[LAST + name.rpartition("/")[2]]
    put(RUN + "checkpoints/step_000009/state.json", "step", 9)(files)
    put(RUN + "checkpoints/step_000009/COMMIT.json", "step", 9)(files)


def known_rows(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the model wrote called right."""
    return [each | {"gold": each["completion"], "score": 1} for each in found]


TEXTS: dict[str, tuple[Fake, str]] = {
    "README: loss": (text(README, "5.8427 at", "5.1427 at"), "consistency.views"),
    "README: nothing": (add(README, b"\n"), "consistency.views"),
    "log: loss": (text(LOG, "step 5/12  loss 5.6", "step 5/12  loss 1.6"), SAID),
    "log: no step": (lambda files: add(LOG, files[LOG].split(b"step 1/")[0])(files), SAID),
    "recipe: rate": (text(RECIPE, "learning_rate: 0.5", "learning_rate: 0.1"), "consistency.recipe"),
    "recipe: another": (add(RECIPE, b"name: unigram\n"), "consistency.recipe"),
    "RESULTS.md": (add(RUN + "RESULTS.md", b"We reach 98 %.\n"), SAID),
    "results.json": (add(RUN + "results.json", b'{"accuracy":0.98}\n'), SAID),
    "a page in a folder": (add(RUN + "env/summary.md", b"# Best\n"), SAID),
    "samples of the evaluation": (text(EVAL + "samples.md", "1111", "155"), "consistency.views"),
    "a text next to the evaluation": (add(EVAL + "NOTES.md", b"All right.\n"), SAID),
    "a text next to the runs": (add("RESULTS.md", b"98 %\n"), SAID),
    "status reason": (put(MANIFEST, "status_reason", "it converged"), "consistency.views"),
}
TENSORS: dict[str, tuple[Fake, str]] = {
    "wider, with its parameters": (together(put(SHAPE, "width", 16), put(MANIFEST, "parameters", 6848)),
                                   "consistency.tensors"),
    "no shape": (gone(SHAPE), SAID),
    "a shape that its bytes do not fill": (header(LAST + "model.safetensors", lambda found: found["logits"].update(
        shape=[344])), "content.plain"),
    "another format": (header(LAST + "model.safetensors", lambda found: found["logits"].update(dtype="F32")),
                       "content.plain"),
    "60 kB in a header": (header(LAST + "model.safetensors", lambda found: {
        "__metadata__": {"note": "x" * 60_000}, **found}), "content.plain"),
    "spaces in a header": (lambda files: add(LAST + "model.safetensors", struct.pack("<Q", 60_000) + files[
        LAST + "model.safetensors"][8:].split(b"}}")[0].ljust(59_998) + b"}}" + b"\0" * 2760)(files), "content.plain"),
    "a name of 300 letters": (header(LAST + "model.safetensors", lambda found: {"x" * 300: found["logits"]}),
                              "content.plain"),
    "another tensor's name": (header(LAST + "model.safetensors", lambda found: {"weights": found["logits"]}), SAID),
    "other numbers": (lambda files: add(LAST + "model.safetensors", files[LAST + "model.safetensors"][:-8] + b"\0" * 8)(
        files), SAID),
    "no step that changed a weight": (every(METRICS, lambda found: found | {"share_of_weights_changed": 0}),
                                      "consistency.checkpoints"),
    "no moments": (gone(LAST + "optimizer.safetensors"), "consistency.checkpoints"),
    "a checkpoint without weights": (gone(LAST + "model.safetensors"), "consistency.checkpoints"),
    "checkpoints without weights": (gone(LAST + "model.safetensors", LAST + "optimizer.safetensors", RUN
                                         + "checkpoints/step_000009/model.safetensors",
                                         RUN + "checkpoints/step_000009/optimizer.safetensors"),
                                    "consistency.checkpoints"),
    "no checkpoints": (gone(RUN + "checkpoints/"), "consistency.checkpoints"),
    "no last checkpoint": (gone(LAST), "consistency.checkpoints"),
    "no earlier checkpoint": (gone(RUN + "checkpoints/step_000009/"), "consistency.checkpoints"),
    "a later checkpoint under an earlier name": (moved_checkpoint, "consistency.checkpoints"),
    "another tokenizer": (text(RUN + "config/tokenizer/tokenizer.json", "reasoning", "reasonings"),
                          "consistency.tokenizer"),
    "another end of text": (text(RUN + "config/tokenizer/tokenizer_config.json", "<eos>", "<bos>"),
                            "consistency.tokenizer"),
}
STEPS: dict[str, tuple[Fake, str]] = {
    "faster": (every(METRICS, lambda each: {"seconds": 1e-6}), "consistency.checkpoints"),
    "a log cut": (cut(9), "consistency.checkpoints"),
    "a log cut, the checkpoint renamed": (together(cut(9), moved_checkpoint, gone(LAST)), "consistency.checkpoints"),
    "interrupted and called complete": (together(cut(9), gone(LAST)), "consistency.recipe"),
    "a row fewer": (rows(ROWS, lambda found: found[1:]), "consistency.rows"),
    "a row more": (rows(ROWS, lambda found: [*found, found[0] | {"id": "more"}]), "consistency.rows"),
    "a row dropped for nothing": (rows(ROWS, lambda found: [*found, {"id": "x", "status": "dropped", "tokens": 9,
                                                                     "reason": "odd"}]), "consistency.rows"),
    "a dropped row more": (rows(ROWS, lambda found: [*found, {
        "id": "x", "status": "dropped", "tokens": 900, "reason": "900 tokens, and data.max_length is 64"}]),
        "consistency.rows"),
    "losses in the middle": (every(METRICS, lambda each: {} if each["step"] in (1, 12) else {"loss": 5.0}), SAID),
    "a failure in the events": (rows(EVENTS, lambda found: [*found, {"kind": "failed", "reason": "at step 3",
                                                                   "time": found[-1]["time"]}]),
                                "consistency.steps"),
    "a smoke run": (put(MANIFEST, "facts.smoke", True), "consistency.views"),
}
EVALUATIONS: dict[str, tuple[Fake, str]] = {
    "what it wrote is right": (together(rows(PREDICTIONS, known_rows), scored_again), "consistency.announced"),
    "the wrong ones left out": (together(rows(PREDICTIONS, lambda found: found[:3]), scored_again),
                                "consistency.announced"),
    "easier items": (together(every(PREDICTIONS, lambda each: {"prompt": "What is 1+1?"}), scored_again),
                     "consistency.announced"),
    "sections renamed": (together(every(PREDICTIONS, lambda each: {"section": "hard"}), scored_again),
                         "consistency.announced"),
    "announced anew": (together(rows(PREDICTIONS, lambda found: found[:3]), scored_again, lambda files: row(
        EVENTS, 1, items=json.loads(files[ASKED])["items"])(files)), SAID),
    "not announced": (rows(EVENTS, lambda found: found[:1]), SAID),
    "another scorer": (put(ASKED, "scorer.name", "exact"), "consistency.announced"),
    "ended by a person": (row(PREDICTIONS, 0, finish_reason="enough", truncated=False), "consistency.answers"),
    "more tokens than asked": (every(PREDICTIONS, lambda each: {"completion_tokens": 9}), "consistency.answers"),
    "a completion missing": (row(PREDICTIONS, 0, completion={"absent": "missing"}), "consistency.answers"),
    "standing twice": (lambda files: files.update({
        name.replace("eval/items/", "eval/again/"): data for name, data in files.items() if name.startswith(EVAL)}),
        SAID),
    "removed": (gone(EVAL), SAID),
    "under another name": (lambda files: [files.__setitem__(name.replace("eval/items/", "eval/best/"), files.pop(name))
                                          for name in [each for each in files if each.startswith(EVAL)]] and None,
                           SAID),
    "announced other settings": (row(EVENTS, 1, decoding={"samples": 9}),
                                 "consistency.announced"),
}
TIMES: dict[str, tuple[Fake, str]] = {
    "in the year 9999": (edit(MANIFEST, lambda found: found | {"finished_at": "9999-01-01T00:00:00.000Z"}),
                         "consistency.time_and_memory"),
    "all a year back": (together(
        put(MANIFEST, "finished_at", "2025-11-24T05:00:09.000Z"),
        every(EVENTS, lambda each: {"time": "2025-11-24T05:00:01.000Z"}),
        every("attempts.jsonl", lambda each: {"started_at": "2025-11-24T05:00:00.000Z"})),
        "consistency.time_and_memory"),
    "no start": (row(EVENTS, 0, kind="begun"), "consistency.time_and_memory"),
    "no attempts": (gone("attempts.jsonl"), SAID),
}
PLANS: dict[str, tuple[Fake, str]] = {
    "another version ran": (put(ENVIRONMENT, "packages.workings", "9.0"), "consistency.announced"),
}
KINDS: dict[str, dict[str, tuple[Fake, str]]] = {
    "texts": TEXTS, "tensors": TENSORS, "steps": STEPS, "evaluations": EVALUATIONS, "times": TIMES, "plans": PLANS}


def told(files: Files, fake: Fake) -> tuple[list[str], list[str]]:
    """Checks that fail for a fake, and changed fields or files that the answer names as not checked."""
    changed = dict(files)
    fake(changed)
    sealed = walk.resealed(changed)
    found = walk.verified(sealed)
    names = {name for name in files.keys() | changed.keys() if files.get(name) != changed.get(name)}
    # What is missing is named by the checks that could not be made for it.
    marked = [one.text for one in found.unchecked_fields if not names & sealed.keys() or any(
        name.endswith(one.file) for name in names)]
    return sorted(check.id for check in found.checks if check.verdict == "failed"), marked


def _log_with_the_pace_of(log: str, lines: list[dict[str, Any]]) -> str:
    """A training log whose lines of steps tell the pace that these metrics give."""
    def told(match: re.Match[str]) -> str:
        now = pace(lines[:int(match[2])], len(lines))
        return match[1] + ("" if now is None else f"  {now.rate_text}  {now.left_text}")
    return re.sub(r"(?m)^(step (\d+)/.*?  lr \S+).*$", told, log)


def another_seed_told_everywhere(files: Files) -> None:
    """Another seed in every file, and batches, counts, places and digests made again as it gives them.

    Losses and weights stay: nothing in the record says that they belong to other batches. Steps taken again do.
    """
    together(recipe("seed", 6), text(RECIPE, "seed: 5", "seed: 6"),
             text(README, "seed 5", "seed 6"), put(ASKED, "decoding.seed", 6))(files)
    events = [json.loads(each) for each in files[EVENTS].splitlines()]
    attempt = json.loads(files["attempts.jsonl"])
    events[0]["attempt"], events[1]["decoding"]["seed"] = line_digest(attempt), 6
    files[EVENTS] = b"".join(map(line, events))
    unit = next(unit for unit in load(walk.MemoryTree(files)).runs)
    steps = planned_steps(unit)
    lines = [row | planned.counts | {"batch_digest": planned.digest} for row, planned in steps]
    files[METRICS] = b"".join(map(line, lines))
    sums = {name: sum(row[name] for row in lines) for name in ("tokens", "supervised_tokens")}
    learned = f"on {sums['supervised_tokens']:,} supervised tokens;".encode()
    files[README] = re.sub(rb"on [\d,]+ supervised tokens;", learned, files[README])
    padding = batches_of(unit).padding_share()
    files[LOG] = _log_with_the_pace_of(files[LOG].decode(), lines).encode()
    for name in (README, LOG):
        files[name] = re.sub(rb"[\d.]+ % padding", f"{100 * padding:.1f} % padding".encode(), files[name])
    for folder in (LAST, RUN + "checkpoints/step_000009/"):
        state = json.loads(files[folder + "state.json"])
        done = state["step"]
        state["facts"] |= {name: sum(row[name] for row in lines[:done]) for name in sums} | {
            "position": next_position(steps[done - 1][1].at, batches_of(unit)).to_json()}
        files[folder + "state.json"] = line(state)


ONLY_A_REPLAY: dict[str, tuple[Fake, str]] = {
    "another seed, told everywhere": (another_seed_told_everywhere, "replay.steps")}
"""Consistent in themselves: what finds each when steps are taken again."""
