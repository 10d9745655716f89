"""The figures of a page: each drawn wide and narrow, with its key and the same numbers as a table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from workings.evaluation.comparison.compare import Comparison
from workings.evaluation.comparison.flips import TABLE_HEADS
from workings.evaluation.comparison.paired import PairedDifference, points
from workings.evaluation.scorecard import recorded_interval
from workings.evaluation.statistics.intervals import Interval
from workings.record.number_text import p_shown, percent, small_p
from workings.reports.gather import RunView
from workings.reports.interval_chart import IntervalChart, IntervalRow, Mark, draw_interval_chart
from workings.reports.line_chart import Curve, LineChart, Points, draw_line_chart, marker, smoothed

WIDE, NARROW = 880, 360
SMOOTHING_SHARE = 50
"""The smoothed training loss is a moving mean over this part (1/50) of the steps."""
# Behind the colours 0 to 3 of the runs: a difference belongs to none of them.
_DELTA_COLOR = 4
# Beyond this ratio a linear axis presses the later part of a training curve flat.
_LOG_RATIO = 8
_LOSS = "Mean negative log likelihood of the supervised tokens, in nats"
_TABLE_ROWS = 12
_LABEL_CHARS = 22


@dataclass(frozen=True, kw_only=True)
class Table:
    """The numbers of a figure."""

    caption: str
    heads: list[str]
    rows: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A figure in both widths."""

    wide: Markup
    narrow: Markup
    table: Table | None
    """None: the figure's text alternative alone has the numbers."""
    key: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class LossFigure:
    """A figure of losses with its heading."""

    heading: str
    caption: str
    drawn: Drawn


def accuracy_figure(views: Sequence[RunView]) -> Drawn | None:
    """Accuracy of every evaluated run, overall and by section; None if no run was evaluated."""
    scored = [view for view in views if view.evaluation]
    if not scored:
        return None
    names = ["overall", *sorted({name for view in scored for name in view.scorecard["per_section"]})]
    # With one section the overall row would be there twice.
    if len(names) == 2:
        names = names[:1]
    rows, table = [], []
    for name in names:
        marks = []
        for view in scored:
            cell = view.scorecard["overall"] if name == "overall" else view.scorecard["per_section"].get(name)
            if cell is not None:
                marks.append(_accuracy_mark(cell, view.color))
                table.append([name, view.name, str(cell["n"]), str(cell["correct"]), percent(cell["mean"]),
                              _bounds(cell), str(cell["errors"])])
        # The label has room for one count, that of the first run; the table has those of all.
        size = next(row[2] for row in table if row[0] == name)
        rows.append(IntervalRow(name=f"{name} ({size})", marks=marks))
    description = "; ".join(f"{row[1]}, {row[0]}: {row[4]}, interval {row[5]}" for row in table)
    chart = IntervalChart(title="Accuracy with 95 % intervals", description=description, rows=rows,
                          x_label="right answers, %", low=0.0, high=100.0)
    heads = ["Section", "Run", "Items", "Right", "Accuracy", "95 % interval", "Errors"]
    return drawn_intervals(chart, Table(caption="Accuracy", heads=heads, rows=table),
                           [key_entry(view.name, view.color, "mark") for view in scored])


def delta_figure(comparison: Comparison) -> Drawn | None:
    """The paired difference, overall and by section."""
    if comparison.difference is None:
        return None
    entries = [("overall", comparison.difference, comparison.difference.p_value)]
    if len(comparison.sections) > 1:
        # Adjusted for the number of sections: of twenty, one looks significant by chance.
        entries += [(section.name, section.difference, section.p_adjusted) for section in comparison.sections]
    rows = [IntervalRow(name=f"{name} ({pair.n})", marks=[_delta_mark(pair)]) for name, pair, _ in entries]
    table = [[name, str(pair.n), points(pair.delta), _delta_bounds(pair), p_shown(p) if p is not None else "none",
              str(pair.newly_right), str(pair.newly_wrong)] for name, pair, p in entries]
    description = "; ".join(f"{row[0]}: {row[2]} points, interval {row[3]}" for row in table)
    chart = IntervalChart(title=f"Difference {comparison.name_b} minus {comparison.name_a}", description=description,
                          rows=rows, x_label="percentage points", zero_line=True)
    heads = ["Section", "Items", "Difference", "95 % interval", "p", "Newly right", "Newly wrong"]
    return drawn_intervals(chart, Table(caption="Difference on the same items", heads=heads, rows=table))


def drawn_intervals(chart: IntervalChart, table: Table, key: Sequence[dict[str, Any]] = ()) -> Drawn:
    """A chart of intervals in both widths."""
    return Drawn(wide=draw_interval_chart(chart, WIDE), narrow=draw_interval_chart(chart, NARROW), table=table,
                 key=list(key))


def loss_figures(views: Sequence[RunView]) -> list[LossFigure]:
    """Training loss and evaluation loss, as far as the runs have them."""
    figures = []
    trained = [view for view in views if len(view.train_loss) > 1 and not view.uses_rewards]
    if trained:
        # One span for all runs, so that their curves are smoothed alike.
        span = max(1, max(len(view.train_loss) for view in trained) // SMOOTHING_SHARE)
        curves = [Curve(name=view.name, points=view.train_loss, color=view.color, style="faint")
                  for view in trained if span > 1]
        curves += [Curve(name=view.name, points=smoothed(view.train_loss, span), color=view.color,
                         label=short(view.name)) for view in trained]
        caption = f"{_LOSS}, before each update."
        if span > 1:
            caption += " Bold: moving mean over a fiftieth of the steps; faint: every step."
        figures.append(LossFigure(heading="Training loss", caption=caption, drawn=_loss(
            "Training loss", curves, trained, [view.train_loss for view in trained])))
    held_out = [view for view in views if view.evaluation_loss]
    if held_out:
        curves = [Curve(name=view.name, points=view.evaluation_loss, color=view.color, style="dots",
                        label=short(view.name))
                  for view in held_out]
        figures.append(LossFigure(
            heading="Evaluation loss", drawn=_loss("Evaluation loss", curves, held_out,
                                                   [view.evaluation_loss for view in held_out]),
            caption=("The same" if trained else _LOSS) + " on traces that were held out. Runs that supervise different "
                    "tokens (steps and answer, or the answer alone) have losses of different things: compare "
                    "accuracies, not these."))
    return figures


def short(name: str) -> str:
    """A run's name as it fits next to a curve."""
    return name if len(name) <= _LABEL_CHARS else f"{name[:_LABEL_CHARS - 1]}…"


def _loss(title: str, curves: Sequence[Curve], views: Sequence[RunView], series: Sequence[Points]) -> Drawn:
    values = [value for points_ in series for _, value in points_]
    # The logarithm needs values above zero, and a loss may reach zero.
    log = min(values) > 0 and max(values) > _LOG_RATIO * min(values)
    description = "; ".join(
        f"{view.name}: {points_[0][1]:.3f} at step {points_[0][0]:g}, {points_[-1][1]:.3f} at step {points_[-1][0]:g}"
        for view, points_ in zip(views, series, strict=True))
    chart = LineChart(title=title, description=description, curves=curves, x_label="step", log=log,
                      y_label="nats per token (log scale)" if log else "nats per token")
    # Names at the ends of curves need a margin that a narrow drawing does not have; its key names them.
    bare = LineChart(title=title, description=description, x_label="step", y_label=chart.y_label, log=log,
                     curves=[Curve(name=c.name, points=c.points, color=c.color, style=c.style) for c in curves])
    kind = "dashed" if curves[0].style == "dots" else "line"
    return Drawn(wide=draw_line_chart(chart, WIDE, 340), narrow=draw_line_chart(bare, NARROW, 280),
                 key=[key_entry(view.name, view.color, kind) for view in views],
                 table=steps_table(title, [view.name for view in views], series))


def steps_table(title: str, names: Sequence[str], series: Sequence[Points], digits: str = ".4f") -> Table:
    """Values at about a dozen steps, the first and the last among them; a column for each name."""
    steps = sorted({step for points_ in series for step, _ in points_})
    stride = max(1, (len(steps) - 1) // (_TABLE_ROWS - 1))
    # The last step is what people look for, and the stride may jump over it.
    shown = sorted({*steps[::stride], steps[-1]})
    lookup = [dict(points_) for points_ in series]
    rows = [[f"{step:g}", *(f"{values[step]:{digits}}" if step in values else "—" for values in lookup)]
            for step in shown]
    return Table(caption=title, heads=["Step", *names], rows=rows)


def _accuracy_mark(cell: dict[str, Any], color: int) -> Mark:
    low, high = (None if end is None else 100 * end for end in recorded_interval(cell))
    return Mark(value=100 * cell["mean"], low=low, high=high, color=color,
                label=f"{100 * cell['mean']:.1f}" + (f" ({low:.1f}–{high:.1f})" if low is not None and high is not None
                                                     else " (no interval)"))


def _delta_mark(difference: PairedDifference) -> Mark:
    if isinstance(difference.interval, Interval):
        low, high = 100 * difference.interval.low, 100 * difference.interval.high
        return Mark(value=100 * difference.delta, low=low, high=high, color=_DELTA_COLOR,
                    label=f"{100 * difference.delta:+.1f} ({low:+.1f} to {high:+.1f})")
    return Mark(value=100 * difference.delta, low=None, high=None, color=_DELTA_COLOR,
                label=f"{100 * difference.delta:+.1f}")


def _bounds(cell: dict[str, Any]) -> str:
    if isinstance(cell["ci_low"], dict):
        return f"none: {cell['ci_low']['absent']}"
    return f"{100 * cell['ci_low']:.1f} to {100 * cell['ci_high']:.1f}"


def _delta_bounds(difference: PairedDifference) -> str:
    if isinstance(difference.interval, Interval):
        return f"{points(difference.interval.low)} to {points(difference.interval.high)}"
    return f"none: {difference.interval}"


def key_entry(name: str, color: int, kind: str) -> dict[str, Any]:
    """A line of a figure's key: the sign of a curve (`line`, `dashed`, or `mark` for points) and its name."""
    if kind != "mark":
        mark = Markup('<path class="{kind} c{c}" d="M0 5H28"/>').format(kind=kind, c=color)
    else:
        mark = Markup('<g class="mark c{c}">{shape}</g>').format(c=color, shape=marker(color, 14, 5, 4))
    return {"mark": mark, "text": name}


def flips_table(comparison: Comparison | None) -> Table | None:
    """Items by what changed from A to B, in all and by section; None without a comparison."""
    if comparison is None or not comparison.flips:
        return None
    return Table(caption="Items by what changed", heads=list(TABLE_HEADS),
                 rows=[list(flip.row()) for flip in comparison.flips])


def pass_table(comparison: Comparison | None) -> Table | None:
    """pass@k of both sides and the difference; None where one sample an item was drawn."""
    if comparison is None or not comparison.pass_at_k:
        return None
    return Table(caption="Any of k samples right", heads=["k", comparison.name_a, comparison.name_b, "difference"],
                 rows=[[*map(small_p, rate.row())] for rate in comparison.pass_at_k])
