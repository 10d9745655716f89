"""Rounds of an improvement: one row each, and accuracy by round as a figure."""

from collections.abc import Sequence
from dataclasses import dataclass

from workings.evaluation.statistics.intervals import Interval
from workings.record.number_text import percent
from workings.reports.figures import Drawn, Table, bounds, interval_figure, interval_mark
from workings.reports.interval_chart import IntervalRow

METHOD = (
    "Every round is trained from the same base weights, on the recipe's traces and the samples kept from the "
    "previous round. Accuracies are greedy with Wilson's 95 % interval; a change is compared with the "
    "previous round, pair by pair over the same items, with Tango's interval (a t interval if items share a cluster). "
    "A round helped if that interval is above zero.")


@dataclass(frozen=True, kw_only=True)
class RoundRow:
    """One model."""

    name: str
    """`start`, or the number of a round."""
    accuracy: float
    low: float | None
    """End of the 95 % interval; None without an interval."""
    high: float | None
    change: str
    """Difference from the previous round, with interval and p value; empty for the first round."""
    learned: int
    """Samples that it was trained on besides the recipe's traces; -1 if not sampled (also below)."""
    never: int
    """Questions without a correct sample."""
    sometimes: int
    always: int


def accuracy_by_round(rounds: Sequence[RoundRow]) -> Drawn:
    """Accuracy of each round with its interval, as a chart and a table."""
    rows, table = [], []
    for row in rounds:
        interval = "no interval" if row.low is None or row.high is None else Interval(row.low, row.high, "recorded")
        name = row.name if row.name == "start" else f"round {row.name}"
        rows.append(IntervalRow(name=name, marks=[interval_mark(row.accuracy, interval, 0)]))
        table.append([name, percent(row.accuracy), bounds(interval)])
    return interval_figure(
        "Accuracy by round", rows,
        Table(caption="Accuracy by round", heads=["Round", "Accuracy", "95 % interval"], rows=table),
        "right answers, %", description="; ".join(f"{row[0]}: {row[1]}" for row in table))
