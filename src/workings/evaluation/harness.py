"""Evaluations that another program's harness scores: sealed as units; samples of lm-evaluation-harness are read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from workings.engines.session import ModelSession
from workings.errors import RequestError
from workings.evaluation.predictions import UnscoredCompletion, prediction_line, read_predictions, sanitised, summarize
from workings.evaluation.run import unit_config
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import EvaluationSettings
from workings.evaluation.unit import EvaluationWriter
from workings.scoring.form import check_steps, reasoning_text
from workings.scoring.items import Item
from workings.scoring.judge import Judgement
from workings.scoring.scorers import is_score

USUAL_METRICS = ("exact_match", "acc")


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredAnswer:
    """One completion of an item with the score that another program gave it."""

    item: Item
    text: str | None
    """None if the task compares log likelihoods, so that the model writes nothing."""
    extracted: str
    """The answer that was scored; empty if none was found."""
    score: Any
    """As the program gave it; anything but a number from 0 to 1 becomes an error."""
    sample: int = 0
    finish_reason: str = ""
    tokens: int = -1
    log_likelihoods: tuple[float, ...] = ()
    """Those of the item's choices, in their order."""


@dataclass(frozen=True, kw_only=True)
class TaskRequest:
    """A task of another program, and how to run it. None and empty: as the task says."""

    name: str
    """The task's name in that program, or its file."""
    limit: int | None = None
    """Number of items, from the task's beginning; None: all."""
    few_shot: int | None = None
    """Worked examples before each question."""
    metric: str = ""
    filter: str = ""
    max_new_tokens: int | None = None
    """Longest completion in tokens."""
    batch_size: int = 64
    """Prompts per batch."""


@dataclass(frozen=True, kw_only=True)
class AnsweredTask:
    """A task's scored answers, and how they were made, for the record."""

    answers: Sequence[ScoredAnswer]
    scorer: Mapping[str, Any]
    """Name and version of the program that scored."""
    source: Mapping[str, Any]
    decoding: Mapping[str, Any]
    rule: str
    """Name of the rule that extracted the answers."""

    @property
    def items(self) -> list[Item]:
        """The items that were answered."""
        return list({answer.item.id: answer.item for answer in self.answers}.values())


class Task(Protocol):
    """A task of another program, with its items."""

    def texts(self) -> Mapping[str, Sequence[str]]:
        """Item's id -> all its texts; empty if the program tells them only while it asks."""

    def answer(self, session: ModelSession) -> AnsweredTask:
        """Let a model answer all items and the program score the answers."""


def seal_task(found: AnsweredTask, out: Path, *, made_from: str | None, facts: Mapping[str, Any]) -> Scorecard:
    """Seal answers as an evaluation unit; an item's samples must follow each other. Raises as `EvaluationWriter`.

    ``facts``: the sections `template`, `tokenizer`, `engine` and `model` of ``eval_config.json``.
    """
    config = unit_config(found.items, EvaluationSettings(), source=dict(found.source), made_from=made_from) | {
        "scorer": dict(found.scorer), "extraction": {"absent": "another program found the answers"}, "form": "any",
        "aggregate": "mean", "decoding": dict(found.decoding), **facts}
    with EvaluationWriter(out, config) as unit:
        unit.finished_chunks([])  # removes the lines of an earlier attempt
        unit.append([_line(answer, found.rule) for answer in found.answers])
        scorecard, summary = summarize(read_predictions(unit.predictions), "mean", {})
        unit.seal(summary)
    return scorecard


def scored_answer(record: Mapping[str, Any], metric: str, where: str, prefix: str = "") -> ScoredAnswer:
    """A sample of lm-evaluation-harness scored by a metric; ``where`` names it in errors, ``prefix`` begins its id."""
    choices, text = _choices(record), _completion(record)
    found = ""
    if choices:
        found = _chosen_continuation(choices, metric, record.get(metric))
    elif text is not None and record["filtered_resps"] and isinstance(record["filtered_resps"][0], str):
        found = record["filtered_resps"][0]
    return ScoredAnswer(item=_item(record, [continuation for continuation, _ in choices], where, prefix), text=text,
                        extracted=found, score=record.get(metric),
                        log_likelihoods=tuple(log_likelihood for _, log_likelihood in choices))


def _choices(record: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The continuations that a task compares, each with its log likelihood; empty if the model writes an answer."""
    requests, values = record["arguments"], record["filtered_resps"]
    texts = [request for request in requests if len(request) > 1 and isinstance(request[1], str)]
    if not len(values) == len(requests) == len(texts):
        return []
    # A request is a prompt and a continuation. Some metrics add one without the question for each choice: leave it out.
    return [(continuation, float(value[0]))
            for (prompt, continuation, *_), value in zip(requests, values, strict=True) if prompt == requests[0][0]]


def _chosen_continuation(choices: Sequence[tuple[str, float]], metric: str, score: Any) -> str:
    texts = [continuation.strip() for continuation, _ in choices]
    if len(texts) == 1:
        # The task asks whether greedy decoding writes this continuation.
        return texts[0] if score == 1 else "another continuation"
    values = [log_likelihood for _, log_likelihood in choices]
    if metric == "acc_norm":  # per character
        values = [value / max(1, len(text)) for value, text in zip(values, texts, strict=True)]
    return texts[values.index(max(values))]


def _line(answer: ScoredAnswer, rule: str) -> dict[str, Any]:
    is_valid = isinstance(answer.score, bool) or is_score(answer.score)
    error = "" if is_valid else f"its score is {str(answer.score)[:60]}, not a number from 0 to 1"
    answered = sanitised(UnscoredCompletion(
        item=answer.item, sample=answer.sample, text=answer.text or "", finish_reason=answer.finish_reason,
        tokens=answer.tokens, problem="" if answer.text is not None else "no text: log likelihoods"),
        EvaluationSettings())
    reasoning = reasoning_text(answered.text)
    steps = check_steps(reasoning)
    judgement = Judgement(
        extracted=answer.extracted, rule=rule, score=float(answer.score) if is_valid else 0.0, error=error,
        reasoning_chars=len(reasoning), steps_checked=steps.checked, steps_valid=steps.valid, wrong_steps=steps.wrong)
    line = prediction_line(answered, judgement, "any")
    if answer.log_likelihoods:
        line["log_likelihoods"] = list(answer.log_likelihoods)
    if answer.text is None:
        del line["error"]  # multiple choice has a score without a text
        if error:
            line["error"] = error
    return line


def _item(record: Mapping[str, Any], choices: Sequence[str], where: str, prefix: str) -> Item:
    target = str(record["target"])
    if len(choices) > 1 and target.isdecimal() and int(target) < len(choices):  # the number of the right choice
        answer = choices[int(target)]
    else:  # GSM8K's target is a worked solution, with the answer after its last mark
        answer = target.rpartition("####")[2]
    prompt = record["arguments"][0][0]
    if not answer.strip():
        raise RequestError(f"{where}: the target is empty", "a document with an expected answer")
    extra: dict[str, Any] = {name: record[name] for name in ("doc_hash", "prompt_hash", "target_hash")}
    if len(choices) > 1:
        extra["choices"] = list(choices)
    return Item(id=f"{prefix}doc-{record['doc_id']}", prompt=str(prompt) or "(not recorded)", extra=extra,
                section=record["section"], expected_answer=answer.strip())


def _completion(record: Mapping[str, Any]) -> str | None:
    """The first generated text, or None if the task compared log likelihoods."""
    # Next to the prompt a request to write has its settings, and one to compare has the continuation.
    is_written = isinstance(record["arguments"][0][1], dict)
    # For each request a list of its repetitions: [["The answer is 4."]].
    return str(record["resps"][0][0]) if is_written else None
