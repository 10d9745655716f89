"""Settings of an evaluation, and how the scores of an item's samples become the item's score."""

from dataclasses import dataclass
from math import comb
from typing import Any

from workings.answers.numbers import parse_number
from workings.answers.texts import normalise_text
from workings.config.recipe import Recipe
from workings.scoring.settings import ScoringSettings, require


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(ScoringSettings):
    """How completions are generated, next to how they are scored."""

    max_new_tokens: int = 256
    """Longest completion, in tokens."""
    batch_size: int = 64
    """Prompts per batch."""
    temperature: float = 0.0
    """0: greedy; above: sampled."""
    samples: int = 1
    """Completions per item; more than one needs a temperature."""
    aggregate: str = "mean"
    """An item's score: the `mean` of its samples' scores, that of the `majority` of the answers, the best one (`pass`),
    or an unbiased estimate of the best one of k samples (`pass@k`)."""
    seed: int = 0
    """Seed of the sampling."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.max_new_tokens >= 1, "max_new_tokens", self.max_new_tokens, "at least 1")
        require(self.batch_size >= 1, "batch_size", self.batch_size, "at least 1")
        require(0 <= self.temperature <= 10, "temperature", self.temperature, "between 0 and 10")
        require(1 <= self.samples <= 10_000, "samples", self.samples, "between 1 and 10000")
        require(self.samples == 1 or self.temperature > 0, "samples", self.samples,
                "1, because greedy samples are all the same (or a temperature above 0)")
        require(abs(self.seed) < 2**53, "seed", self.seed, "a whole number that JSON holds exactly, below 2**53")
        # Whether there are enough samples is checked later: existing completions have their own number of samples.
        require(is_aggregate(self.aggregate, 10_000), "aggregate", self.aggregate, "mean, majority, pass or pass@K")

    def decoding(self) -> dict[str, Any]:
        """Settings that decide the completions of a given model."""
        return {"max_new_tokens": self.max_new_tokens, "temperature": self.temperature, "samples": self.samples,
                "seed": self.seed, "batch_size": self.batch_size}


def settings_of(recipe: Recipe) -> EvaluationSettings:
    """Settings of a recipe's evaluation: greedy decoding, and the form of the training data."""
    return EvaluationSettings(max_new_tokens=recipe.evaluation.max_new_tokens, batch_size=recipe.evaluation.batch_size,
                              form=recipe.data.reasoning, seed=recipe.seed, scorer=recipe.evaluation.scorer)


def aggregate_score(samples: list[dict[str, Any]], how: str) -> float:
    """An item's score from its samples; ``how`` is an `EvaluationSettings.aggregate`."""
    scores = [float(sample["score"]) for sample in samples]
    if how == "mean":
        return sum(scores) / len(scores)
    if how == "pass":
        return max(scores)
    if how.startswith("pass@"):
        return pass_at_k(len(scores), sum(score == 1.0 for score in scores), int(how.removeprefix("pass@")))
    return scores[majority_index([sample["extracted"] for sample in samples])]


def is_aggregate(how: str, samples: int) -> bool:
    """Whether ``how`` is an `EvaluationSettings.aggregate`, and an item has enough samples for it."""
    k = how.removeprefix("pass@") if how.startswith("pass@") else ""
    return how in ("mean", "majority", "pass") or (k.isdecimal() and 1 <= int(k) <= samples)


def majority_index(answers: list[Any]) -> int:
    """Index of the first sample with the most frequent answer; 0 if no sample has an answer.

    Answers are equal by `answer_key`; of equally frequent answers the first one counts.
    """
    votes: dict[tuple[object, ...], list[int]] = {}
    for index, answer in enumerate(answers):
        if isinstance(answer, str):
            votes.setdefault(answer_key(answer), []).append(index)
    return max(votes.values(), key=len)[0] if votes else 0


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Unbiased estimate of pass@k from n samples (Chen et al., 2021, https://arxiv.org/abs/2107.03374, equation 1)."""
    if k > n:
        raise ValueError(f"pass@{k} cannot be estimated from {n} samples")
    return 1.0 - comb(n - correct, k) / comb(n, k)


def answer_key(answer: str) -> tuple[object, ...]:
    """The same key for answers that are equal as numbers or as normalised text."""
    number = parse_number(answer)
    return ("text", normalise_text(answer)) if number is None else ("number", number.value, number.percent)
