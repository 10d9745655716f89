"""Level 2: a scorecard follows from its predictions, and the predictions get their recorded scores again."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any, get_args

from workings.answers.extract import EXTRACTION_VERSION
from workings.config.training import Scorer
from workings.errors import RecordError, RequestError
from workings.evaluation.predictions import item_of, summarize
from workings.evaluation.settings import EvaluationSettings
from workings.evidence.verify.checks.evaluation_lines import AT_LIMIT
from workings.evidence.verify.limits import MALFORMED
from workings.evidence.verify.record import Unit, field_of, section_of
from workings.evidence.verify.registry import Found, check, contradictions, differences, not_checked
from workings.evidence.verify.result import NotChecked
from workings.record.layout import EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS
from workings.record.values import is_absent
from workings.scoring.form import STEPS_VERSION
from workings.scoring.items import Item, items_digest
from workings.scoring.judge import Judgement
from workings.scoring.model_judge import JUDGE_VERSION, PROMPT, judged
from workings.scoring.scorers import SCORERS, get_scorer, is_score
from workings.scoring.worker_pool import ScoringProcess

ITEM_SECONDS = 4.0
"""Time limit for scoring one completion, in seconds; usually it takes a millisecond."""
OUR_SCORERS: tuple[str, ...] = get_args(Scorer)
"""Shipped scorers. A user's scorer is code, and code of a record is never run."""
_COMPARED = ("rule", "score", "format_ok", "reasoning_chars", "steps_checked", "steps_valid")
"""Keys of a prediction's line that are attributes of a `Judgement` as well."""


@check("recompute.items", "evaluations")
def items(unit: Unit) -> Found:
    """Count and digest of the items, recomputed from the predictions."""
    answered, config = _items(unit), unit.json_object(EVALUATION_CONFIG)
    yield from contradictions(EVALUATION_CONFIG, config, {
        "items.count": len(answered), "items.digest": items_digest(answered)}, "the predictions give")
    return f"{len(answered)} items"


@check("recompute.scorecard", "evaluations")
def summary(unit: Unit) -> Found:
    """Every cell, interval, rate and count."""
    recorded = unit.json_object(EVALUATION_SUMMARY)
    again = _summary_again(unit, recorded.get("problems", {}))
    yield from (f"{EVALUATION_SUMMARY}: {difference}" for difference in differences(recorded, again))
    return "every cell equal"


def _summary_again(unit: Unit, problems: dict[str, Any]) -> dict[str, Any]:
    """The summary of an evaluation's predictions. Raises `RecordError`."""
    aggregate = str(unit.json_object(EVALUATION_CONFIG).get("aggregate"))
    if not all(is_score(row.get("score")) for row in unit.lines(PREDICTIONS)):
        raise RecordError(f"{unit.tree_path(PREDICTIONS)}: not every line has a score")
    samples = ([*rows] for _, rows in groupby(unit.lines(PREDICTIONS), key=lambda row: row.get("id")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an overflow is no scorecard
        try:
            return summarize(samples, aggregate, problems)[1]
        except (*MALFORMED, Warning) as error:
            raise RecordError(f"{PREDICTIONS} cannot be summarized ({str(error)[:80]})") from None


def _items(unit: Unit) -> list[Item]:
    """The items in their order, as the predictions repeat them."""
    items: dict[str, Item] = {}
    for number, row in enumerate(unit.lines(PREDICTIONS), start=1):
        try:
            item = item_of(row)
        except RecordError as error:
            raise RecordError(f"{unit.tree_path(PREDICTIONS)}, line {number}: {error}") from None
        if items.setdefault(item.id, item) != item:
            raise RecordError(f"{unit.tree_path(PREDICTIONS)}, line {number}: another item {item.id[:60]!r} before it")
    return list(items.values())


def _settings(unit: Unit) -> EvaluationSettings:
    """The recorded settings of extraction and scoring. Raises `NotChecked` where they cannot be used here."""
    config, judge = unit.json_object(EVALUATION_CONFIG), _judge_of(unit)
    name = str(field_of(config, "scorer.name")) if judge is None else "answer"
    if name not in OUR_SCORERS or name not in SCORERS:
        raise NotChecked(f"scorer {name[:80]!r} is not one of this project's; its code is not run")
    try:
        scorer_version = get_scorer(name).version
    except RequestError as error:
        raise NotChecked(f"{error.given}: {error.try_next}") from None
    # Another version may honestly find another answer, so a difference would prove nothing.
    versions: dict[str, int | str] = {"extraction.version": EXTRACTION_VERSION, "steps.version": STEPS_VERSION}
    if judge is None:
        versions["scorer.version"] = scorer_version
    if other := next(contradictions("other rules", config, versions, "and here"), ""):
        raise NotChecked(other)
    rules = config["extraction"].get("rules")
    return EvaluationSettings(
        scorer=name, rules=tuple(rules) if isinstance(rules, list) else (), form=str(config.get("form")),
        max_completion_chars=int(config["limits"]["max_completion_chars"]), item_seconds=ITEM_SECONDS)


@check("recompute.scores", "evaluations")
def scores(unit: Unit) -> Found:
    """Answer and verdict of each completion against this project's own scorer, in a process with limits."""
    settings, clock, judge = _settings(unit), unit.tree.scoring, _judge_of(unit)
    version = str(field_of(unit.json(EVALUATION_CONFIG), "scorer.version"))
    if judge is not None and not (judge.get("prompt") == PROMPT and version.startswith(f"{JUDGE_VERSION} ")):
        yield f"its judge was asked by another prompt than that of version {JUDGE_VERSION}"
        return None
    if clock.reason_over:
        raise NotChecked(clock.reason_over)
    by_id = {item.id: item for item in _items(unit)}
    rows: list[dict[str, Any]] = []
    for row in unit.lines(PREDICTIONS):
        # An over-long completion was not scored: the record has its beginning, and the digest of the whole text.
        if isinstance(row.get("completion"), str) and "completion_sha256" not in row:
            rows.append(row)
        elif row.get("score") != 0:
            yield f"{str(row.get('id'))[:60]}: no completion, and a score of {row.get('score')}"
    limited: list[str] = []  # ids of completions that met a time limit in the record, and none here
    done = 0
    with ScoringProcess(settings) as process:
        clock.seconds += process.processor_seconds
        for chunk in clock.chunks(process, rows):
            items = [by_id[str(row["id"])] for row in chunk]
            judgements = process.judge([(item, row["completion"], row.get("truncated") is True)
                                        for item, row in zip(items, chunk, strict=True)])
            done += len(chunk)
            for item, row, scored in zip(items, chunk, judgements, strict=True):
                judgement = scored if judge is None else _score_of_recorded_reply(item, row, scored)
                yield from _verdict_problems(row, judgement)
                if str(row.get("error", "")).startswith(AT_LIMIT) and not judgement.error and judgement.score:
                    limited.append(str(row.get("id"))[:60])
    if done < len(rows):
        yield not_checked(f"{done} completions were scored again, and no more: {clock.reason_over}")
    if judge:
        yield not_checked(f"that {str(judge.get('model'))[:80]} gave these replies is as recorded: the judge is not "
                          "asked again", blocking=False)
    if limited:
        yield not_checked(f"{len(limited)} completions count as wrong for a limit that was not met here, such as "
                          f"{limited[0]}", blocking=False)
    return f"{len(rows)} completions scored again"


def _judge_of(unit: Unit) -> dict[str, Any] | None:
    """An evaluation's facts about the model that judged its answers; None if rules scored them."""
    config = unit.json_object(EVALUATION_CONFIG)
    return section_of(config["scorer"], "judge") if field_of(config, "scorer.name") == "judge" else None


def _score_of_recorded_reply(item: Item, row: dict[str, Any], judgement: Judgement) -> Judgement:
    """The score that a recorded reply gives, if it is the reply to the question about this completion."""
    reply = field_of(row, "judge.reply")
    if judgement.error or not isinstance(reply, str):
        return replace(judgement, score=0.0, error=judgement.error or "no reply of the judge")
    return judged(judgement, item, row["completion"], reply)


def _verdict_problems(row: dict[str, Any], judgement: Judgement) -> Iterator[str]:
    name, error = str(row.get("id"))[:60], str(row.get("error", ""))
    # A time limit depends on the machine: the recorded error is accepted if the score is 0.
    if error.startswith(AT_LIMIT):
        if row.get("score") != 0:
            yield f"{name}: {error}, and a score of {row.get('score')}"
        return
    if error and not judgement.error:
        yield f"{name}: recorded error {error[:40]!r}, and scored again no error"
        return
    expected: dict[str, Any] = {key: getattr(judgement, key) for key in _COMPARED
                                if key in row and not is_absent(row[key])}
    if judgement.question:
        expected["judge"] = {"question_sha256": judgement.question, "reply": judgement.reply}
    if "wrong_steps" in row:
        expected["wrong_steps"] = list(judgement.wrong_steps)
    extracted = row.get("extracted")
    yield from contradictions(name, {**row, "extracted": "" if is_absent(extracted) else extracted},
                              {**expected, "extracted": judgement.extracted}, "scored again")
