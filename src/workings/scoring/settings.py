"""The settings of scoring: how answers are extracted and compared, and which texts are too long or take too long."""

from dataclasses import dataclass, fields
from typing import Any

from workings.answers.extract import EXTRACTION_VERSION, check_rules
from workings.errors import RequestError
from workings.scoring.form import FORMS


@dataclass(frozen=True, kw_only=True)
class ScoringSettings:
    """What decides the score of a given text."""

    scorer: str = "answer"
    """A registered scorer, or FILE.py:FUNCTION."""
    rules: tuple[str, ...] = ()
    """Names of extraction rules in order; empty: all of them."""
    form: str = "any"
    """Form that completions should have (`tags`, `think`, `channel`, `hashes`, `answer_only`); `any` checks none."""
    item_seconds: float = 10.0
    """Time limit for scoring one completion, in seconds; beyond it the completion counts as an error."""
    child_bytes: int = 4 * 1024**3
    """Memory limit of the process that scores, in bytes."""
    max_completion_chars: int = 1_000_000
    """A longer completion is not scored; it is named and counts as an error."""

    def __post_init__(self) -> None:
        check_rules(self.rules)
        require(self.form in FORMS, "form", self.form, f"one of {', '.join(FORMS)}")
        require(0 < self.item_seconds <= 3600, "item_seconds", self.item_seconds, "above 0, at most 3600")
        require(self.max_completion_chars >= 1, "max_completion_chars", self.max_completion_chars, "at least 1")

    def extraction(self) -> dict[str, Any]:
        """What decides which answer is found."""
        return {"version": EXTRACTION_VERSION, "rules": list(self.rules) or "default"}

    def limits(self) -> dict[str, Any]:
        """Limits beyond which a completion counts as an error."""
        return {"item_seconds": self.item_seconds, "child_bytes": self.child_bytes,
                "max_completion_chars": self.max_completion_chars}

    def for_scoring(self) -> dict[str, Any]:
        """Only the fields of this class, as sent to the scoring process."""
        return {field.name: getattr(self, field.name) for field in fields(ScoringSettings)}


def require(holds: bool, name: str, given: object, expected: str) -> None:
    """Raise `RequestError` about a setting that does not hold."""
    if not holds:
        raise RequestError(f"evaluation setting {name} cannot be {given}", expected)
