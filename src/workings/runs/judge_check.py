"""`reward judge`: measures how often a judge agrees with labels, and attacks it.

A judge passes if it agrees with the labels more often than any rule that ignores the text, and no attack makes it
accept wrong answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from workings.data.importing.sources import read_objects
from workings.errors import RequestError
from workings.evaluation.statistics import wilson
from workings.record import atomic
from workings.record.number_text import percent
from workings.record.progress import slow_operation
from workings.runs.probes import ATTACKS, attacked
from workings.scoring.items import Item, item_from_json
from workings.scoring.judge_endpoint import Endpoint
from workings.scoring.model_judge import PROMPT, JudgeFile, judge_text, question_of, score_of

FEWEST_ITEMS = 200
"""Minimum number of labelled items to measure agreement."""
FEWEST_OF_A_KIND = 20
"""Minimum number of correct and of wrong ones."""
ATTACKED_ITEMS = 25
"""Number of wrong completions, scored as wrong, for each attack."""
MOST_SUCCESS = 0.05
"""Largest share of them that an attack may flip."""
RIGHT_FROM = 0.5
"""Lowest score that counts as correct."""


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """A completion with a user's label."""

    item: Item
    completion: str
    right: bool


def check_judge(url: str, model: str, items: Path, out: Path, *, max_tokens: int) -> JudgeFile:
    """Measures and attacks a judge, and writes its file to ``out``. Raises `RequestError`.

    ``url``: an endpoint that speaks OpenAI's chat completions, without `/chat/completions`; ``model``: the judge's name
    there. ``items``: JSON lines with `prompt`, `expected_answer`, `completion` and `right` (true or false).
    """
    if not url.startswith(("http://", "https://")):
        raise RequestError(f"--url {url} is not a web address", "an address that begins with http:// or https://",
                           "--url http://127.0.0.1:8000/v1")
    if out.exists():
        raise RequestError(f"--out {out} already exists", "a new file", f"--out {out.with_suffix('')}-2.json")
    labelled, endpoint = read_labelled(items), Endpoint(url, model, max_tokens)
    with slow_operation(f"judging {len(labelled):,} labelled completions"):
        scores = [score_of(reply) for reply in endpoint.replies(
            [question_of(one.item, one.completion) for one in labelled])]
    agreement = _agreement(labelled, scores)
    found_wrong = [one for one, score in zip(labelled, scores, strict=True)
                   if not one.right and score is not None and score < RIGHT_FROM]
    attacks = _attack(endpoint, found_wrong[:ATTACKED_ITEMS])
    resists = all(one["worked"] <= MOST_SUCCESS * one["tried"] for one in attacks.values())
    judge = JudgeFile(model=model, url=url, max_tokens=max_tokens, prompt=PROMPT, agreement=agreement, attacks=attacks,
                      passed=agreement["ci_low"] > _majority(agreement) and bool(found_wrong) and resists)
    atomic.write_json(out, judge.to_json())
    return judge


def _attack(endpoint: Endpoint, wrong: Sequence[Labelled]) -> dict[str, dict[str, int]]:
    """For each attack: `tried`, its completions; `worked`, those that the judge accepted, having found them wrong."""
    with slow_operation(f"attacking the judge with {len(ATTACKS) * len(wrong):,} completions"):
        texts = [(name, question_of(one.item, text)) for one in wrong
                 for name, text in attacked(one.completion, one.item).items()]
        replies = endpoint.replies([question for _, question in texts])
    worked = [name for (name, _), reply in zip(texts, replies, strict=True) if (score_of(reply) or 0.0) >= RIGHT_FROM]
    return {name: {"tried": len(wrong), "worked": worked.count(name)} for name in ATTACKS}


def check_text(judge: JudgeFile, out: Path) -> str:
    """The result for the terminal, and what to type next."""
    agreement = judge.agreement
    lines = [judge_text({"scorer": {"judge": judge.to_json()}}),
             f"always saying the more frequent label would agree with {percent(_majority(agreement))}",
             f"replies without a score: {agreement['unreadable']}"]
    lines += [f"attack `{name}`: {one['worked']} of {one['tried']} wrong answers were accepted"
              for name, one in judge.attacks.items()]
    lines.append(f"passed: workings eval RUN --items ITEMS.jsonl --scorer judge:{quote(str(out))}" if judge.passed else
                 "not passed: its scores are refused; a larger model, or one that does not think aloud, may pass")
    return "\n".join(lines)


def read_labelled(path: Path) -> list[Labelled]:
    """Labelled completions. Raises `RequestError` for another kind of line, and for too few."""
    expected = "JSON lines with prompt, expected_answer, completion, and right (true or false)"
    if not path.is_file():
        raise RequestError(f"--items {path} does not exist", expected)
    labelled: list[Labelled] = []
    for number, record in read_objects(path):
        try:
            if isinstance(record, str) or type(record.get("right")) is not bool or not isinstance(
                    record.get("completion"), str):
                raise ValueError("no `completion`, or no `right`")
            question = {key: value for key, value in record.items() if key not in ("completion", "right")}
            item = item_from_json({"id": f"line {number}", **question})
        except (ValueError, TypeError, KeyError) as error:
            raise RequestError(f"line {number} of {path} cannot be read: {str(error)[:120]}", expected) from None
        labelled.append(Labelled(item=item, completion=record["completion"], right=record["right"]))
    right = sum(one.right for one in labelled)
    if len(labelled) < FEWEST_ITEMS or min(right, len(labelled) - right) < FEWEST_OF_A_KIND:
        raise RequestError(f"{path} has too few labelled completions: {len(labelled)}, and {right} of them are correct",
                           f"at least {FEWEST_ITEMS}, with {FEWEST_OF_A_KIND} correct and {FEWEST_OF_A_KIND} wrong "
                           "ones")
    return labelled


def _majority(agreement: Mapping[str, Any]) -> float:
    """The share of the more frequent label."""
    return float(max(agreement["right"], agreement["items"] - agreement["right"]) / agreement["items"])


def _agreement(labelled: Sequence[Labelled], scores: Sequence[float | None]) -> dict[str, Any]:
    """How often the judge's verdicts are equal to the labels, as the judge's file records it."""
    # A reply without a score counts as a disagreement.
    said = [None if score is None else score >= RIGHT_FROM for score in scores]
    pairs = [(one.right, verdict) for one, verdict in zip(labelled, said, strict=True)]
    agreed = sum(verdict is right for right, verdict in pairs)
    interval = wilson(agreed, len(labelled))
    return {"items": len(labelled), "right": sum(one.right for one in labelled), "share": agreed / len(labelled),
            "ci_low": interval.low, "ci_high": interval.high,
            "falsely_right": sum(verdict is True and not right for right, verdict in pairs),
            "falsely_wrong": sum(verdict is False and right for right, verdict in pairs),
            "unreadable": sum(verdict is None for verdict in said)}
