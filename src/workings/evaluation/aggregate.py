"""From the samples of one item to the item's score."""

from math import comb
from typing import Any

from workings.scoring.numbers import parse_number
from workings.scoring.scorers import normalise_text


def aggregate_score(samples: list[dict[str, Any]], how: str) -> float:
    """An item's score from its samples.

    ``mean``: pass@1; ``majority``: score of the most frequent answer; ``pass``: any sample right (pass@n);
    ``pass@k``: the unbiased estimate of it from more than k samples.
    """
    scores = [float(sample["score"]) for sample in samples]
    if how == "mean":
        return sum(scores) / len(scores)
    if how == "pass":
        return max(scores)
    if how.startswith("pass@"):
        return pass_at_k(len(scores), sum(score == 1.0 for score in scores), int(how.removeprefix("pass@")))
    return scores[majority_index([sample["extracted"] for sample in samples])]


def is_aggregate(how: str, samples: int) -> bool:
    """Whether this way exists and ``samples`` are enough for it."""
    k = how.removeprefix("pass@")
    return how in ("mean", "majority", "pass") or (how != k and k.isdecimal() and 1 <= int(k) <= samples)


def majority_index(answers: list[Any]) -> int:
    """Index of the first sample with the most frequent answer.

    Answers are equal by value (numbers) or normalised text; samples without an answer have no vote unless all are
    without. A tie goes to the answer that came first.
    """
    votes: dict[tuple[object, ...], list[int]] = {}
    for index, answer in enumerate(answers):
        if isinstance(answer, str):
            votes.setdefault(_same(answer), []).append(index)
    return max(votes.values(), key=len)[0] if votes else 0


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased estimate of pass@k from n samples of which some are correct (Chen et al., 2021)."""
    if k > n:
        raise ValueError(f"pass@{k} cannot be estimated from {n} samples")
    return 1.0 - comb(n - correct, k) / comb(n, k)


def _same(answer: str) -> tuple[object, ...]:
    number = parse_number(answer)
    return ("text", normalise_text(answer)) if number is None else ("number", number.value, number.percent)
