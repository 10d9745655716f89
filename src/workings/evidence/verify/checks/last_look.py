"""Level 1: the last look at held-out items during training agrees with the evaluation of the same weights."""

from collections.abc import Iterator
from typing import Any

from workings.evidence.verify.learning import best_of
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, finding_from, only_if_written_by_train
from workings.evidence.verify.result import CheckFinding
from workings.record.layout import EVALUATION_CONFIG, METRICS, PREDICTIONS
from workings.record.metrics import RIGHT, WRONG

SCORER = "scorer"
"""Key of an evaluation, in a recipe and in its settings."""
MAX_ANSWER_TOKENS = 128
"""Longest answer, in tokens, that rounding is not expected to change."""


@check("consistency.answers", when=lambda unit: bool(_looks(unit)), precondition=only_if_written_by_train)
def last_look(unit: Unit) -> Iterator[CheckFinding]:
    """Marks of the held-out items after the last step against the scores of the same greedy answers."""
    evaluation, best = unit.recipe_evaluation, best_of(unit)
    asked = unit.manifest.completed_steps if best is None else best.step
    lines = [line for line in _looks(unit) if line.get("step") == asked]
    if evaluation is None or not lines or unit.manifest.status != "complete":
        return
    config = evaluation.json_object(EVALUATION_CONFIG)
    # A look judges by all rules and by the recipe's scorer, in addition to the recipe's evaluation.
    scorer, extraction = (config.get(key) or {} for key in (SCORER, "extraction"))
    looked_by = (unit.manifest.config.get("evaluation") or {}).get(SCORER, "answer")
    marks = str(lines[-1]["held_out_right"])
    answers = _final_answers(unit, len(marks))
    if scorer.get("name") != looked_by or extraction.get("rules") != "default" or not answers:
        return
    given = "".join(RIGHT if row.get("score") == 1 else WRONG for row in answers)
    problems = [] if given == marks else [
        f"{METRICS} has the marks {marks[:40]} after step {asked}, the evaluation's answers give {given[:40]}"]
    yield finding_from(problems, f"{len(marks)} items", unit)


def _looks(unit: Unit) -> list[dict[str, Any]]:
    return [line for line in unit.metrics if "held_out_right" in line]


def _final_answers(unit: Unit, count: int) -> list[dict[str, Any]]:
    """The first of the evaluation's predictions, where the last look in training must have seen the same answers.

    Both are greedy answers of the same weights, in batches of other sizes: in float32 on a CPU rounding does not decide
    between two tokens. Empty where the two may differ.
    """
    evaluation = unit.recipe_evaluation
    # Elsewhere the batch size may change the last bits of a logit, and with them a greedy token.
    if evaluation is None or not unit.in_float32_on_cpu or unit.manifest.status != "complete":
        return []
    decoding = evaluation.json_object(EVALUATION_CONFIG).get("decoding")
    if not isinstance(decoding, dict) or decoding.get("temperature") != 0 or decoding.get("samples") != 1:
        return []
    rows = evaluation.lines(PREDICTIONS)[:count]
    if any(type(row.get("completion_tokens")) is not int or row["completion_tokens"] > MAX_ANSWER_TOKENS
           for row in rows):
        return []
    return rows
