"""``predictions.jsonl``, a line per completion of an evaluation, and ``eval_summary.json``, which follows from it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from workings.answers.extract import answer_kind
from workings.data.importing.sources import read_objects
from workings.errors import RecordError
from workings.evaluation.answer_counts import has_answer, names_expected
from workings.evaluation.scorecard import ItemResult, Scorecard, build_scorecard, interval_json, mean_interval
from workings.evaluation.settings import EvaluationSettings, aggregate_score
from workings.record.canonical import dumps, loads
from workings.record.digest import bytes_digest
from workings.record.storage import open_plain
from workings.scoring.items import Item, item_from_json
from workings.scoring.judge import Judgement
from workings.scoring.scorers import answer, is_score

KEPT_CHARS = 4_000
"""Characters that are recorded of a completion that is too long to be scored."""
MAX_PREDICTIONS_BYTES = 4 << 30
"""Largest file of predictions that is read: some hundred thousand long completions."""
_ITEM_KEYS = ("id", "prompt", "section", "category", "difficulty", "cluster", "aliases", "tolerance")
MEASURES = ("format_ok", "truncated", "completion_tokens", "reasoning_chars", "step_validity", "empty", "no_answer",
            "names_expected")
"""Measures of an item, each a mean over its completions that have it. `step_validity` is the share of valid equations;
`names_expected` is whether a completion without an answer contains the expected one."""
NAMES = ("expect a name or phrase: the scorer `answer` looks for it in the marked answer or the final sentences, as "
         "`contains` does, because a sentence says it among other words")
"""How items with names as answers are scored; part of the summary."""
_BEHAVIOUR = ("format_ok", "truncated", "empty", "step_validity", "completion_tokens", "reasoning_chars")
_SHOWN_IDS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class UnscoredCompletion:
    """One completion of one item before it is scored."""

    item: Item
    sample: int = 0
    text: str = ""
    finish_reason: str = ""
    """`stop` or `length`; empty if it was not recorded."""
    tokens: int = -1
    """Length in tokens; -1 if it is unknown."""
    seed: int = -1
    """Seed of the sampling; -1 for greedy completions."""
    control_tokens: bool = False
    """Whether the text spells control tokens that begin or end a turn; no training row may contain it."""
    problem: str = ""
    """Why there is no text to score (`missing`, `double`, …)."""
    too_long: bool = False
    """Whether the problem is the text's length; then the beginning is recorded."""

    @property
    def truncated(self) -> bool:
        """Whether the limit on new tokens cut the completion off."""
        return self.finish_reason == "length"


def sanitised(answered: UnscoredCompletion, settings: EvaluationSettings) -> UnscoredCompletion:
    """The completion as it can be recorded: with valid Unicode, and with a problem if the text is too long."""
    # JSON can contain half of a surrogate pair, which UTF-8 cannot encode.
    text = answered.text.encode("utf-8", "replace").decode("utf-8")
    if answered.problem or len(text) <= settings.max_completion_chars:
        return replace(answered, text=text)
    return replace(answered, text=text, too_long=True,
                   problem=f"too long: {len(text)} characters, the limit is {settings.max_completion_chars}")


def prediction_line(answered: UnscoredCompletion, judgement: Judgement, form: str) -> dict[str, Any]:
    """The line of ``predictions.jsonl`` for a completion; the judgement is ignored if the completion has a problem."""
    item, error = answered.item, answered.problem or judgement.error
    record: dict[str, Any] = {
        "id": item.id, "sample": answered.sample, "section": item.section, "category": item.category,
        "difficulty": item.difficulty, "prompt": item.prompt, "gold": item.expected_answer,
        "completion": {"absent": answered.problem} if answered.problem else answered.text,
        "extracted": judgement.extracted if judgement.extracted else {"absent": "no rule found an answer"},
        "rule": judgement.rule, "score": judgement.score,
        "format_ok": {"absent": "no form was asked for"} if form == "any" else judgement.format_ok,
        "truncated": answered.truncated, "empty": not answered.problem and not answered.text.strip(),
        "reasoning_chars": judgement.reasoning_chars, "steps_checked": judgement.steps_checked,
        "steps_valid": judgement.steps_valid,
        "finish_reason": answered.finish_reason or {"absent": "not recorded where the completion comes from"},
        "completion_tokens": answered.tokens if answered.tokens >= 0 else {"absent": "not counted"}}
    if answered.seed >= 0:
        record["seed"] = answered.seed
    if answered.too_long:
        record |= {"completion": answered.text[:KEPT_CHARS], "completion_chars": len(answered.text),
                   "completion_sha256": bytes_digest(answered.text.encode())}
    if judgement.question:
        record["judge"] = {"question_sha256": judgement.question, "reply": judgement.reply}
    # With these keys a line describes its whole item, so that a verifier can score again without the file of items.
    optional = {
        "cluster": item.cluster, "aliases": list(item.aliases), "tolerance": item.tolerance,
        # As text, because other people's keys may hold nulls, which a record does not have.
        "item_extra": dumps(dict(item.extra)).decode("utf-8") if item.extra else "",
        "control_tokens": answered.control_tokens, "wrong_steps": list(judgement.wrong_steps), "error": error}
    return record | {name: value for name, value in optional.items() if value}


def item_of(record: Mapping[str, Any]) -> Item:
    """The item of a line. Raises `RecordError` if the line does not describe one."""
    try:
        extra = loads(record["item_extra"]) if isinstance(record.get("item_extra"), str) else {}
        if not isinstance(extra, dict):
            raise ValueError("item_extra is no object")
        # Known keys replace extra ones of the same name.
        values = extra | {key: record[key] for key in _ITEM_KEYS if key in record}
        if "gold" in record:
            values["expected_answer"] = record["gold"]
        return item_from_json(values)
    except (ValueError, TypeError, KeyError) as error:
        raise RecordError(f"prediction {str(record.get('id'))[:60]!r} describes no item: {str(error)[:80]}") from None


def read_predictions(path: Path) -> Iterator[list[dict[str, Any]]]:
    """The lines of each item. Raises `RecordError` if the file or a line is not one of scored predictions."""
    # Only to refuse links, devices and too large files.
    open_plain(path, MAX_PREDICTIONS_BYTES).close()

    def checked() -> Iterator[dict[str, Any]]:
        for number, record in read_objects(path):
            if isinstance(record, str) or not isinstance(record.get("id"), str) or not is_score(record.get("score")):
                raise RecordError(f"{path}, line {number}: not a scored prediction")
            yield record

    yield from (list(samples) for _, samples in groupby(checked(), itemgetter("id")))


def item_result(samples: list[dict[str, Any]], aggregate: str) -> ItemResult:
    """The result of an item from its samples; the error of one sample is an error of the item."""
    first = samples[0]
    error = next((str(sample["error"]) for sample in samples if "error" in sample), "")
    values: dict[str, list[float]] = {name: [] for name in MEASURES}
    for sample in samples:
        for name, value in _measures(sample).items():
            values[name].append(value)
    measures = {name: sum(measured) / len(measured) for name, measured in values.items() if measured}
    return ItemResult(id=first["id"], score=aggregate_score(samples, aggregate), error=error,
                      section=str(first["section"]), category=str(first["category"]),
                      difficulty=str(first["difficulty"]), cluster=str(first.get("cluster", "")), measures=measures)


def form_free_accuracy(path: Path) -> float:
    """Accuracy that ignores the form of the answers: an item is right if any of its samples is.

    A sample is right by its score, by the scorer `answer`, or if it has no answer and contains the expected one.
    """
    def is_right(sample: dict[str, Any], item: Item) -> bool:
        if sample["score"] == 1 or names_expected(sample):
            return True
        return isinstance(sample["extracted"], str) and bool(answer(sample["extracted"], item))

    right = [any(is_right(sample, item_of(samples[0])) for sample in samples) for samples in read_predictions(path)]
    return sum(right) / len(right)


def _measures(sample: dict[str, Any]) -> dict[str, float]:
    """Measures of one completion. A value that was not measured is an object with the reason, and is left out."""
    measures = {name: float(value) for name, value in sample.items() if name in MEASURES and isinstance(
        value, bool | int | float)}
    if sample.get("steps_checked"):
        measures["step_validity"] = sample["steps_valid"] / sample["steps_checked"]
    return measures | {"no_answer": float(not has_answer(sample)), "names_expected": float(names_expected(sample))}


def summarize(predictions: Iterable[list[dict[str, Any]]], aggregate: str, problems: dict[str, Any]
              ) -> tuple[Scorecard, dict[str, Any]]:
    """The scorecard and ``eval_summary.json``, from each item's lines; ``problems`` are added to the summary."""
    results: list[ItemResult] = []
    rules: Counter[str] = Counter()
    names = 0
    errors: dict[str, list[str]] = {}
    for samples in predictions:
        result, first = item_result(samples, aggregate), samples[0]
        results.append(result)
        kind = answer_kind(str(first.get("gold", "")), str(first.get("prompt", "")), first.get("aliases", []))
        names += kind == "name"
        for sample in samples:
            rules[str(sample["rule"])] += 1
            if "error" in sample:
                # The kind of error is before the colon.
                errors.setdefault(str(sample["error"]).split(":", 1)[0], []).append(result.id)
    scorecard = build_scorecard(results)
    return scorecard, {
        "schema": "eval_summary/1", **({"names": {"items": names, "why": NAMES}} if names else {}),
        "scorecard": scorecard.to_json(),
        "behaviour": {name: _behaviour(name, results) for name in _BEHAVIOUR},
        "rules": dict(sorted(rules.items())),
        "errors": {kind: {"count": len(ids), "first": ids[:_SHOWN_IDS]} for kind, ids in sorted(errors.items())},
        "problems": problems}


def _behaviour(measure: str, results: Iterable[ItemResult]) -> dict[str, Any]:
    """A measure over the items that have it: their number, the mean, and its interval."""
    having = [result for result in results if measure in result.measures]
    if not having:
        return {"absent": "not measured on any item"}
    values = [result.measures[measure] for result in having]
    interval = mean_interval(values, [result.cluster for result in having])
    return {"n": len(values), "mean": sum(values) / len(values), **interval_json(interval)}
