"""pass@k of two evaluations with several samples per item: both values and their difference, with intervals.

Each item gives one observation, the unbiased estimate from its samples (Chen et al., 2021, arxiv.org/abs/2107.03374).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.evaluation.comparison.paired import PairedDifference, difference_text, paired_values
from workings.evaluation.predictions import read_predictions
from workings.evaluation.scorecard import Cell, cell_text, clipped, cluster_names, interval_json, mean_interval
from workings.evaluation.settings import pass_at_k
from workings.evaluation.statistics import Interval, wilson_effective
from workings.evaluation.unit import EvaluationRecord
from workings.record.layout import PREDICTIONS


@dataclass(frozen=True, kw_only=True, slots=True)
class PassAtK:
    """pass@k of both sides over the same items."""

    k: int
    a: Cell
    b: Cell
    difference: PairedDifference

    def to_json(self) -> dict[str, Any]:
        """Keys in ``compare --json``; absent bounds are left out."""
        difference = self.difference.to_json()
        a, b = ({"mean": side.mean} | (interval_json(side.interval) if isinstance(side.interval, Interval) else {})
                for side in (self.a, self.b))
        return {"k": self.k, "a": a, "b": b,
                **{key: difference[key] for key in ("delta", "delta_ci_low", "delta_ci_high", "method", "p_value")
                   if key in difference}}

    def row(self) -> tuple[str, ...]:
        """The cells of a table: k, A, B and their difference."""
        return (str(self.k), cell_text(self.a), cell_text(self.b),
                difference_text(self.difference, self.difference.p_value))


def pass_table(a: EvaluationRecord, b: EvaluationRecord, order: Sequence[tuple[str, str]]) -> list[PassAtK]:
    """pass@1, 2, 4, …; empty if a side has one sample per item. ``order``: id and cluster of each item."""
    counts_a, counts_b = _counts(a), _counts(b)
    if not counts_a or not counts_b:
        return []
    # pass@k needs at least k samples of every item.
    most = min(n for counts in (counts_a, counts_b) for n, _ in counts.values())
    powers_of_two = [1 << power for power in range(most.bit_length())]
    clusters = [cluster for _, cluster in order]
    rows = []
    for k in sorted({*powers_of_two, most}):
        values_a, values_b = ([pass_at_k(*counts[name], k) for name, _ in order] for counts in (counts_a, counts_b))
        # If no item differs, zeros on both sides give an interval from the number of items instead of the spread.
        pair = ([0.0] * len(order), [0.0] * len(order)) if values_a == values_b else (values_a, values_b)
        rows.append(PassAtK(k=k, a=_rate(values_a, clusters), b=_rate(values_b, clusters),
                            difference=paired_values(*pair, clusters)))
    return rows


def _rate(values: Sequence[float], clusters: Sequence[str]) -> Cell:
    independent = len(set(cluster_names(clusters))) == len(values) > 1
    between = any(value not in (0.0, 1.0) for value in values)
    # Near 0 and 1 a t interval would be far too narrow.
    interval = wilson_effective(values) if independent and between else mean_interval(values, clusters)
    if isinstance(interval, Interval):
        interval = clipped(interval)
    return Cell(n=len(values), correct=values.count(1.0), errors=0, mean=sum(values) / len(values), interval=interval)


def _counts(record: EvaluationRecord) -> dict[str, tuple[int, int]]:
    """Samples and correct samples of each item; empty with one sample per item."""
    # The summary counts samples by rule: with one per item the predictions need not be read.
    if sum(record.summary["rules"].values()) <= record.summary["scorecard"]["overall"]["n"]:
        return {}
    return {samples[0]["id"]: (len(samples), sum(sample["score"] == 1.0 for sample in samples))
            for samples in read_predictions(record.path / PREDICTIONS)}
