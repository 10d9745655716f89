"""Decide whether a run passes: yes if a larger drop than allowed is ruled out, no if it is certain.

A baseline holds the results of one evaluation in a small file, to commit to a repository: one file per name and set of
items, ``<folder>/<name>/<first 16 digits of the items' digest>.json``. The run itself is no longer needed. The file
holds no prompts or completions.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.evaluation.answer_counts import AnswerCounts
from workings.evaluation.comparison.no_verdict import MeasuredSide, measured_side, reasons_against
from workings.evaluation.comparison.paired import PairedDifference, compare_configs, paired_difference, paired_values
from workings.evaluation.scorecard import ItemResult
from workings.evaluation.statistics import Interval, z_value
from workings.evaluation.unit import EvaluationRecord, find_results
from workings.record import atomic
from workings.record.canonical import loads

EXIT_CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
SCHEMA = "baseline/1"
# Read by `compare_configs`.
_CONFIG = ("schema", "items", "scorer", "extraction", "steps", "template", "decoding", "aggregate")


@dataclass(frozen=True, kw_only=True)
class GateResult:
    """Decision of a gate, with its reason."""

    verdict: str
    """`pass`, `fail` or `inconclusive`."""
    max_drop: float
    change: float
    """Accuracy of the run minus that of the baseline."""
    interval: Interval | str
    n: int
    needed: int | None
    """Estimated number of items that would settle it; None if settled or unknown."""
    baseline: str
    run: str
    notes: list[str]
    warning: str = ""
    """Warning about the run's completions; part of the sentence."""

    @property
    def sentence(self) -> str:
        """The decision in one sentence."""
        interval = (f"95 % interval {self.interval.low:+.4f} to {self.interval.high:+.4f}"
                    if isinstance(self.interval, Interval) else f"no interval: {self.interval}")
        # Inconclusive is a third answer: with few items neither is shown, and a run must not pass by that.
        reason = {"pass": f"a drop of more than {self.max_drop:g} is ruled out",
                  "fail": f"it dropped by more than {self.max_drop:g}",
                  "inconclusive": f"a drop of more than {self.max_drop:g} is neither shown nor ruled out"}[self.verdict]
        more = f"; about {self.needed} items would settle it" if self.needed else ""
        text = (f"{self.verdict}: accuracy of {self.run} changed by {self.change:+.4f} against baseline "
                f"{self.baseline} on {self.n} items ({interval}); {reason}{more}.")
        return f"{text} {self.warning}".rstrip()

    def to_json(self) -> dict[str, Any]:
        """The answer of ``compare --gate --json``, without absent values."""
        record: dict[str, Any] = {
            "verdict": self.verdict, "max_drop": self.max_drop, "change": self.change, "items": self.n,
            "baseline": self.baseline, "run": self.run, "sentence": self.sentence, "notes": self.notes}
        if isinstance(self.interval, Interval):
            record |= {"change_ci_low": self.interval.low, "change_ci_high": self.interval.high,
                       "method": self.interval.method}
        return record | ({"items_needed": self.needed} if self.needed is not None else {})


def gate(run: Path, *, baseline: str, folder: Path, max_drop: float) -> GateResult:
    """Compare a run's evaluation with a baseline on the same items.

    Args:
        run: a run directory or evaluation.
        baseline: its name in the folder.
        folder: where baselines are.
        max_drop: largest allowed loss (0.02: two points of accuracy); not negative.

    Raises:
        RequestError: no such baseline for these items, or another way of scoring.
    """
    # 2 is probably meant as 2 %; with it every run would pass.
    if not 0 <= max_drop < 1:
        raise RequestError(f"--max-drop {max_drop:g} is not a share of the accuracy",
                           "a share from 0 to below 1: 0.02 for two points", "--max-drop 0.02")
    record, baseline_record = _matching(run, baseline, folder)
    different, notes, _ = compare_configs(baseline_record.config, record.config)
    if different:
        raise RequestError(f"{run} does not match baseline {baseline}: {'; '.join(different)}",
                           "the same way of evaluating",
                           f"workings compare {run} --save {folder / baseline}")
    # Equal digests are not enough, because anyone can edit a baseline.
    by_id = {result.id: result for result in record.results()}
    if by_id.keys() != {result.id for result in baseline_record.results}:
        raise RequestError(f"{run} and baseline {baseline} hold other items", "the same items")
    before = baseline_record.results
    after = [by_id[result.id] for result in before]
    paired = paired_difference(list(zip(before, after, strict=True)))
    verdict = _decide(paired.interval, max_drop)
    reasons: list[str] = []
    if verdict != "inconclusive":
        reasons = _refusals(verdict, max_drop, measured_side(baseline, baseline_record.counts, before),
                            measured_side(record.name, record.answer_counts, after))
    return GateResult(verdict="inconclusive" if reasons else verdict, max_drop=max_drop,
                      change=paired.delta, interval=paired.interval, n=paired.n, baseline=baseline, run=record.name,
                      notes=notes, warning=" ".join(filter(None, [record.warning, *reasons])),
                      needed=_needed(paired, max_drop) if verdict == "inconclusive" else None)


def _refusals(verdict: str, max_drop: float, baseline: MeasuredSide, run: MeasuredSide) -> list[str]:
    """Why a statistically possible decision is withheld."""
    def decided(before: Sequence[float], after: Sequence[float]) -> bool:
        return _decide(paired_values(before, after, run.clusters).interval, max_drop) == verdict

    if verdict == "pass":
        return reasons_against(run, baseline, lambda ahead, behind: decided(behind, ahead))
    return reasons_against(baseline, run, decided)


def _matching(run: Path, baseline: str, folder: Path) -> Any:
    """The run's evaluation that the baseline was made for."""
    # A run may have several evaluations: choose by the items' digest.
    units = find_results(run)
    for record in units[:-1]:
        try:
            return record, read_baseline(folder, baseline, record.items_digest)
        except RequestError:
            continue  # try the next unit; raise the last one's error
    return units[-1], read_baseline(folder, baseline, units[-1].items_digest)


def _decide(interval: Interval | str, max_drop: float) -> str:
    if isinstance(interval, str):
        return "inconclusive"
    # The allowed drop takes the place of zero.
    # The whole interval is above the limit: a non-inferiority test at 2.5 %.
    if interval.low > -max_drop:
        return "pass"
    return "fail" if interval.high < -max_drop else "inconclusive"


def _needed(difference: PairedDifference, max_drop: float) -> int | None:
    # The width shrinks with the square root of the number of items.
    distance = abs(difference.delta + max_drop)
    if isinstance(difference.interval, str) or distance == 0 or difference.standard_error == 0:
        return None
    # Score intervals are asymmetric, so the estimate can be below n, which did not settle it.
    items = math.ceil(difference.n * (z_value() * difference.standard_error / distance) ** 2)
    return max(difference.n + 1, items)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The results that a gate compares with."""

    config: dict[str, Any]
    """The parts of ``eval_config.json`` that must agree."""
    results: list[ItemResult]
    counts: AnswerCounts
    """Counts of its answers."""


def baseline_path(folder: Path, name: str, items_digest: str) -> Path:
    """Path of a baseline. Raises `RequestError` for a name that is not a plain file name."""
    # The name becomes a folder: no separators, no leading dot.
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
        "answers": record.answer_counts.to_json(), "results": [asdict(result) for result in record.results()]})
    return path


def read_baseline(folder: Path, name: str, items_digest: str) -> Baseline:
    """The baseline of this name for these items.

    Raises:
        RequestError: none exists; the message names the items that have one.
        RecordError: the file is not one of ours.
    """
    path = baseline_path(folder, name, items_digest)
    if not path.is_file():
        # The folder of this name also has its baselines for other items.
        others = sorted(path.parent.glob("*.json")) if path.parent.is_dir() else []
        hint = f"; there are {len(others)} for other items" if others else ""
        raise RequestError(f"{folder} has no baseline {name} for items {items_digest[:16]}…{hint}",
                           "a baseline on the same items", f"workings compare RUN --save {folder / name}")
    value = loads(path.read_bytes())
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        raise RecordError(f"{path} is not a baseline that this version reads")
    try:
        results = [ItemResult(**entry | {"score": float(entry["score"])}) for entry in value["results"]]
        return Baseline(config=value["config"], results=results, counts=AnswerCounts(**value["answers"]))
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path} is damaged: {error}") from None
