"""Level 1: settings and lines of an evaluation agree with each other, and with the run around it."""

import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from workings.evaluation.cache import base_key
from workings.evaluation.external import MAX_PROBLEMS_SHOWN
from workings.evidence.verify.limits import MALFORMED
from workings.evidence.verify.record import Unit, field_of
from workings.evidence.verify.registry import Found, check, contradictions, is_our_engine, require_train
from workings.plugins import OURS
from workings.record.layout import EVALUATION_CONFIG, EVALUATION_SUMMARY, METRICS, PREDICTIONS
from workings.record.metrics import RIGHT, WRONG
from workings.record.values import is_absent

# Where answers come from, `source.kind`.
GENERATED = "generated"
ANSWERED_HERE = (GENERATED, "task")  # the evaluation's model answered
ELSEWHERE = "predictions"  # another program answered
OF_A_MODEL = ("decoding", "engine", "model", "template", "tokenizer")
"""Settings of a model's answers, unknown for predictions from elsewhere."""
PROBLEM_KINDS = ("lines without an id", "unknown ids", "unreadable lines")
_BASE = re.compile(r"/base-[A-Za-z0-9._-]{1,60}-([0-9a-f]{12})$")

# Beginnings of errors.
AT_LIMIT = ("time limit", "the scoring process died")  # they depend on the machine: only the score of 0 is compared
NOT_JUDGED = (*AT_LIMIT, "scorer raised", "too long: ")  # the text was not scored
DOUBLE = "double: "  # predictions from elsewhere have too many lines of the item
NO_LINE = ("missing: ", DOUBLE)  # they have no line of the item, or too many
UNJUDGED = {"rule": "none", "score": 0, "reasoning_chars": 0, "steps_checked": 0, "steps_valid": 0}
"""Values in a line whose completion was not scored."""
MAX_ANSWER_TOKENS = 128
"""Longest answer, in tokens, that rounding is not expected to change."""


@check("consistency.answers", "evaluations")
def answers(unit: Unit) -> Found:
    """Truncated exactly at the limit, empty exactly without text, no completion of the model missing; settings."""
    config, rows = unit.json_object(EVALUATION_CONFIG), unit.lines(PREDICTIONS)
    for row in rows:
        yield from (f"{str(row.get('id'))[:60]}: {problem}" for problem in _line_problems(row, config))
    yield from (f"{EVALUATION_CONFIG}: {problem}" for problem in _setting_problems(unit, config))
    yield from _name_problems(unit, config)
    if field_of(config, "source.kind") == ELSEWHERE:
        yield from _elsewhere_problems(unit, config)
    elif config["source"] == {"kind": GENERATED} and unit.json_object(EVALUATION_SUMMARY).get("problems"):
        yield f"{EVALUATION_SUMMARY} names problems of a file of predictions, and none exists"
    return f"{len(rows)} lines"


def _name_problems(unit: Unit, config: dict[str, Any]) -> Iterator[str]:
    """The name of an untrained model's evaluation, which ends with digits of all that decides its answers."""
    match = _BASE.search(f"/{unit.path}")
    if unit.parent is not None or match is None or field_of(config, "software.workings") != version(OURS):
        return
    with suppress(*MALFORMED):  # another evaluation in a folder of such a name
        key = base_key(config)
        if key != match[1]:
            yield f"its name ends with {match[1]}, what decides its answers gives {key}"


def _line_problems(row: dict[str, Any], config: dict[str, Any]) -> Iterator[str]:
    """What a line says of the end of its completion, of its length and of its form, against its text and the settings.

    True and false are compared by identity: in a record 1 is not true.
    """
    text, reason, tokens = row.get("completion"), row.get("finish_reason"), row.get("completion_tokens")
    kind, limit = field_of(config, "source.kind"), field_of(config, "decoding.max_new_tokens")
    if "truncated" in row and row["truncated"] is not (reason == "length"):
        yield f"truncated is {row['truncated']}, it ended by {str(reason)[:20]!r}"
    is_empty = isinstance(text, str) and not text.strip()
    if row.get("empty", is_empty) is not is_empty:
        yield f"empty is {row['empty']}"
    if config.get("source") == {"kind": GENERATED}:
        if not isinstance(text, str):
            yield "no completion, although a model wrote it"
        if reason not in ("stop", "length"):
            yield f"it ended by {str(reason)[:20]!r}"
        if type(tokens) is not int or tokens < 0 or (type(limit) is int and tokens > limit):
            yield f"{str(tokens)[:20]} tokens, at most {limit} were asked for"
    if "format_ok" in row and is_absent(row["format_ok"]) is not (config.get("form") == "any"):
        yield f"format_ok is {str(row['format_ok'])[:40]}, the requested form is {str(config.get('form'))[:20]!r}"
    if isinstance(text, str) and text.strip() and tokens == 0:
        yield f"no tokens, and a completion of {len(text)} characters"
    # Our engines do not count the token that ends a completion, but it is one of those that the limit allows.
    is_ours = is_our_engine(field_of(config, "engine.name"))
    if reason == "stop" and is_ours and type(limit) is int and tokens == limit:
        yield f"it stopped by itself, but has the {limit} tokens of the limit"
    # Other programs score lines without text.
    if kind in (GENERATED, ELSEWHERE):
        yield from _unjudged_problems(row)


def _setting_problems(unit: Unit, config: dict[str, Any]) -> Iterator[str]:
    """Settings that the evaluation's own lines, its other settings or its run contradict."""
    source, limit = config["source"], field_of(config, "limits.max_completion_chars")
    kind = source.get("kind")
    lengths = [len(row["completion"]) for row in unit.lines(PREDICTIONS)
               if isinstance(row.get("completion"), str) and "error" not in row and "completion_chars" not in row]
    longest = max(lengths, default=0)
    if type(limit) is int and longest > limit:
        yield f"limits.max_completion_chars is {limit}, a completion was scored of {longest}"
    if kind not in (*ANSWERED_HERE, ELSEWHERE):
        yield f"source.kind is {str(kind)[:40]!r}, which no evaluation has"
    if kind == GENERATED:
        if set(source) != {"kind"}:
            yield f"generated, and source has {', '.join(sorted(source))[:80]}"
        yield from (f"generated, but {name} is missing" for name in ("decoding", "engine")
                    if name in config and is_absent(config[name]))
    elif kind in ANSWERED_HERE and is_absent(config.get("engine")):
        yield "a task that a model answered, but the engine is missing"
    devices = field_of(config, "engine.devices")
    if devices is not None and (type(devices) is not int or devices < 1):
        yield f"engine.devices is {str(devices)[:20]}"
    trained = unit.parent.section("data").get("template") if unit.parent is not None else None
    name = field_of(config, "template.name")
    if trained is not None and name is not None and name != trained:
        yield f"template.name is {str(name)[:40]!r}, the run's is {str(trained)[:40]!r}"


def _unjudged_problems(row: dict[str, Any]) -> Iterator[str]:
    """A line without a text, or with an unscorable text, has a reason and no score."""
    text, error = row.get("completion"), str(row.get("error", ""))
    if isinstance(text, str) and not error.startswith(NOT_JUDGED):
        return
    reason = field_of(text, "absent")
    if not isinstance(text, str) and row.get("error") != reason:
        yield f"no completion for {str(reason)[:60]!r}, and the error is {error[:60]!r}"
    judged = [key for key, value in UNJUDGED.items() if row.get(key, value) != value]
    if judged or not is_absent(row.get("extracted", {"absent": ""})) or row.get("format_ok") is True:
        yield f"not scored because of {error[:40]!r}, but it has {', '.join(judged) or 'an answer or a form'}"
    has_end = row.get("truncated") is not False or not all(
        is_absent(row.get(key)) for key in ("finish_reason", "completion_tokens"))
    if error.startswith(NO_LINE) and has_end:
        yield f"{error[:40]!r}, but it has an end"


def _elsewhere_problems(unit: Unit, config: dict[str, Any]) -> Iterator[str]:
    """Settings that predictions from elsewhere cannot have, missing samples, impossible `problems` of the summary."""
    yield from (f"{EVALUATION_CONFIG}: {key} is set for existing predictions" for key in OF_A_MODEL
                if key in config and not is_absent(config[key]))
    yield from (f"{EVALUATION_CONFIG}: source does not tell the {key} of the predictions" for key in ("file", "digest")
                if not isinstance(config["source"].get(key), str))
    asked = config["source"].get("samples", 1)
    samples: dict[str, list[dict[str, Any]]] = {}
    for row in unit.lines(PREDICTIONS):
        samples.setdefault(str(row.get("id")), []).append(row)
        if keys := [key for key in ("seed", "control_tokens") if key in row]:
            yield f"{str(row.get('id'))[:60]}: {keys[0]} of an existing completion"
    for name, found in samples.items():
        numbers = [row.get("sample") for row in found]
        # One line with this error stands for several lines of one id.
        double = len(found) == 1 and str(found[0].get("error")).startswith(DOUBLE)
        if not double and not are_numbered(numbers, asked):
            yield f"{name[:60]}: samples {str(numbers[:8])[1:-1]}, the file has {str(asked)[:20]} of an item"
    for kind, value in unit.json_object(EVALUATION_SUMMARY)["problems"].items():
        count, first = field_of(value, "count"), field_of(value, "first")
        has_form = type(count) is int and count >= 1 and isinstance(first, list)
        if kind not in PROBLEM_KINDS or not has_form or len(first) != min(count, MAX_PROBLEMS_SHOWN):
            yield f"{EVALUATION_SUMMARY}: problems has {kind[:40]!r} {str(value)[:80]}"
        elif kind == "unknown ids":
            yield from (f"{EVALUATION_SUMMARY}: {str(name)[:40]!r} is called an unknown id, and the predictions answer "
                        "it" for name in first if name in samples)


def are_numbered(numbers: list[Any], count: Any) -> bool:
    """Whether an item has the requested number of samples, numbered from 0 in order."""
    return len(numbers) == count and all(type(number) is int and number == at for at, number in enumerate(numbers))


def _lines_with_marks(unit: Unit) -> list[dict[str, Any]]:
    """Lines of the log with the marks of an evaluation during training: `1101` if the third of four items was wrong."""
    return [line for line in unit.metrics if "held_out_right" in line]


@check("consistency.answers", when=lambda unit: bool(_lines_with_marks(unit)))
def last_marks(unit: Unit) -> Found:
    """Marks of the held-out items after the last step against the scores of the same greedy answers."""
    require_train(unit)
    evaluation, step = unit.recipe_evaluation, unit.kept_step
    lines = [line for line in _lines_with_marks(unit) if line.get("step") == step]
    if evaluation is None or not lines or unit.manifest.status != "complete":
        return None
    config = evaluation.json_object(EVALUATION_CONFIG)
    marks = str(lines[-1]["held_out_right"])
    answers = evaluation.lines(PREDICTIONS)[:len(marks)]
    scored_alike = not any(contradictions("", config, {
        "scorer.name": unit.section("evaluation").get("scorer", "answer"), "extraction.rules": "default",
        "decoding.temperature": 0, "decoding.samples": 1}, ""))
    # The batches had other sizes. Only in short answers, in float32 on a CPU, does rounding never change a token.
    are_short = all(type(row.get("completion_tokens")) is int and row["completion_tokens"] <= MAX_ANSWER_TOKENS
                    for row in answers)
    if not scored_alike or not are_short or not unit.in_float32_on_cpu:
        return None
    given = "".join(RIGHT if row.get("score") == 1 else WRONG for row in answers)
    if given != marks:
        yield f"{METRICS} has the marks {marks[:40]} after step {step}, the evaluation's answers give {given[:40]}"
    return f"{len(marks)} items"
