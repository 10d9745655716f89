"""Level 1: facts of a manifest that follow from the log of the run: changes over it, and its processes."""

from collections.abc import Iterator, Mapping
from typing import Any

from workings.evidence.verify.learning import records
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_run, finding_from, only_if_written_by_train, same_json
from workings.evidence.verify.result import CheckFinding
from workings.record.digest import json_digest
from workings.record.layout import DEVICE_CHECKS, EVALUATION_CONFIG, MANIFEST, METRICS, PREDICTIONS, REFERENCE_LOG_PROBS
from workings.record.metrics import RIGHT, WRONG
from workings.record.values import Absent
from workings.ways.parts.preference_change import preference_change

HELD_OUT, PREFERENCES, PROCESSES = "held_out", "preferences", "processes"
"""Facts that this check computes again."""
SCORER = "scorer"
"""Key of the change of a held-out score, and of the recipe's evaluation."""
FROM_CLUSTERS = ("sentence", "delta_ci_low", "delta_ci_high", "p_value", "mcnemar_p", "method",
                 "minimum_detectable_effect", "no_interval", "reason")
"""Keys of the change of a held-out score that depend on which items share a cluster."""
MAX_ANSWER_TOKENS = 128
"""Longest answer of which it is expected that rounding decides between no two tokens of it."""



@check("consistency.facts", level=1, title="changes over a run are those of its log", units=every_run,
       precondition=only_if_written_by_train,
       example="a larger gain on held-out items in the manifest than metrics and events have")
def facts(unit: Unit) -> Iterator[CheckFinding]:
    """Held-out score, preferences and number of processes against metrics, events and the checks of the devices."""
    manifest = unit.manifest
    recorded, problems, compared = manifest.facts, [], []
    if PROCESSES in recorded and unit.has(DEVICE_CHECKS):
        compared.append(PROCESSES)
        processes = unit.json_object(DEVICE_CHECKS).get(PROCESSES, recorded[PROCESSES])
        problems += [] if same_json(processes, recorded[PROCESSES]) else [
            f"{MANIFEST} says {recorded[PROCESSES]} processes, {DEVICE_CHECKS} {processes}"]
        devices = manifest.actual_device.count
        if type(processes) is int and processes > devices:
            problems.append(f"{processes} processes, {devices} devices were used")
        problems += _other_weights(unit)
    if records(REFERENCE_LOG_PROBS)(unit):
        compared.append(PREFERENCES)
        beta = manifest.config_snapshot["algorithm"]["beta"]
        preferred = preference_change(unit.metrics, beta)
        problems += _differences(PREFERENCES, recorded.get(PREFERENCES), preferred.facts() if preferred else None)
    clusters = _clusters(unit)
    item_count = max((len(str(line["held_out_right"])) for line in (*unit.metrics, *unit.events)
                 if "held_out_right" in line), default=0)
    if HELD_OUT in recorded or item_count:
        # Here, because it brings NumPy, which no other check of this level needs.
        from workings.evaluation.comparison.held_out_change import held_out_change

        compared.append(HELD_OUT)
        clusters_known = len(clusters) >= item_count
        change = held_out_change(clusters if clusters_known else [str(number) for number in range(item_count)],
                                 unit.metrics, unit.events)
        expected = change.facts() | _scorer(unit, recorded.get(HELD_OUT)) if change else None
        problems += _last_look_problems(unit)
        problems += _differences(HELD_OUT, recorded.get(HELD_OUT), expected, () if clusters_known else FROM_CLUSTERS)
    if compared:
        yield finding_from(problems, f"{', '.join(compared)}, computed again", unit)


def _other_weights(unit: Unit) -> list[str]:
    """A sentence if a process did not read the weights that the manifest names; runs of one process record no more."""
    weights, digests = unit.json_object(DEVICE_CHECKS).get("weights"), unit.manifest.weight_digests
    of_manifest = "" if isinstance(digests, Absent) else json_digest(dict(digests))
    if weights is None or same_json(weights, [of_manifest] * int(unit.manifest.facts[PROCESSES])):
        return []
    return [f"{DEVICE_CHECKS} has other weights for a process than {MANIFEST}"]


def _last_look_problems(unit: Unit) -> list[str]:
    """Marks of the look after the last step that the evaluation of the same weights contradicts."""
    evaluation = unit.recipe_evaluation
    lines = [line for line in unit.metrics if "held_out_right" in line]
    if evaluation is None or not lines or lines[-1].get("step") != unit.manifest.planned_steps:
        return []
    config = evaluation.json_object(EVALUATION_CONFIG)
    looked_by = _scorer(unit, unit.manifest.facts.get(HELD_OUT)).get(SCORER, "answer")
    # A look judges by all rules, whatever the recipe's evaluation does.
    scorer, extraction = (config.get(key) or {} for key in ("scorer", "extraction"))
    if scorer.get("name") != looked_by or extraction.get("rules") != "default":
        return []
    marks = str(lines[-1]["held_out_right"])
    answers = _final_answers(unit, len(marks))
    given = "".join(RIGHT if row.get("score") == 1 else WRONG for row in answers)
    if not answers or given == marks:
        return []
    return [f"{METRICS} has the marks {marks[:40]} after the last step, the evaluation's answers give {given[:40]}"]


def _final_answers(unit: Unit, count: int) -> list[dict[str, Any]]:
    """The first of the evaluation's predictions, where the last look in training must have seen the same answers.

    Both are greedy answers of the same weights, in batches of other sizes: in float32 on a CPU rounding does not decide
    between two tokens. Empty where the two may differ.
    """
    formats = {unit.manifest.actual_dtypes.get(name) for name in ("parameters", "compute")}
    evaluation = unit.recipe_evaluation
    # Elsewhere the batch size may change the last bits of a logit, and with them a greedy token.
    if evaluation is None or formats != {"float32"} or unit.manifest.actual_device.platform != "cpu" or (
            unit.manifest.status != "complete"):
        return []
    decoding = evaluation.json_object(EVALUATION_CONFIG).get("decoding")
    if not isinstance(decoding, dict) or decoding.get("temperature") != 0 or decoding.get("samples") != 1:
        return []
    rows = evaluation.lines(PREDICTIONS)[:count]
    if any(type(row.get("completion_tokens")) is not int or row["completion_tokens"] > MAX_ANSWER_TOKENS
           for row in rows):
        return []
    return rows


def _scorer(unit: Unit, recorded: Any) -> dict[str, Any]:
    """The scorer of the looks, the recipe's; nothing in a record that names none, whose looks judged by `answer`."""
    if not isinstance(recorded, dict) or SCORER not in recorded:
        return {}
    return {SCORER: (unit.manifest.config_snapshot.get("evaluation") or {}).get(SCORER, "answer")}


def _clusters(unit: Unit) -> list[str]:
    """The clusters of the run's evaluation items in their order; empty where the run has no such evaluation."""
    evaluation = unit.recipe_evaluation
    if evaluation is None:
        return []
    # One line for each sample of an item; the first names it.
    items = {str(row["id"]): str(row.get("cluster", row["id"])) for row in evaluation.lines(PREDICTIONS)}
    return list(items.values())


def _differences(name: str, recorded: Any, expected: Mapping[str, Any] | None, left_out: tuple[str, ...] = ()
                 ) -> list[str]:
    """Keys of a fact that differ from what the log gives."""
    if expected is None or not isinstance(recorded, dict):
        return [] if recorded is None and expected is None else [
            f"{MANIFEST} has {'no' if recorded is None else 'a'} facts.{name}, the log gives "
            f"{'none' if expected is None else 'one'}"]
    # Keys of either side, so that neither an invented fact nor a missing one passes.
    keys = sorted({*recorded, *expected} - set(left_out))
    return [f"facts.{name}.{key} {str(recorded.get(key))[:60]!r}, the log gives {str(expected.get(key))[:60]!r}"
            for key in keys if not same_json(recorded.get(key), expected.get(key))]
