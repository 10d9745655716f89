"""The result over items: overall and per section, category and difficulty, never a mean without its interval."""

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
    """Result of one item whose completions are scored; small, so that 100,000 fit into memory."""

    id: str
    score: float
    error: str = ""
    section: str
    category: str
    difficulty: str
    cluster: str = ""
    measures: dict[str, float] = field(default_factory=dict)
    """`format_ok`, `truncated`, `completion_tokens`, … ; a measure that does not exist for this item is left out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One mean with its interval."""

    n: int
    correct: int
    """Items with a score of exactly 1."""
    errors: int
    """Items that could not be scored; they count as 0."""
    mean: float
    interval: Interval | str
    """The 95 % interval, or why none exists."""

    def to_json(self) -> dict[str, Any]:
        """The cell as it is in a scorecard."""
        record: dict[str, Any] = {"n": self.n, "correct": self.correct, "errors": self.errors, "mean": self.mean,
                                  "confidence": statistics.CONFIDENCE}
        return record | interval_json(self.interval)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Scorecard:
    """Overall, per section, per category, per difficulty."""

    overall: Cell
    per_section: dict[str, Cell]
    per_category: dict[str, Cell]
    per_difficulty: dict[str, Cell]

    def __repr__(self) -> str:
        """One line for interactive use in Python."""
        return f"<Scorecard: {cell_text(self.overall)} on {self.overall.n} items>"

    @property
    def accuracy(self) -> float:
        """Mean score over all items."""
        return self.overall.mean

    def to_json(self) -> dict[str, Any]:
        """The scorecard as it is in ``eval_summary.json``."""
        overall = self.overall.to_json()
        # A difference of two models is -1, 0 or 1; its variance is the share of items on which they disagree, which
        # cannot be known from one scorecard.
        overall["minimum_detectable_effect"] = {
            "value": statistics.minimum_detectable_effect(math.sqrt(statistics.ASSUMED_DISCORDANT / self.overall.n)),
            "power": statistics.POWER, "assumed_discordant_share": statistics.ASSUMED_DISCORDANT}
        return {"overall": overall, **{
            name: {key: cell.to_json() for key, cell in getattr(self, name).items()}
            for name in ("per_section", "per_category", "per_difficulty")}}


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
    """Count, mean and interval of some items.

    Wilson for right or wrong on independent items; a clustered t interval where items share clusters; Student's t
    for scores in between. The method is named in the cell.
    """
    scores = [result.score for result in results]
    return Cell(n=len(scores), correct=sum(score == 1.0 for score in scores),
                errors=sum(bool(result.error) for result in results), mean=sum(scores) / len(scores),
                interval=mean_interval(scores, [result.cluster for result in results]))


def interval_json(interval: Interval | str) -> dict[str, Any]:
    """Both ends and the method of an interval in a record; the reason in place of each if there is none."""
    if isinstance(interval, Interval):
        return {**statistics.bounds(interval, "ci"), "method": interval.method}
    return {key: {"absent": interval} for key in ("ci_low", "ci_high", "method")}


def recorded_interval(cell: Mapping[str, Any]) -> tuple[float, float] | tuple[None, None]:
    """Both ends of a recorded cell's interval; None where too few items allow none."""
    low, high = cell["ci_low"], cell["ci_high"]
    return (low, high) if isinstance(low, int | float) and isinstance(high, int | float) else (None, None)


def mean_interval(values: Sequence[float], clusters: Sequence[str]) -> Interval | str:
    """The interval that suits these values, or why none exists."""
    names = cluster_names(clusters)
    groups = len(set(names))
    binary = all(value in (0.0, 1.0) for value in values)
    # Each item is its own cluster, which is what independent means here.
    if groups == len(names):
        if binary:
            return statistics.wilson(int(sum(values)), len(values))
        return statistics.t_mean(values).interval if len(values) > 1 else "one item"
    if groups < statistics.MIN_CLUSTERS:
        return too_few_clusters(groups)
    clustered = statistics.clustered_t_mean(values, names)
    # Without spread a t interval has no width; the number of clusters says how much is known.
    if binary and clustered.standard_error == 0 and clustered.mean in (0.0, 1.0):
        return replace(statistics.wilson(int(clustered.mean) * groups, groups), method="wilson over clusters")
    if binary:
        # A t interval knows no bounds, and a share has two.
        return replace(clustered.interval, low=max(0.0, clustered.interval.low), high=min(1.0, clustered.interval.high))
    return clustered.interval


def cell_text(cell: Cell) -> str:
    """A mean with its interval, or with the reason why it has none."""
    if isinstance(cell.interval, Interval):
        # A t interval of a few scores between 0 and 1 knows no bounds, and a share has two.
        low, high = max(0.0, cell.interval.low), min(1.0, cell.interval.high)
        return f"{percent(cell.mean)} (95 % interval {100 * low:.1f} to {100 * high:.1f})"
    return f"{percent(cell.mean)} (no interval: {cell.interval})"


def scorecard_text(scorecard: Scorecard, out: Path, answers: str, warning: str = "", judge: str = "") -> str:
    """A scorecard for the terminal, what its answers are, a warning where there is one, and what to type next."""
    lines = [f"{cell_text(scorecard.overall)} on {scorecard.overall.n} items", f"answers: {answers}",
             *filter(None, [judge, f"warning: {warning}" if warning else ""])]
    if scorecard.overall.errors:
        lines.append(f"{scorecard.overall.errors} items could not be scored and count as 0: see "
                     f"{out / EVALUATION_SUMMARY}")
    # A single section repeats the first line.
    if len(scorecard.per_section) > 1:
        rows = [(f"  {name}", f"{cell.n} items", cell_text(cell)) for name, cell in scorecard.per_section.items()]
        lines += table_lines(rows)
    lines.append(f"to compare: workings compare {quote(str(out))} OTHER")
    return "\n".join(lines)


def too_few_clusters(groups: int) -> str:
    """Why there is no interval."""
    return f"only {groups} clusters; an interval needs {statistics.MIN_CLUSTERS}"


def cluster_names(clusters: Iterable[str]) -> list[str]:
    """A cluster's name per item; an item without its own is a cluster."""
    return [f"c:{name}" if name else f"i:{index}" for index, name in enumerate(clusters)]
