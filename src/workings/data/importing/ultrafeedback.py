"""Scored completions of one question: the best one and the worst one."""

from collections.abc import Mapping
from typing import Any

from workings.data.importing import fields
from workings.data.row_fields import kind_of

SCORES = ("fine-grained_score", "overall_score", "score")
"""Keys of the score of a completion in UltraFeedback and similar data sets."""


def best_and_worst(completions: object) -> tuple[tuple[str, str], dict[str, Any]]:
    """Texts of the completions with the best and the worst score, the first of equal ones; scores and models of both.

    Raises:
        ValueError: with a reason that fits behind `file:line:`.
    """
    if not isinstance(completions, list) or not all(isinstance(completion, dict) for completion in completions):
        raise ValueError("`completions` must be a list of objects")
    if len(completions) < 2:
        raise ValueError(f"{len(completions)} completions, and a pair has two")
    keys = [name for name in SCORES if all(completion.get(name) is not None for completion in completions)]
    if not keys:
        raise ValueError(f"no score that all completions have: {' or '.join(SCORES)}")
    scores = {name: [score(completion, name) for completion in completions] for name in keys}
    first = scores[keys[0]]
    best, worst = first.index(max(first)), first.index(min(first))
    if best == worst:
        raise ValueError(f"all completions have {keys[0]} {first[0]:g}: nothing is preferred")
    # Two scores that disagree about which is better: taking either would be a guess.
    if wrong := [name for name in keys if scores[name][best] < scores[name][worst]]:
        raise ValueError(f"{keys[0]} and {wrong[0]} disagree about which completion is better")
    metadata = {f"score_{side}": first[at] for side, at in (("chosen", best), ("rejected", worst))}
    metadata |= {f"model_{side}": completions[at]["model"] for side, at in (("chosen", best), ("rejected", worst))
                 if isinstance(completions[at].get("model"), str)}
    return (fields.text(completions[best], "response"), fields.text(completions[worst], "response")), metadata


def score(record: Mapping[str, Any], key: str) -> float:
    """A score that has to be there. Raises `ValueError`."""
    value = record.get(key)
    if value is None:
        raise ValueError(f"`{key}` is missing; the record has {fields.keys_of(record)}")
    # In Python true is a number, and it is not a score. Bounds also keep away what is not a finite number.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e9 < value < 1e9:
        raise ValueError(f"`{key}` must be a number, not {kind_of(value)}")
    return float(value)
