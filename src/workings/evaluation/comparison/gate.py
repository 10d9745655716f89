"""Gates: does a run pass against a saved baseline? Yes if a larger drop than allowed is ruled out, no if it is certain.

A baseline is a small file to commit to a repository, ``<folder>/<name>/<first 16 digits of the items' digest>.json``.
It holds the results of one evaluation, without prompts and completions; the evaluated run is no longer needed.
"""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evaluation.answer_counts import AnswerCounts
from workings.evaluation.comparison.no_verdict import measured_side, reasons_against
from workings.evaluation.comparison.paired import PairedDifference, compare_configs, paired_values
from workings.evaluation.scorecard import ItemResult
from workings.evaluation.statistics import Interval, bounds, z_value
from workings.evaluation.unit import EvaluationRecord, find_results
from workings.record import atomic
from workings.record.canonical import read_json_object

SCHEMA = "baseline/1"
# Sections of `eval_config.json` that `compare_configs` reads.
_CONFIG = ("schema", "items", "scorer", "extraction", "steps", "template", "decoding", "aggregate")


def gate(run: Path, *, baseline: str, folder: Path, max_drop: float) -> dict[str, Any]:
    """Compare a run's evaluation with the baseline on the same items: the result of ``compare --gate --json``.

    Its ``verdict`` is `pass`, `fail` or `inconclusive`. ``max_drop`` is the largest allowed loss of accuracy, as a
    share (0.02: two points). Raises `RequestError` if the baseline does not exist or was evaluated in another way.
    """
    if not 0 <= max_drop < 1:
        raise RequestError(f"--max-drop {max_drop:g} is not a share of the accuracy",
                           "a share from 0 to below 1: 0.02 for two points", "--max-drop 0.02")
    units = find_results(run)
    # The evaluation that has a baseline; without any, reading that of the last one raises the error.
    record = next((unit for unit in units if baseline_path(folder, baseline, unit.items_digest).is_file()), units[-1])
    config, results, counts = read_baseline(folder, baseline, record.items_digest)
    settings = compare_configs(config, record.config)
    if settings.different:
        raise RequestError(f"{run} does not match baseline {baseline}: {'; '.join(settings.different)}",
                           "the same way of evaluating", f"workings compare {run} --save {folder / baseline}")
    before = measured_side(baseline, counts, results)
    after = measured_side(record.name, record.answer_counts, record.results_of([result.id for result in results]))
    paired = paired_values(before.scores, after.scores, before.clusters)
    decision = _decide(paired.interval, max_drop)
    needed = _needed(paired, max_drop) if decision == "inconclusive" else None
    reasons: list[str] = []
    if decision == "pass":
        generous = paired_values(before.generous, after.scores, before.clusters)
        reasons = reasons_against(after, before, holds=_decide(generous.interval, max_drop) == "pass")
    elif decision == "fail":
        generous = paired_values(before.scores, after.generous, before.clusters)
        reasons = reasons_against(before, after, holds=_decide(generous.interval, max_drop) == "fail")
    verdict = "inconclusive" if reasons else decision
    sentence = " ".join(filter(None, [_sentence(paired, verdict, max_drop, needed, record.name, baseline),
                                      record.warning, *reasons]))
    values: dict[str, Any] = {
        "verdict": verdict, "max_drop": max_drop, "change": paired.delta, "items": paired.n, "baseline": baseline,
        "run": record.name, "sentence": sentence, "notes": settings.unknown, **bounds(paired.interval, "change_ci")}
    if isinstance(paired.interval, Interval):
        values["method"] = paired.interval.method
    if needed is not None:
        values["items_needed"] = needed
    return values


def _sentence(paired: PairedDifference, verdict: str, max_drop: float, needed: int | None, run: str, baseline: str
              ) -> str:
    interval_text = f"no interval: {paired.interval}"
    if isinstance(paired.interval, Interval):
        interval_text = f"95 % interval {paired.interval.low:+.4f} to {paired.interval.high:+.4f}"
    needed_text = f"; about {needed} items would settle it" if needed else ""
    reason = {"pass": f"a drop of more than {max_drop:g} is ruled out", "fail": f"it dropped by more than {max_drop:g}",
              "inconclusive": f"a drop of more than {max_drop:g} is neither shown nor ruled out"}[verdict]
    return (f"{verdict}: accuracy of {run} changed by {paired.delta:+.4f} against baseline {baseline} on {paired.n} "
            f"items ({interval_text}); {reason}{needed_text}.")


def _decide(interval: Interval | str, max_drop: float) -> str:
    """A non-inferiority test at 2.5 %: on which side of the allowed drop the whole interval is."""
    if isinstance(interval, str):
        return "inconclusive"
    if interval.low > -max_drop:
        return "pass"
    return "fail" if interval.high < -max_drop else "inconclusive"


def _needed(difference: PairedDifference, max_drop: float) -> int | None:
    """About how many items would give an interval that excludes the allowed drop; None if that cannot be estimated."""
    distance = abs(difference.delta + max_drop)
    if isinstance(difference.interval, str) or distance == 0 or difference.standard_error == 0:
        return None
    # The width shrinks with the square root of the number of items. Score intervals are asymmetric, so the estimate
    # may be below n, which did not suffice.
    items = math.ceil(difference.n * (z_value() * difference.standard_error / distance) ** 2)
    return max(difference.n + 1, items)


def baseline_path(folder: Path, name: str, items_digest: str) -> Path:
    """Path of a baseline. Raises `RequestError` for a name that is not a plain file name."""
    if not name or not all(character.isalnum() or character in "-_." for character in name) or name.startswith("."):
        raise RequestError(f"baseline name {name!r} is not allowed", "letters, digits, '-', '_' and '.'")
    return folder / name / f"{items_digest[:16]}.json"


def set_baseline(folder: Path, name: str, record: EvaluationRecord) -> Path:
    """Save an evaluation as a baseline; replaces one of the same name and items."""
    path = baseline_path(folder, name, record.items_digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_json(path, {
        "schema": SCHEMA, "name": name, "source": record.name, "made_from": record.root,
        "config": {key: record.config[key] for key in _CONFIG if key in record.config},
        "answers": asdict(record.answer_counts), "results": [asdict(result) for result in record.results()]})
    return path


def read_baseline(folder: Path, name: str, items_digest: str) -> tuple[dict[str, Any], list[ItemResult], AnswerCounts]:
    """The sections of `_CONFIG`, the results and the counts of answers of a saved baseline.

    Raises `RequestError` if it does not exist, `RecordError` if it is damaged.
    """
    path = baseline_path(folder, name, items_digest)
    if not path.is_file():
        others = len(list(path.parent.glob("*.json")))
        hint = f"; there are {others} for other items" if others else ""
        raise RequestError(f"{folder} has no baseline {name} for items {items_digest[:16]}…{hint}",
                           "a baseline on the same items", f"workings compare RUN --save {folder / name}")
    value = read_json_object(path)
    if value.get("schema") != SCHEMA:
        raise RecordError(f"{path} is not a baseline that this version reads")
    try:
        results = [ItemResult(**entry | {"score": float(entry["score"])}) for entry in value["results"]]
        return value["config"], results, AnswerCounts(**value["answers"])
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path} is damaged: {error}") from None
