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
        names = ("delta", "delta_ci_low", "delta_ci_high", "method", "p_value")
        a, b = ({"mean": side.mean} | (interval_json(side.interval) if isinstance(side.interval, Interval) else {})
                for side in (self.a, self.b))
        return {"k": self.k, "a": a, "b": b, **{name: difference[name] for name in names if name in difference}}

    def row(self) -> tuple[str, ...]:
        """The cells of a table: k, A, B and their difference."""
        return (str(self.k), cell_text(self.a), cell_text(self.b),
                difference_text(self.difference, self.difference.p_value))


def pass_table(a: EvaluationRecord, b: EvaluationRecord, order: Sequence[tuple[str, str]]) -> list[PassAtK]:
    """pass@1, 2, 4, …; empty if a side has one sample per item. ``order``: id and cluster of each item."""
    scores_a, scores_b = _sample_scores(a), _sample_scores(b)
    if not scores_a or not scores_b:
        return []
    # pass@k needs at least k samples of every item.
    most = min(map(len, (*scores_a.values(), *scores_b.values())))
    powers_of_two = [1 << power for power in range(most.bit_length())]
    clusters = [cluster for _, cluster in order]
    rows = []
    for k in sorted({*powers_of_two, most}):
        values_a, values_b = ([pass_at_k(len(scores[name]), scores[name].count(1.0), k) for name, _ in order]
                              for scores in (scores_a, scores_b))
        if values_a == values_b:  # zeros give an interval from the number of items, because there is no spread
            difference = paired_values([0.0] * len(order), [0.0] * len(order), clusters)
        else:
            difference = paired_values(values_a, values_b, clusters)
        rows.append(PassAtK(k=k, a=_cell(values_a, clusters), b=_cell(values_b, clusters), difference=difference))
    return rows


def _cell(values: Sequence[float], clusters: Sequence[str]) -> Cell:
    independent = len(set(cluster_names(clusters))) == len(values) > 1
    between = any(value not in (0.0, 1.0) for value in values)
    # Near 0 and 1 a t interval would be far too narrow.
    interval = wilson_effective(values) if independent and between else mean_interval(values, clusters)
    if isinstance(interval, Interval):
        interval = clipped(interval)
    return Cell(n=len(values), correct=values.count(1.0), errors=0, mean=sum(values) / len(values), interval=interval)


def _sample_scores(record: EvaluationRecord) -> dict[str, list[float]]:
    """Item's id -> the scores of its samples; empty with one sample per item."""
    # The summary counts samples by rule: with one per item the predictions need not be read.
    if sum(record.summary["rules"].values()) <= record.summary["scorecard"]["overall"]["n"]:
        return {}
    return {samples[0]["id"]: [float(sample["score"]) for sample in samples]
            for samples in read_predictions(record.path / PREDICTIONS)}
