"""Scorecards: the mean score with its interval, over all items and per section, category and difficulty."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

from workings.evaluation import statistics
from workings.evaluation.statistics import Interval
from workings.record.layout import EVALUATION_SUMMARY
from workings.record.number_text import percent, table_lines


@dataclass(frozen=True, kw_only=True, slots=True)
class ItemResult:
    """Result of one item, from its scored completions."""

    id: str
    score: float
    error: str = ""
    section: str
    category: str
    difficulty: str
    cluster: str = ""
    measures: dict[str, float] = field(default_factory=dict)
    """Those of `workings.evaluation.predictions.MEASURES` that exist for this item."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One mean with its interval."""

    n: int
    correct: int
    """Items with a score of exactly 1."""
    errors: int
    """Items that could not be scored; their score is 0."""
    mean: float
    interval: Interval | str
    """The 95 % interval, or why none exists."""

    def to_json(self) -> dict[str, Any]:
        """The cell in a record."""
        return {"n": self.n, "correct": self.correct, "errors": self.errors, "mean": self.mean,
                "confidence": statistics.CONFIDENCE, **interval_json(self.interval)}


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Scorecard:
    """Overall, per section, per category, per difficulty."""

    overall: Cell
    per_section: dict[str, Cell]
    per_category: dict[str, Cell]
    per_difficulty: dict[str, Cell]

    def __repr__(self) -> str:
        """Accuracy and number of items."""
        return f"<Scorecard: {cell_text(self.overall)} on {self.overall.n} items>"

    @property
    def accuracy(self) -> float:
        """Mean score over all items."""
        return self.overall.mean

    def to_json(self) -> dict[str, Any]:
        """The scorecard in ``eval_summary.json``."""
        overall = self.overall.to_json()
        # An item's difference between two models is -1, 0 or 1, so its variance is the share of discordant items.
        overall["minimum_detectable_effect"] = {
            "value": statistics.minimum_detectable_effect(math.sqrt(statistics.ASSUMED_DISCORDANT / self.overall.n)),
            "power": statistics.POWER, "assumed_discordant_share": statistics.ASSUMED_DISCORDANT}
        groups = {"per_section": self.per_section, "per_category": self.per_category,
                  "per_difficulty": self.per_difficulty}
        return {"overall": overall,
                **{name: {key: cell.to_json() for key, cell in cells.items()} for name, cells in groups.items()}}


def build_scorecard(results: Sequence[ItemResult]) -> Scorecard:
    """The scorecard of scored items (at least one)."""
    def per(name: str) -> dict[str, Cell]:
        groups: dict[str, list[ItemResult]] = {}
        for result in results:
            groups.setdefault(getattr(result, name), []).append(result)
        return {key: cell(group) for key, group in sorted(groups.items())}

    return Scorecard(overall=cell(results), per_section=per("section"), per_category=per("category"),
                     per_difficulty=per("difficulty"))


def cell(results: Sequence[ItemResult]) -> Cell:
    """Count, mean and interval (see `mean_interval`) of some items."""
    scores = [result.score for result in results]
    return Cell(n=len(scores), correct=sum(score == 1.0 for score in scores),
                errors=sum(bool(result.error) for result in results), mean=sum(scores) / len(scores),
                interval=mean_interval(scores, [result.cluster for result in results]))


def interval_json(interval: Interval | str) -> dict[str, Any]:
    """Both ends and the method of an interval; if there is none, objects with the reason."""
    if isinstance(interval, Interval):
        return {**statistics.bounds(interval, "ci"), "method": interval.method}
    return {key: {"absent": interval} for key in ("ci_low", "ci_high", "method")}


def recorded_interval(cell: Mapping[str, Any]) -> tuple[float, float] | tuple[None, None]:
    """Both ends of a recorded cell's interval; None if it has none."""
    low, high = cell["ci_low"], cell["ci_high"]
    return (low, high) if isinstance(low, int | float) and isinstance(high, int | float) else (None, None)


def mean_interval(values: Sequence[float], clusters: Sequence[str]) -> Interval | str:
    """The interval of a mean over items, or why none exists.

    Wilson's for right or wrong on independent items, Student's t for scores in between, a clustered t interval if items
    share clusters.
    """
    names = cluster_names(clusters)
    groups = len(set(names))
    binary = all(value in (0.0, 1.0) for value in values)
    items_are_independent = groups == len(names)
    if items_are_independent and binary:
        return statistics.wilson(int(sum(values)), len(values))
    if items_are_independent:
        return statistics.t_mean(values).interval if len(values) > 1 else "one item"
    if groups < statistics.MIN_CLUSTERS:
        return too_few_clusters(groups)
    clustered = statistics.clustered_t_mean(values, names)
    # Without spread a t interval has no width; the number of clusters tells how much is known.
    if binary and clustered.standard_error == 0 and clustered.mean in (0.0, 1.0):
        return replace(statistics.wilson(int(clustered.mean) * groups, groups), method="wilson over clusters")
    return clipped(clustered.interval) if binary else clustered.interval


def clipped(interval: Interval) -> Interval:
    """The interval of a share, between 0 and 1; a t interval may reach further."""
    return replace(interval, low=max(0.0, interval.low), high=min(1.0, interval.high))


def cell_text(cell: Cell) -> str:
    """A mean with its interval, or with the reason why it has none."""
    if isinstance(cell.interval, Interval):
        shown = clipped(cell.interval)
        return f"{percent(cell.mean)} (95 % interval {100 * shown.low:.1f} to {100 * shown.high:.1f})"
    return f"{percent(cell.mean)} (no interval: {cell.interval})"


def scorecard_text(scorecard: Scorecard, out: Path, answers: str, warning: str = "", judge: str = "") -> str:
    """A scorecard as text for the terminal; ``answers``, ``warning`` and ``judge`` are further lines."""
    lines = [f"{cell_text(scorecard.overall)} on {scorecard.overall.n} items", f"answers: {answers}"]
    if judge:
        lines.append(judge)
    if warning:
        lines.append(f"warning: {warning}")
    if scorecard.overall.errors:
        lines.append(f"{scorecard.overall.errors} items could not be scored and count as 0: see "
                     f"{out / EVALUATION_SUMMARY}")
    if len(scorecard.per_section) > 1:
        rows = [(f"  {name}", f"{cell.n} items", cell_text(cell)) for name, cell in scorecard.per_section.items()]
        lines += table_lines(rows)
    lines.append(f"to compare: workings compare {quote(str(out))} OTHER")
    return "\n".join(lines)


def too_few_clusters(groups: int) -> str:
    """Why there is no interval over so few clusters."""
    return f"only {groups} clusters; an interval needs {statistics.MIN_CLUSTERS}"


def cluster_names(clusters: Iterable[str]) -> list[str]:
    """The cluster of each item; an item without one gets a cluster for itself."""
    return [f"c:{name}" if name else f"i:{index}" for index, name in enumerate(clusters)]
