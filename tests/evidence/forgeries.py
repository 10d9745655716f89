"""Forgeries of a sealed run as a table: which file, which place in it, which value, and the check that finds it.

A place is a JSON pointer; of a file of lines the first part is the line's number, or ``*`` for every line. A value may
be a function of the object that holds the place (of the whole file where the pointer is empty). The run is sealed again
afterwards, with all sums right.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.evidence import reseal
from tests.record import synthetic
from workings.evaluation.summary import EvaluationSummary

Forgery = Callable[[Path], None]
Change = tuple[str, str, Any] | Forgery
"""File, pointer, value; or a function of the run, for what no value can say."""
MANIFEST, METRICS, ROWS, LOG = "run_manifest.json", "train/metrics.jsonl", "data/rows.jsonl", "train/training_log.txt"
PREDICTIONS, CARD, ASKED = (f"eval/test/{name}" for name in (
    "predictions.jsonl", "eval_summary.json", "eval_config.json"))
RECIPE, CHECKS = "config/resolved.json", "env/device_checks.json"
LAST = "checkpoints/step_000006"
GPU = {"platform": "gpu", "kind": "NVIDIA H200"}


def put(root: Any, pointer: str, value: Any) -> Any:
    """The value with another one at a place of it; changed in place but for an empty pointer."""
    if not pointer:
        return value(root) if callable(value) else value
    *way, last = pointer.removeprefix("/").split("/")
    holders = [root]
    for part in way:
        holders = [inner for each in holders for inner in (
            each if part == "*" else [each[int(part) if isinstance(each, list) else part]])]
    for each in holders:
        each[int(last) if isinstance(each, list) else last] = value(each) if callable(value) else value
    return root


def forge(run: Path, *changes: Change) -> None:
    """Make these changes; the run is not sealed again."""
    for change in changes:
        if callable(change):
            change(run)
            continue
        file, pointer, value = change
        if file.endswith((".json", ".jsonl")):
            edit = reseal.edit_lines if file.endswith("l") else reseal.edit_json
            edit(run / file, lambda root, pointer=pointer, value=value: put(root, pointer, value))
        else:
            (run / file).write_text(value)


def forgery(name: str, *changes: Change) -> Forgery:
    """A function of this name that makes these changes."""
    def forged(run: Path) -> None:
        forge(run, *changes)
    forged.__name__ = name
    return forged


def scored_again(run: Path) -> None:
    """Scorecard and samples made again from the predictions."""
    again = EvaluationSummary(run / PREDICTIONS, "mean")
    reseal.edit_json(run / CARD, lambda value: again.to_json(value["problems"]))
    (run / "eval/test/samples.md").write_text(again.samples_text())


def first_wrong(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first wrong answer called right."""
    next(row for row in rows if row["score"] == 0)["score"] = 1
    return rows


def swapped(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Two batches in the other order."""
    rows[0]["batch_digest"], rows[1]["batch_digest"] = rows[1]["batch_digest"], rows[0]["batch_digest"]
    return rows


def other_weights(run: Path) -> None:
    """Weights of another run."""
    (run / LAST / "model.safetensors").write_bytes(synthetic.safetensors_bytes([9.0] * 64))


def recommitted(run: Path) -> None:
    """The last checkpoint's own sums, made again."""
    reseal.recommit(run / LAST)


def earlier_state(run: Path) -> None:
    """The state of another step."""
    shutil.copy(run / "checkpoints" / "step_000004" / "state.json", run / LAST / "state.json")


def asked_prompt(run: Path) -> None:
    """A row trained on that is asked afterwards."""
    from workings.data.rows import prompt_digest
    first = json.loads((run / PREDICTIONS).read_bytes().splitlines()[0])
    forge(run, (ROWS, "/0/prompt_digest", prompt_digest("  " + first["prompt"].upper())))


def other_attempts(run: Path) -> None:
    """A list of attempts without this one."""
    (run.parent / "attempts.jsonl").write_text('{"run":"other","started_at":"2026-11-20T10:00:00.000Z"}\n')


def all_right(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Completions of a model that is always right."""
    right = next(row for row in rows if row["score"] == 1)
    kept = ("score", "rule", "format_ok", "reasoning_chars", "steps_checked", "steps_valid", "completion_tokens")
    return [row | {key: right[key] for key in kept} | {
        "completion": f"<reasoning>1</reasoning><answer>{row['gold']}</answer>", "extracted": row["gold"]}
        for row in rows]


TABLE: tuple[tuple[str, str, tuple[Change, ...]], ...] = (
    ("a score", "recompute.scores", ((PREDICTIONS, "", first_wrong),)),
    ("a score and the card", "recompute.scores", ((PREDICTIONS, "", first_wrong), scored_again)),
    ("the card only", "recompute.scorecard", ((CARD, "/scorecard/overall/correct", 12),
                                                (CARD, "/scorecard/overall/mean", 1))),
    ("an interval only", "recompute.scorecard", (
        (CARD, "/scorecard/overall/ci_low", lambda overall: overall["ci_low"] + 0.1),)),
    ("the hardest dropped", "recompute.items", (
        (PREDICTIONS, "", lambda rows: [row for row in rows if row["score"] == 1]), scored_again,
        (ASKED, "/items/count", 8))),
    ("the easy twice", "recompute.scorecard", (
        (PREDICTIONS, "", lambda rows: [*rows, *(row for row in rows if row["score"])]),)),
    ("a better completion, the old verdict", "recompute.scores", ((
        PREDICTIONS, "/0/completion", lambda row: f"<reasoning>1</reasoning><answer>{row['gold']}</answer>"),)),
    ("another tokenizer", "consistency.made_from", ((ASKED, "/tokenizer", {"digest": "ab" * 32}),)),
    ("completions from elsewhere", "consistency.made_from", ((ASKED, "/source", {
        "kind": "predictions", "file": "p.jsonl", "digest": "ab" * 32, "samples": 1}),)),
    ("a step left out", "consistency.steps", ((METRICS, "", lambda rows: rows[:2] + rows[3:]),)),
    ("a GPU", "consistency.device", ((CHECKS, "", lambda checks: checks | GPU), (RECIPE, "/device", "gpu"))),
    ("a GPU that was not asked for", "consistency.device", ((CHECKS, "", lambda checks: checks | GPU),)),
    ("another learning rate", "consistency.learning_rate", ((RECIPE, "/training/learning_rate", 0.02),)),
    ("another seed", "consistency.rows", ((RECIPE, "/seed", 8),)),
    ("another order of rows", "consistency.rows", ((METRICS, "", swapped),)),
    ("weights of another run", "integrity.checkpoints", (other_weights,)),
    ("the state of another step", "consistency.checkpoints", (earlier_state, recommitted)),
    ("more steps than there were", "consistency.steps", ((RECIPE, "/training/steps", 10),)),
    ("an end before the start", "consistency.time_and_memory", (
        (MANIFEST, "/finished_at", "2026-11-20T09:00:00.000Z"),)),
    ("a question trained on", "consistency.disjoint", (asked_prompt,)),
    ("other rows", "consistency.rows", ((ROWS, "/*/digest", "ab" * 32),)),
    ("nothing supervised", "form.schema", ((METRICS, "/*/supervised_tokens", 0),)),
    ("hidden attempts", "consistency.attempts", (other_attempts,)),
    ("a template filled in", "form.placeholders", ((MANIFEST, "/model_id", "<your model here>"),
                                                   (MANIFEST, "/commit_sha", "0" * 40))),
    ("null", "form.json", (("env/env_info.json", "/gpu", None),)),
    ("a token", "content.private", ((LOG, "", "HF_TOKEN is hf_" + "x" * 34 + "\n"),)),
    ("a home", "content.private", ((LOG, "", "writing /home/ada/runs/a\n"),)),
)
CAUGHT: dict[Forgery, str] = {forgery(name, *changes): check for name, check, changes in TABLE}
ONLY_ANCHOR_OR_REPLAY = [
    forgery("the whole run on another day", ("train/events.jsonl", "/*/time", "2025-01-01T10:00:00.000Z"),
            (MANIFEST, "/finished_at", "2025-01-01T10:00:09.000Z")),
    forgery("all losses", (METRICS, "/*/loss", lambda row: 1.0 / row["step"])),
    forgery("the weights", other_weights, recommitted),
    forgery("the completions", (PREDICTIONS, "", all_right), scored_again)]
"""Inventions that are consistent: only a digest kept elsewhere or another run settles them."""
