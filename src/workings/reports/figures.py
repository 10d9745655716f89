"""The figures of a page, each for wide and narrow screens, with a key and its numbers as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from markupsafe import Markup, escape

from workings.evaluation.comparison.compare import TABLE_HEADS, Comparison
from workings.evaluation.comparison.paired import points
from workings.evaluation.first_wrong_step import KINDS, WRONG_STEP_KINDS, wrong_place
from workings.evaluation.scorecard import recorded_interval
from workings.evaluation.statistics import Interval
from workings.record.number_text import p_text, percent
from workings.reports.charts import Curve, IntervalRows, Mark, draw_interval_chart, draw_line_chart, key_entry, smoothed
from workings.reports.gather import RunView
from workings.reports.reinforcement import PANELS, RARE, Panel, numbers

WIDE, NARROW = 880, 360
SMOOTHING_SHARE = 50
"""The smoothed training loss is a moving mean over this part (1/50) of the steps."""
_DELTA_COLOR = 4  # runs have 0 to 3
LOSS = Panel("loss", "Training loss", "nats per token", {"loss": "loss"},
             "Mean negative log likelihood of the supervised tokens, before each update.")
HELD_OUT_LOSS = Panel("evaluation_loss", "Evaluation loss", "nats per token", {"evaluation_loss": "loss"},
                      "That of held-out traces. Losses of runs that supervise different tokens (steps and answer, or "
                      "only the answer) are not comparable: compare accuracies instead.")
_TABLE_ROWS = 12
SMOOTHED = " Bold: moving mean over 1/50 of the steps; faint: every step."
"""Caption of smoothed curves."""
REPORTED_PANELS = ("reward", "teacher", "outside", "groups", "lengths", "mismatch", "preference_loss", "margin",
                   "accuracy", "pair_log_probs")
"""Figures of a report; the page of `workings ui` has all of them."""
_COLORS = 5
CAPTION = ("Items by the line of the first wrong equation in their reasoning, for the "
           "first sample of each item. This finds wrong arithmetic, not misunderstandings: of 590 wrong solutions "
           "(MR-GSM8K, labelled by people), 22 % are marked, and 76 % of the marks are the labelled first error.")
RunLog = tuple[RunView, list[tuple[float, dict[str, Any]]]]
"""A run, and its numbers by name for each step."""


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
    table: Table
    key: list[dict[str, Any]] = field(default_factory=list)
    heading: str = ""
    caption: str = ""


def accuracy_figure(views: Sequence[RunView]) -> Drawn | None:
    """Accuracy of every evaluated run, overall and by section; None if no run was evaluated."""
    scored = [view for view in views if view.evaluation]
    if not scored:
        return None
    names = ["overall", *sorted({name for view in scored for name in view.scorecard["per_section"]})]
    if len(names) == 2:  # the only section has the same items as `overall`
        names = ["overall"]
    rows, table, descriptions = [], [], []
    for name in names:
        marks, size = [], ""
        for view in scored:
            cell = view.scorecard["overall"] if name == "overall" else view.scorecard["per_section"].get(name)
            if cell is not None:
                marks.append(interval_mark(cell["mean"], interval_of(cell), view.color))
                accuracy, interval, size = percent(cell["mean"]), bounds(interval_of(cell)), size or str(cell["n"])
                table.append([name, view.name, str(cell["n"]), str(cell["correct"]), accuracy, interval,
                              str(cell["errors"])])
                descriptions.append(f"{view.name}, {name}: {accuracy}, interval {interval}")
        rows.append((f"{name} ({size})", marks))
    heads = ["Section", "Run", "Items", "Right", "Accuracy", "95 % interval", "Errors"]
    return interval_figure(
        "Accuracy with 95 % intervals", rows, Table(caption="Accuracy", heads=heads, rows=table), "correct answers, %",
        description="; ".join(descriptions),
        key=[key_entry(view.name, view.color, "mark") for view in scored])


def delta_figure(comparison: Comparison) -> Drawn | None:
    """The paired difference, overall and by section."""
    if comparison.difference is None:
        return None
    entries = [("overall", comparison.difference, comparison.difference.p_value)]
    if len(comparison.sections) > 1:
        # Adjusted for the number of sections: one of twenty looks significant by chance.
        entries += [(section.name, section.difference, section.p_adjusted) for section in comparison.sections]
    rows, table, descriptions = [], [], []
    for name, pair, p_value in entries:
        rows.append((f"{name} ({pair.n})", [interval_mark(pair.delta, pair.interval, _DELTA_COLOR, signed=True)]))
        interval, p = bounds(pair.interval, signed=True), "none" if p_value is None else p_text(p_value)
        table.append([name, str(pair.n), points(pair.delta), interval, p, str(pair.newly_right), str(pair.newly_wrong)])
        descriptions.append(f"{name}: {points(pair.delta)} points, interval {interval}")
    heads = ["Section", "Items", "Difference", "95 % interval", "p", "Newly right", "Newly wrong"]
    return interval_figure(
        f"Difference {comparison.name_b} minus {comparison.name_a}", rows,
        Table(caption="Difference on the same items", heads=heads, rows=table), "percentage points", signed=True,
        description="; ".join(descriptions))


def interval_figure(title: str, rows: IntervalRows, table: Table, x_label: str, *, description: str,
                    signed: bool = False, key: Sequence[dict[str, Any]] = ()) -> Drawn:
    """Intervals from 0 to 100 or, ``signed``, around a line at zero; ``description`` is the text alternative."""
    wide, narrow = (draw_interval_chart(rows, width, f"{title}. {description}", x_label, signed=signed)
                    for width in (WIDE, NARROW))
    return Drawn(wide=wide, narrow=narrow, table=table, key=list(key))


def interval_mark(value: float, interval: Interval | str, color: int, *, signed: bool = False) -> Mark:
    """A share, or a difference of shares, with its interval (or why there is no interval), in percent or points."""
    sign, between = ("+", " to ") if signed else ("", "–")
    text = f"{100 * value:{sign}.1f}"
    if isinstance(interval, str):
        return Mark(value=100 * value, low=None, high=None, color=color, label=f"{text} (no interval)")
    low, high = 100 * interval.low, 100 * interval.high
    return Mark(value=100 * value, low=low, high=high, color=color,
                label=f"{text} ({low:{sign}.1f}{between}{high:{sign}.1f})")


def bounds(interval: Interval | str, *, signed: bool = False) -> str:
    """Both ends in percent or points, or why there is no interval."""
    if isinstance(interval, str):
        return f"none: {interval}"
    sign = "+" if signed else ""
    return f"{100 * interval.low:{sign}.1f} to {100 * interval.high:{sign}.1f}"


def interval_of(cell: Mapping[str, Any]) -> Interval | str:
    """The interval of a recorded cell, or why it has none."""
    low, high = recorded_interval(cell)
    if low is None or high is None:
        return str(cell["ci_low"]["absent"])
    return Interval(low, high, "recorded")


def curve_figures(views: Sequence[RunView]) -> list[Drawn]:
    """Figures over steps: what runs logged that learned from rewards or pairs, and the losses of traces.

    Of rewards one run has all lines of a figure; several runs have one line each.
    """
    logs: list[RunLog] = [(view, [(float(line["step"]), line) for line in view.lines]) for view in views]
    from_traces = [(view, steps) for view, steps in logs if not view.uses_rewards]
    rewarded = [(view, [(step, numbers(line)) for step, line in steps]) for view, steps in logs if view.uses_rewards]
    figures = [(panel, _curves(panel, rewarded, alone=len(rewarded) == 1)) for panel in PANELS
               if panel.key in REPORTED_PANELS]
    figures += [(LOSS, _curves(LOSS, from_traces, alone=False)),
                (HELD_OUT_LOSS, _curves(HELD_OUT_LOSS, logs, alone=False))]
    return [_figure(panel, curves) for panel, curves in figures if curves]


def _curves(panel: Panel, logs: Sequence[RunLog], *, alone: bool) -> list[Curve]:
    """The panel's curves that have points: of a run ``alone`` all, of several runs the first of each."""
    curves: list[Curve] = []
    for view, steps in logs:
        named = list(panel.lines_of({key for _, values in steps for key in values}).items())
        for number, (key, name) in enumerate(named if alone else named[:1]):
            points = [(step, values[key]) for step, values in steps if isinstance(values.get(key), int | float)]
            is_repetition = key not in panel.lines and curves and points == curves[0].points
            is_always_zero = not any(value for _, value in points)
            if not points or is_repetition or (key in RARE and is_always_zero):
                continue
            curves.append(Curve(name=name if alone else view.name, points=points,
                                color=number % _COLORS if alone else view.color,
                                style="dots" if panel is HELD_OUT_LOSS else "line"))
    return curves


def _figure(panel: Panel, curves: Sequence[Curve]) -> Drawn:
    """The figure of a panel: the curves, smoothed ones over faint ones if they are noisy and long."""
    drawn, caption = list(curves), panel.sentence
    # One span, so that all curves have the same smoothing.
    span = max(len(curve.points) for curve in curves) // SMOOTHING_SHARE
    if panel.key in ("reward", "loss") and span > 1:
        drawn = [replace(curve, style="faint") for curve in curves]
        drawn += [replace(curve, points=smoothed(curve.points, span)) for curve in curves]
        caption += SMOOTHED
    ends = [(curve.name, curve.points[0], curve.points[-1]) for curve in curves]
    label = f"{panel.title}. " + "; ".join(
        f"{name}: {first:.3g} at step {begin:g}, {last:.3g} at step {end:g}"
        for name, (begin, first), (end, last) in ends)
    wide, narrow = (draw_line_chart(drawn, width, height, label, panel.unit or panel.title.casefold())
                    for width, height in ((WIDE, 320), (NARROW, 270)))
    return Drawn(wide=wide, narrow=narrow, table=steps_table(panel.title, curves), heading=panel.title, caption=caption,
                 key=[key_entry(curve.name, curve.color, "mark" if curve.style == "dots" else "line")
                      for curve in curves])


def steps_table(title: str, curves: Sequence[Curve]) -> Table:
    """Values at about a dozen steps, the first and the last among them; a column for each curve."""
    steps = sorted({step for curve in curves for step, _ in curve.points})
    stride = max(1, (len(steps) - 1) // (_TABLE_ROWS - 1))
    shown = sorted({*steps[::stride], steps[-1]})
    columns = [dict(curve.points) for curve in curves]
    rows = [[f"{step:g}", *(f"{column[step]:.4g}" if step in column else "—" for column in columns)] for step in shown]
    return Table(caption=title, heads=["Step", *(curve.name for curve in curves)], rows=rows)


def flips_table(comparison: Comparison | None) -> Table | None:
    """Items by what changed from A to B, overall and by section; None without a comparison."""
    if comparison is None or not comparison.flips:
        return None
    return Table(caption="Items by what changed", heads=list(TABLE_HEADS),
                 rows=[list(flip.row()) for flip in comparison.flips])


def pass_table(comparison: Comparison | None) -> Table | None:
    """pass@k of both sides and the difference; None with one sample per item."""
    if comparison is None or not comparison.pass_at_k:
        return None
    return Table(caption="Any of k samples correct", heads=["k", comparison.name_a, comparison.name_b, "difference"],
                 rows=[[*rate.row()] for rate in comparison.pass_at_k])


def marked(completion: str) -> Markup:
    """A completion as HTML, its first wrong equation underlined and with the right value next to it."""
    place = wrong_place(completion)
    if place is None:
        return escape(completion)
    # The hidden words are for screen readers.
    return Markup('{}<span class="wrong-step">{}</span><span class="right-value"><span class="hidden"> (this equation '
                  'is wrong; correct: </span>{}<span class="hidden">) </span></span>{}').format(
        completion[:place.start], completion[place.start:place.end], place.expected, completion[place.end:])


def first_wrong_steps_table(named: Sequence[tuple[str, dict[str, int]]]) -> Table | None:
    """Items of each run by their first wrong equation; None if no completion has an equation to check."""
    # In a fixed order, so that two tables can be compared.
    shown = [kind for kind in KINDS if any(kind in counts for _, counts in named)]
    if not any(kind in WRONG_STEP_KINDS for kind in shown):
        return None
    rows = [[kind, *(str(counts.get(kind, 0)) for _, counts in named)] for kind in shown]
    return Table(caption="Items by their first wrong equation", rows=rows,
                 heads=["First wrong equation", *(name for name, _ in named)])
