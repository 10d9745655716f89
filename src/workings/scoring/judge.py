"""Scores one completion: finds its answer, compares it with the expected one, and looks at form and steps.

Pure: equal arguments give equal results. It runs in the process that `workings.scoring.worker_pool` starts.
"""

from dataclasses import dataclass

from workings.answers.extract import NO_RULE, Extraction, Kind, answer_kind, extract
from workings.scoring.form import check_steps, keeps_form, reasoning_text
from workings.scoring.items import Item
from workings.scoring.scorers import CONTAINS, ScoreFunction, is_score, needs_library
from workings.scoring.settings import ScoringSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What scoring found in one completion."""

    extracted: str = ""
    rule: str = "none"
    score: float = 0.0
    format_ok: bool = False
    reasoning_chars: int = 0
    steps_checked: int = 0
    steps_valid: int = 0
    wrong_steps: tuple[str, ...] = ()
    question: str = ""
    """Digest of the judge's prompt; "" without a judge."""
    reply: str = ""
    """The reply of that model."""
    error: str = ""
    """Why the completion could not be scored; its score is then 0."""


def judge(item: Item, text: str, score: ScoreFunction, settings: ScoringSettings, *,
          truncated: bool = False) -> Judgement:
    """Extract, score and describe one completion, which may be ``truncated``. Raises what the scorer raises."""
    extraction, value = score_answer(item, text, score, settings, truncated=truncated)
    # A scorer from a file may return anything; true and false count as 1 and 0.
    if not isinstance(value, bool) and not is_score(value):
        return Judgement(extracted=extraction.text, rule=extraction.rule,
                         error=f"scorer returned {str(value)[:60]}, not a number from 0 to 1")
    # A completion that is nothing but its answer has no reasoning.
    reasoning = "" if text.strip() == extraction.text else reasoning_text(text)
    steps = check_steps(reasoning)
    return Judgement(
        extracted=extraction.text, rule=extraction.rule, score=float(value), format_ok=keeps_form(text, settings.form),
        reasoning_chars=len(reasoning), steps_checked=steps.checked, steps_valid=steps.valid, wrong_steps=steps.wrong)


def score_answer(item: Item, text: str, score: ScoreFunction, settings: ScoringSettings, *,
                 truncated: bool) -> tuple[Extraction, float]:
    """The answer in a completion and its score. Raises what the scorer raises."""
    kind: Kind = "name" if settings.scorer == CONTAINS else answer_kind(item.expected_answer, item.prompt, item.aliases)
    extraction = extract(text, kind, settings.rules, truncated=truncated, question=item.prompt)
    # A library may find that a formula such as `2^{10}` is the expected number.
    if extraction.rule == NO_RULE and kind == "number" and needs_library(settings.scorer):
        extraction = extract(text, "text", settings.rules, truncated=truncated)
    return extraction, score(extraction.text, item) if extraction.text else 0.0
