"""Everything that is said about one completion: extracted answer, rule, score, form, steps. Pure; runs in the child."""

from dataclasses import dataclass, field
from typing import Any

from workings.evaluation.extract import extract
from workings.evaluation.form import keeps_form, reasoning_text
from workings.evaluation.items import Item
from workings.evaluation.scorers import ScoreFunction, answer_kind
from workings.evaluation.settings import EvaluationSettings
from workings.evaluation.steps import check_steps


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
    second_opinion: str = ""
    """`right`, `wrong` or "" where none was asked for."""
    error: str = ""
    """Why the completion could not be scored; its score is then 0."""
    more: dict[str, Any] = field(default_factory=dict)


def judge(item: Item, text: str, score: ScoreFunction, settings: EvaluationSettings) -> Judgement:
    """Extract, score and describe one completion. Raises whatever the scorer raises."""
    found = extract(text, answer_kind(item), settings.rules)
    value = score(found.text, item) if found.text else 0.0
    if not _is_finite(value):
        return Judgement(extracted=found.text, rule=found.rule, error=f"scorer returned {value!r}, not a finite number")
    reasoning = reasoning_text(text)
    steps = check_steps(reasoning)
    return Judgement(
        extracted=found.text, rule=found.rule, score=float(value), format_ok=keeps_form(text, settings.form),
        reasoning_chars=len(reasoning), steps_checked=steps.checked, steps_valid=steps.valid, wrong_steps=steps.wrong,
        second_opinion=_second_opinion(found.text, item) if settings.second_opinion == "math_verify" else "")


def _is_finite(value: object) -> bool:
    """Scorers from files return whatever they like."""
    return isinstance(value, bool | int | float) and value == value and abs(value) != float("inf")


def _second_opinion(given: str, item: Item) -> str:
    from math_verify import parse, verify  # an extra, and slow to import

    if not given:
        return "wrong"
    answers = (item.expected_answer, *item.aliases)
    parsed = parse(given, parsing_timeout=None, raise_on_error=False)
    right = any(verify(parse(f"${answer}$", parsing_timeout=None, raise_on_error=False), parsed,
                       timeout_seconds=None, raise_on_error=False) for answer in answers)
    return "right" if right else "wrong"
