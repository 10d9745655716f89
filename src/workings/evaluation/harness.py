"""Answers with the scores of another program's harness, sealed as evaluations; samples of lm-evaluation-harness."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from workings.errors import RequestError
from workings.evaluation.predictions import UnscoredCompletion, prediction_line, sanitised, summarize
from workings.evaluation.run import unit_config
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import EvaluationSettings
from workings.evaluation.unit import EvaluationWriter
from workings.scoring.form import check_steps, reasoning_text
from workings.scoring.items import Item
from workings.scoring.judge import Judgement
from workings.scoring.scorers import is_score

if TYPE_CHECKING:
    from workings.engines.session import ModelSession

USUAL_METRICS = ("exact_match", "acc")


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredAnswer:
    """One completion of an item with the score that another program gave it."""

    item: Item
    text: str | None
    """None where the task compares log likelihoods and the model writes nothing."""
    extracted: str
    """The answer that was scored; empty: none was found."""
    score: Any
    """As it was given; what is no number from 0 to 1 becomes an error."""
    sample: int = 0
    finish_reason: str = ""
    tokens: int = -1
    log_likelihoods: tuple[float, ...] = ()
    """Of the item's choices, in their order."""


@dataclass(frozen=True, kw_only=True)
class TaskRequest:
    """What is asked of another program's task."""

    name: str
    """The task, as that program names it, or its file."""
    limit: int | None = None
    """Items of each task, from its beginning; None: all."""
    few_shot: int | None = None
    """Worked examples before each question; None: as the task says."""
    metric: str = ""
    filter: str = ""
    max_new_tokens: int | None = None
    """Longest completion in tokens; None: as the task says."""
    batch_size: int = 64
    """Prompts per batch."""


@dataclass(frozen=True, kw_only=True)
class AnsweredTask:
    """A task's answers and what the record says of how they were made."""

    answers: Sequence[ScoredAnswer]
    scorer: Mapping[str, Any]
    """Name and version of what scored."""
    source: Mapping[str, Any]
    decoding: Mapping[str, Any]
    rule: str
    """Names what found the answers."""


class Task(Protocol):
    """A task of another program, with its items."""

    def texts(self) -> Mapping[str, Sequence[str]]:
        """All texts of each item that is asked, by its id; empty where they are known only once it was asked."""
        ...

    def answer(self, session: "ModelSession") -> AnsweredTask:
        """Have a model answer all items, and the program score them."""
        ...


def harness_config(items: Sequence[Item], *, scorer: Mapping[str, Any], source: Mapping[str, Any],
                   facts: Mapping[str, Any], made_from: str | None = None) -> dict[str, Any]:
    """``eval_config.json`` of an evaluation that another program scored.

    ``facts`` is what decided the answers: `decoding`, `template`, `tokenizer`, `engine` and `model`.
    """
    return unit_config(items, EvaluationSettings(), source=dict(source), made_from=made_from) | {
        "scorer": dict(scorer), "extraction": {"absent": "another program found the answers"}, "form": "any",
        "aggregate": "mean", **facts}


def seal_answers(answers: Iterable[ScoredAnswer], out: Path, config: dict[str, Any], *, rule: str) -> Scorecard:
    """Record answers (the samples of an item together) with the scores that they have, and seal them at ``out``.

    ``rule`` names what found them. Raises `RequestError` if ``out`` exists.
    """
    with EvaluationWriter(out, config) as unit:
        unit.finished_chunks([])  # an earlier attempt's lines are written again
        unit.append([_line(answer, rule) for answer in answers])
        scorecard, summary = summarize(unit.recorded_samples(), "mean", {})
        unit.seal(summary)
    return scorecard


def scored_answer(record: Mapping[str, Any], metric: str, where: str, prefix: str = "") -> ScoredAnswer:
    """One sample of lm-evaluation-harness (and its `section`), with one of its metrics as the score.

    ``where`` names the sample in an error; ``prefix`` comes before its id, as of documents of several tasks.
    """
    choices, text = _choices(record), _completion(record)
    filtered = [*record["filtered_resps"], ""]
    found = filtered[0] if isinstance(filtered[0], str) and text is not None else ""
    if choices:
        found = _chosen_continuation(choices, metric, record.get(metric))
    return ScoredAnswer(item=_item(record, [text for text, _ in choices], where, prefix), text=text,
                        extracted=found, score=record.get(metric),
                        log_likelihoods=tuple(value for _, value in choices))


def _choices(record: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The continuations whose log likelihoods a task compares, and these; empty where it has the model write."""
    requests, values = record["arguments"], record["filtered_resps"]
    texts = [request for request in requests if len(request) > 1 and isinstance(request[1], str)]
    if not len(values) == len(requests) == len(texts):
        return []
    # Some metrics ask for each choice without the question as well.
    return [(request[1], float(value[0])) for request, value in zip(requests, values, strict=True)
            if request[0] == requests[0][0]]


def _chosen_continuation(choices: Sequence[tuple[str, float]], metric: str, score: Any) -> str:
    if len(choices) == 1:
        # Such tasks ask whether greedy decoding would write it.
        return choices[0][0].strip() if score == 1 else "another continuation"
    weight = len if metric == "acc_norm" else (lambda text: 1)
    return max(choices, key=lambda choice: choice[1] / max(1, weight(choice[0].strip())))[0].strip()


def _line(answer: ScoredAnswer, rule: str) -> dict[str, Any]:
    good = isinstance(answer.score, bool) or is_score(answer.score)
    answered = sanitised(UnscoredCompletion(
        item=answer.item, sample=answer.sample, text=answer.text or "", finish_reason=answer.finish_reason,
        tokens=answer.tokens, problem="" if answer.text is not None else "no text: log likelihoods"),
        EvaluationSettings())
    reasoning = reasoning_text(answered.text)
    steps = check_steps(reasoning)
    judgement = Judgement(
        extracted=answer.extracted, rule=rule, score=float(answer.score) if good else 0.0,
        error="" if good else f"its score is {str(answer.score)[:60]}, not a number from 0 to 1",
        reasoning_chars=len(reasoning), steps_checked=steps.checked, steps_valid=steps.valid, wrong_steps=steps.wrong)
    line = prediction_line(answered, judgement, "any")
    if answer.log_likelihoods:
        line["log_likelihoods"] = list(answer.log_likelihoods)
    if answer.text is None:
        del line["error"]  # multiple choice has a score and no text
        line |= {} if good else {"error": judgement.error}
    return line


def _item(record: Mapping[str, Any], choices: Sequence[str], where: str, prefix: str) -> Item:
    target = str(record["target"])
    # GSM8K's target is the worked solution, with the answer after its last mark.
    answer = target.rsplit("####", 1)[1] if "####" in target else target
    # Of several choices the target is the number of the right one.
    if len(choices) > 1 and target.isdecimal() and int(target) < len(choices):
        answer = choices[int(target)]
    prompt = record["arguments"][0][0]
    if not answer.strip():
        raise RequestError(f"{where}: the target is empty", "a document with an expected answer")
    names = ("doc_hash", "prompt_hash", "target_hash")
    extra: dict[str, Any] = {name: record[name] for name in names if name in record}
    if len(choices) > 1:
        extra["choices"] = list(choices)
    return Item(id=f"{prefix}doc-{record['doc_id']}", prompt=str(prompt) or "(not recorded)", extra=extra,
                section=record["section"], expected_answer=answer.strip())


def _completion(record: Mapping[str, Any]) -> str | None:
    """The first generated text, or None where the task scored log likelihoods."""
    responses = record["resps"]
    # Nested there: a list for every request, and in it a text for every repeat.
    while isinstance(responses, list) and responses:
        responses = responses[0]
    # Generation requests carry their settings next to the prompt, log likelihoods the continuation.
    request = record["arguments"][0]
    return responses if isinstance(responses, str) and len(request) > 1 and isinstance(request[1], dict) else None
