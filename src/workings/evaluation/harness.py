"""Sample logs of lm-evaluation-harness (``--log_samples``): imported with their scores, or scored again by ours."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workings.errors import RequestError
from workings.evaluation.predictions import UnscoredCompletion, prediction_line
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import EvaluationSettings
from workings.evaluation.summary import EvaluationSummary
from workings.evaluation.unit import EvaluationWriter
from workings.record.digest import file_digest
from workings.scoring.form import keeps_form, reasoning_text
from workings.scoring.items import Item, items_digest
from workings.scoring.judge import Judgement
from workings.scoring.lines import read_lines
from workings.scoring.scorers import is_score
from workings.scoring.steps import check_steps

_USUAL_METRICS = ("exact_match", "acc")
_CHUNK = 1024


@dataclass(frozen=True, kw_only=True)
class HarnessLog:
    """One task's sample log, read for one filter and one metric."""

    path: Path
    metric: str
    filter: str

    @classmethod
    def open(cls, path: Path, *, metric: str = "", filter_name: str = "") -> "HarnessLog":
        """Find out what the log holds.

        Raises:
            RequestError: it is not such a log, or holds several filters or metrics and it is not said which one counts.
        """
        filters: dict[str, int] = {}
        metrics: dict[str, int] = {}
        # A first pass for names alone, line by line: a log may be larger than memory.
        for number, record in _records(path):
            if not {"doc_id", "target", "resps", "filter", "metrics"} <= record.keys():
                raise RequestError(f"{path}, line {number}: not a sample of lm-evaluation-harness",
                                   "a samples_*.jsonl file that `lm_eval --log_samples` wrote")
            filters[str(record["filter"])] = 0
            metrics.update(dict.fromkeys(map(str, record["metrics"]), 0))
        if not filters:
            raise RequestError(f"{path}: no samples", "at least one")
        usual = [name for name in _USUAL_METRICS if name in metrics]
        return cls(path=path, filter=_chosen(path, "filter", filter_name, list(filters), []),
                   metric=_chosen(path, "metric", metric, list(metrics), usual[:1]))

    def samples(self) -> Iterator[tuple[Item, dict[str, Any]]]:
        """Items and their records, in the file's order. Raises `RequestError` for an item that comes twice."""
        seen: set[str] = set()
        for number, record in _records(self.path):
            if str(record["filter"]) != self.filter:
                continue
            item = _item(record, self.path, number)
            if item.id in seen:
                raise RequestError(f"{self.path}, line {number}: document {record['doc_id']} comes twice",
                                   "one line a document and filter")
            # Ids alone are kept, because a log may hold long texts.
            seen.add(item.id)
            yield item, record

    def predictions(self) -> list[tuple[Item, str]]:
        """Items with the generated texts, to be scored by our own rules (all in memory)."""
        return [(item, _completion(record) or "") for item, record in self.samples()]


def import_harness_log(path: Path, out: Path, *, metric: str = "", filter_name: str = "") -> Scorecard:
    """Seal a sample log as an evaluation whose scores are the harness's own.

    Such an evaluation can be compared and gated like any other; its scorer is named after metric and filter, so that it
    is never compared with scores of ours.

    Args:
        path: ``samples_<task>_<date>.jsonl``.
        out: where the unit will be; must not exist.
        metric: which metric is the score; needed where there are several and none is `exact_match` or `acc`.
        filter_name: which filter counts; needed where there are several.

    Raises:
        RequestError: as `HarnessLog.open`, or ``out`` exists.
    """
    log = HarnessLog.open(path, metric=metric, filter_name=filter_name)
    # A pass before anything is written, because the configuration has the digest of all items.
    items = [item for item, _ in log.samples()]
    config = _config(log, items)
    with EvaluationWriter(out, config) as unit:
        sizes = [len(items[start:start + _CHUNK]) for start in range(0, len(items), _CHUNK)]
        done = sum(sizes[:unit.finished_chunks(sizes)])
        lines: list[dict[str, Any]] = []
        for index, (item, record) in enumerate(log.samples()):
            if index >= done:
                lines.append(_line(log, item, record))
            # Chunks end where they would end without a break, because only whole ones survive one.
            if len(lines) == _CHUNK or (index == len(items) - 1 and lines):
                unit.append(lines)
                lines = []
        summary = EvaluationSummary(unit.predictions, "mean")
        unit.seal(summary.to_json({}), summary.samples_text(), None)
    return summary.scorecard


def _line(log: HarnessLog, item: Item, record: dict[str, Any]) -> dict[str, Any]:
    value, text = record.get(log.metric), _completion(record)
    good = isinstance(value, bool) or is_score(value)
    answered = UnscoredCompletion(item=item, text=text or "", problem="" if text is not None
                                  else "no text: log likelihoods")
    filtered = record.get("filtered_resps") or [""]
    steps = check_steps(reasoning_text(answered.text))
    judgement = Judgement(
        extracted=filtered[0] if isinstance(filtered[0], str) else "", rule=f"harness:{log.filter}",
        score=float(value) if good else 0.0,  # type: ignore[arg-type] # a score is a number
        error="" if good else f"metric {log.metric} is {str(value)[:60]}, not a number from 0 to 1",
        format_ok=keeps_form(answered.text, "any"), reasoning_chars=len(reasoning_text(answered.text)),
        steps_checked=steps.checked, steps_valid=steps.valid, wrong_steps=steps.wrong)
    line = prediction_line(answered, judgement, "any")
    if text is None and good:
        del line["error"]  # multiple choice has a score and no text
    elif text is None:
        line["error"] = judgement.error
    return line


def _config(log: HarnessLog, items: list[Item]) -> dict[str, Any]:
    unknown = {"absent": "not recorded in the harness's samples"}
    return {
        "schema": "eval_config/1", "items": {"count": len(items), "digest": items_digest(items)},
        "scorer": {"name": f"lm-evaluation-harness {log.metric}, filter {log.filter}", "version": unknown},
        "extraction": unknown, "steps": EvaluationSettings().steps(), "form": "any", "aggregate": "mean",
        "limits": EvaluationSettings().limits(),
        "source": {"kind": "lm-evaluation-harness", "file": log.path.name, "digest": file_digest(log.path)},
        "made_from": {"absent": "not made from a sealed run"}, "software": {"workings": version("workings")},
        **dict.fromkeys(("decoding", "template", "tokenizer", "engine", "model"), unknown)}


def _item(record: dict[str, Any], path: Path, number: int) -> Item:
    target = str(record["target"])
    # GSM8K's target is the worked solution, with the answer after its last mark.
    answer = target.rsplit("####", 1)[1] if "####" in target else target
    arguments = record.get("arguments")
    prompt = arguments.get("gen_args_0", {}).get("arg_0", "") if isinstance(arguments, dict) else ""
    if not answer.strip():
        raise RequestError(f"{path}, line {number}: the target is empty", "a document with an expected answer")
    names = ("doc_hash", "prompt_hash", "target_hash")
    hashes: dict[str, Any] = {name: record[name] for name in names if name in record}
    return Item(id=f"doc-{record['doc_id']}", prompt=str(prompt) or "(not recorded)", extra=hashes,
                expected_answer=answer.strip())


def _completion(record: dict[str, Any]) -> str | None:
    """The first generated text, or None where the task scored log likelihoods."""
    responses = record["resps"]
    # Nested there: a list for every request, and in it a text for every repeat.
    while isinstance(responses, list) and responses:
        responses = responses[0]
    return responses if isinstance(responses, str) and "gen_args_0" in record.get("arguments", {}) and _generated(
        record) else None


def _generated(record: dict[str, Any]) -> bool:
    """Generation requests carry their settings next to the prompt, log likelihoods the continuation."""
    return isinstance(record["arguments"]["gen_args_0"].get("arg_1"), dict)


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if not path.is_file():
        raise RequestError(f"harness log: {path}", "a samples_*.jsonl file that `lm_eval --log_samples` wrote")
    for number, record in read_lines(path):
        if isinstance(record, str):
            raise RequestError(f"{path}, line {number}: {record}", "JSON lines")
        yield number, record


def _chosen(path: Path, kind: str, requested: str, present: list[str], usual: list[str]) -> str:
    if requested and requested in present:
        return requested
    if not requested and (len(present) == 1 or usual):
        return (usual or present)[0]
    raise RequestError(f"{path}: {kind} {requested or 'not chosen'}", f"one of {', '.join(present)}",
                       f"--harness-{kind} {present[0]}")
