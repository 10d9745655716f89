"""All rounds of an improvement as one HTML file: accuracy by round, samples, each change."""

from dataclasses import dataclass
from pathlib import Path

from workings.evaluation.statistics.intervals import Interval
from workings.record import atomic
from workings.record.number_text import percent, small_p
from workings.reports.figures import Drawn, Table, bounds, interval_figure, interval_mark
from workings.reports.html import render_page
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
    """`start`, the number of a round, or `control`."""
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


@dataclass(frozen=True, kw_only=True)
class RoundsPage:
    """Values of the page."""

    title: str
    sentence: str
    verdict: str
    """Verdict on the last round compared with the start."""
    rows: tuple[RoundRow, ...]


def write_rounds_page(out: Path, page: RoundsPage) -> Path:
    """Write the page, in place of an earlier one."""
    atomic.write_text(out, rounds_page(page))
    return out


def rounds_page(page: RoundsPage) -> str:
    """The page as HTML."""
    return render_page("rounds.html.jinja", title=f"{page.title}, round by round", kicker="workings improvement",
                       verdict=page.verdict, verdict_text=f"the last round compared with the start: {page.verdict}",
                       # A no-break space keeps a number and its unit on one line.
                       sentence=small_p(page.sentence).replace(" %", "\u00a0%"), accuracy=accuracy_by_round(page),
                       rows=page.rows, method=METHOD, percent=percent)


def accuracy_by_round(page: RoundsPage) -> Drawn:
    """Accuracy of each round and of the control with their intervals, as a chart and a table."""
    rows, table = [], []
    for row in page.rows:
        interval = "no interval" if row.low is None or row.high is None else Interval(row.low, row.high, "recorded")
        name = row.name if row.name in ("start", "control") else f"round {row.name}"
        rows.append(IntervalRow(name=name, marks=[interval_mark(row.accuracy, interval, 3 * (row.name == "control"))]))
        table.append([name, percent(row.accuracy), bounds(interval)])
    return interval_figure(
        "Accuracy by round", rows,
        Table(caption="Accuracy by round", heads=["Round", "Accuracy", "95 % interval"], rows=table),
        "right answers, %", description="; ".join(f"{row[0]}: {row[1]}" for row in table))
