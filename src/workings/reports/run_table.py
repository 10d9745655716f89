"""A table of runs: settings, cost, digests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workings.config.algorithm import find_algorithm
from workings.evaluation.comparison.paired import steps_versions
from workings.record.manifest import DRAWN_FROM, RunManifest
from workings.record.number_text import duration, percent
from workings.record.values import Absent
from workings.reports.gather import RunView
from workings.scoring.model_judge import judge_text

ROOT = "Root digest"
EXAMPLES = {"pairs": "preference pairs", "verdicts": "verdicts"}  # other than traces, in words


def _measure(entry: dict[str, Any], is_share: bool) -> str:
    if "absent" in entry:
        return str(entry["absent"])
    scale, unit = (100, " %") if is_share else (1, "")
    text = f"{scale * entry['mean']:.1f}{unit}"
    if not isinstance(entry["ci_low"], dict):
        text += f" ({scale * entry['ci_low']:.1f} to {scale * entry['ci_high']:.1f})"
    return f"{text}, {count(entry['n'])} items"


def count(value: int) -> str:
    """Digits in groups of three."""
    # U+202F, a narrow no-break space.
    return f"{value:,}".replace(",", "\u202f")


def learned_from(config: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Training data and algorithm of a run, from its resolved recipe and its manifest's facts: `rewards (grpo)`."""
    algorithm = _algorithm(config)
    name = algorithm["name"]
    if name == "sft":
        samples = facts.get(DRAWN_FROM)
        return f"traces, {count(sum(samples.values()))} of them samples" if isinstance(samples, dict) else "traces"
    examples = EXAMPLES.get(find_algorithm(name).examples)
    if examples is not None:
        pairs = facts.get("pairs")
        return f"{count(pairs)} {examples} ({name})" if isinstance(pairs, int) else f"{examples} ({name})"
    return f"the teacher {algorithm['teacher']} ({name})" if "teacher" in algorithm else f"rewards ({name})"


def _algorithm(config: Mapping[str, Any]) -> dict[str, Any]:
    """The section `algorithm` of a resolved recipe; records from before it learn by `sft`."""
    algorithm = config.get("algorithm")
    return {"name": "sft", **algorithm} if isinstance(algorithm, dict) else {"name": "sft"}


def _loss(manifest: RunManifest) -> str:
    loss, name = manifest.final_loss, _algorithm(manifest.config)["name"]
    text = loss.absent if isinstance(loss, Absent) else f"{loss:.4f}"
    return text if name == "sft" else f"{text} (value of the objective of {name})"


MEASURES = (
    ("format_ok", "In the trained form", True),
    ("truncated", "Cut off at the length limit", True),
    ("empty", "Empty", True),
    ("step_validity", "Valid equations in the steps", True),
    ("completion_tokens", "Tokens per answer", False),
    ("reasoning_chars", "Characters of reasoning", False),
)
"""Measure in an evaluation's summary, its name on the page, whether it is a share."""
_FACTS: dict[str, Callable[[RunManifest], str]] = {
    "Status": lambda m: m.status,
    "Model": lambda m: f"{m.model_id} ({m.architecture}), {count(m.parameters)} parameters",
    "Learned from": lambda m: learned_from(m.config, m.facts),
    "Engine and device": lambda m: f"{m.engine} on {m.device.count} x {m.device.kind}",
    "Steps": lambda m: f"{count(m.completed_steps)} of {count(m.planned_steps)}",
    "Rows per step": lambda m: count(m.global_batch),
    "Supervised tokens": lambda m: count(m.supervised_tokens),
    "Tokens": lambda m: count(m.tokens),
    "Final training loss": _loss,
    "Seconds in steps": lambda m: duration(m.training_seconds),
    "Seed": lambda m: str(m.seed),
    "Code": lambda m: m.commit_sha.absent if isinstance(m.commit_sha, Absent) else m.commit_sha,
}


def run_rows(views: Sequence[RunView]) -> dict[str, list[str]]:
    """Facts from the manifests, a cell for each run; a standalone evaluation has only its digest."""
    rows = {}
    if any(view.manifest is not None for view in views):
        for name, fact in _FACTS.items():
            rows[name] = [fact(view.manifest) if view.manifest else "not a run" for view in views]
        rows["Memory"] = [view.memory.sentence() if view.memory else "not recorded" for view in views]
    return rows | {ROOT: [view.root for view in views]}


def behaviour_rows(views: Sequence[RunView]) -> dict[str, list[str]]:
    """The answers of evaluated runs: form, truncation, arithmetic, length, with intervals if possible."""
    evaluations = [view.evaluation for view in views if view.evaluation]
    if not evaluations:
        return {}
    summaries = [evaluation.summary for evaluation in evaluations]
    answers = [evaluation.answer_counts for evaluation in evaluations]
    rows = {}
    for key, title, is_share in MEASURES:
        # Two versions of the checker would look like a difference between models.
        if key != "step_validity" or not steps_versions(evaluation.config for evaluation in evaluations):
            entries = [summary["behaviour"].get(key, {"absent": "not measured"}) for summary in summaries]
            rows[title] = [_measure(entry, is_share) for entry in entries]
    rows |= {
        "Completions without an answer": [percent(one.no_answer) for one in answers],
        "Different answers": [f"{count(one.distinct_answers)}, the most frequent in {percent(one.same_answer)}"
                              for one in answers],
        "Accuracy of always giving the most frequent expected answer": [
            percent(one.majority_accuracy) for one in answers]}
    judges = [judge_text(evaluation.config) for evaluation in evaluations]
    if any(judges):
        rows["Judge"] = [judge or "rules" for judge in judges]
    return rows | {"Answers found by rule": [", ".join(
        f"{rule} {count(number)}" for rule, number in summary["rules"].items()) for summary in summaries]}
