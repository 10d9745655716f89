"""What an evaluation was asked to do; everything here that changes a score makes two scorecards incomparable."""

from dataclasses import asdict, dataclass
from typing import Any

from workings.errors import RequestError
from workings.evaluation.aggregate import is_aggregate
from workings.evaluation.extract import EXTRACTION_VERSION, check_rules
from workings.evaluation.form import check_form


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """How completions are generated, answers extracted and scored."""

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
    scorer: str = "answer"
    """A registered scorer, or FILE.py:FUNCTION for one's own."""
    rules: tuple[str, ...] = ()
    """Names of extraction rules in order; empty: the default order for numbers and for texts."""
    form: str = "any"
    """Form that completions should have (`tags`, `think`, `hashes`, `answer_only`); `any` checks none."""
    second_opinion: str = "none"
    """`math_verify`: answers are judged a second time by math-verify, and disagreements listed."""
    item_seconds: float = 10.0
    """Time limit for scoring one completion, in seconds; beyond it the completion counts as an error."""
    child_bytes: int = 4 * 1024**3
    """Memory limit of the process that scores, in bytes."""
    max_completion_chars: int = 1_000_000
    """A longer completion is not scored; it is named and counts as an error."""

    def __post_init__(self) -> None:
        check_rules(self.rules)
        check_form(self.form)
        _require(self.max_new_tokens >= 1, "max_new_tokens", self.max_new_tokens, "at least 1")
        _require(self.batch_size >= 1, "batch_size", self.batch_size, "at least 1")
        _require(0 <= self.temperature <= 10, "temperature", self.temperature, "between 0 and 10")
        _require(1 <= self.samples <= 10_000, "samples", self.samples, "between 1 and 10000")
        _require(self.samples == 1 or self.temperature > 0, "samples", self.samples,
                 "1, because greedy samples are all the same (or a temperature above 0)")
        _require(is_aggregate(self.aggregate, 10_000), "aggregate", self.aggregate, "mean, majority, pass or pass@K")
        _require(self.second_opinion in ("none", "math_verify"), "second_opinion", self.second_opinion,
                 "none or math_verify")
        _require(0 < self.item_seconds <= 3600, "item_seconds", self.item_seconds, "above 0, at most 3600")
        _require(self.max_completion_chars >= 1, "max_completion_chars", self.max_completion_chars, "at least 1")

    def decoding(self) -> dict[str, Any]:
        """What decides the completions of a given model."""
        return {"max_new_tokens": self.max_new_tokens, "temperature": self.temperature, "samples": self.samples,
                "seed": self.seed, "batch_size": self.batch_size}

    def extraction(self) -> dict[str, Any]:
        """What decides which answer is found."""
        return {"version": EXTRACTION_VERSION, "rules": list(self.rules) or "default"}

    def limits(self) -> dict[str, Any]:
        """Limits beyond which a completion counts as an error."""
        return {"item_seconds": self.item_seconds, "child_bytes": self.child_bytes,
                "max_completion_chars": self.max_completion_chars}

    def to_json(self) -> dict[str, Any]:
        """All settings as written into requests to the scoring process."""
        return asdict(self)


def _require(holds: bool, name: str, given: object, expected: str) -> None:
    if not holds:
        raise RequestError(f"evaluation setting {name}: {given}", expected)
