"""What an evaluation was asked to do; everything here that changes a score makes two scorecards incomparable."""

from dataclasses import dataclass
from typing import Any

from workings.evaluation.aggregate import is_aggregate
from workings.scoring.settings import ScoringSettings, require


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(ScoringSettings):
    """How completions are generated; how they are scored stands in `ScoringSettings`."""

    max_new_tokens: int = 256
    """Longest completion, in tokens."""
    batch_size: int = 64
    """Prompts that are answered at a time."""
    temperature: float = 0.0
    """0: greedy; above: sampled."""
    samples: int = 1
    """Completions per item; more than one asks for a temperature."""
    aggregate: str = "mean"
    """How an item's samples become its score: `mean` (pass@1), `majority`, `pass` (any right, pass@samples) or
    `pass@k` (its unbiased estimate for k of the samples)."""
    seed: int = 0
    """Decides sampling and the bootstrap."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.max_new_tokens >= 1, "max_new_tokens", self.max_new_tokens, "at least 1")
        require(self.batch_size >= 1, "batch_size", self.batch_size, "at least 1")
        require(0 <= self.temperature <= 10, "temperature", self.temperature, "between 0 and 10")
        require(1 <= self.samples <= 10_000, "samples", self.samples, "between 1 and 10000")
        require(self.samples == 1 or self.temperature > 0, "samples", self.samples,
                "1, because greedy samples are all the same (or a temperature above 0)")
        require(is_aggregate(self.aggregate, 10_000), "aggregate", self.aggregate, "mean, majority, pass or pass@K")

    def decoding(self) -> dict[str, Any]:
        """What decides the completions of a given model."""
        return {"max_new_tokens": self.max_new_tokens, "temperature": self.temperature, "samples": self.samples,
                "seed": self.seed, "batch_size": self.batch_size}
