"""Curves of runs that learn from rewards."""

from collections.abc import Sequence

from workings.reports.figures import SMOOTHED, SMOOTHING_SHARE, LossFigure, line_figure, smoothed_curves
from workings.reports.gather import RunView
from workings.reports.line_chart import Curve
from workings.reports.reinforcement import PANELS, Panel, numbers

REPORTED_PANELS = ("reward", "teacher", "outside", "groups", "lengths", "mismatch", "preference_loss", "margin",
            "accuracy", "pair_log_probs")
"""Figures of a report; the page of `workings ui` has all of them."""
_COLORS = 5


def reward_figures(views: Sequence[RunView]) -> list[LossFigure]:
    """Figures of the runs that learned from rewards, if any.

    One run has all lines of a figure; several runs have one line each.
    """
    curves = [(view, [(float(line["step"]), numbers(line)) for line in view.lines])
             for view in views if view.uses_rewards]
    figures = []
    for panel in (panel for panel in PANELS if panel.key in REPORTED_PANELS):
        lines = _lines(panel, curves)
        # Without a line the figure would be an empty frame.
        if lines:
            figures.append(_figure(panel, lines))
    return figures


def _lines(panel: Panel, points_of_runs: Sequence[tuple[RunView, list[tuple[float, dict[str, float]]]]]) -> list[Curve]:
    """The panel's curves, those without points left out."""
    lines: list[Curve] = []
    alone = len(points_of_runs) == 1
    for view, rows in points_of_runs:
        keys = panel.lines_of(key for _, values in rows for key in values)
        for number, line in enumerate(keys if alone else keys[:1]):
            points = [(step, values[line.key]) for step, values in rows if line.key in values]
            # A single part with weight 1 equals the reward.
            same = line not in panel.lines and lines and points == lines[0].points
            if points and not same and not (line.rare and not any(value for _, value in points)):
                lines.append(Curve(name=line.name if alone else view.name, points=points,
                                   color=number % _COLORS if alone else view.color))
    return lines


def _figure(panel: Panel, lines: Sequence[Curve]) -> LossFigure:
    # A value of 0 has no place on a logarithmic axis.
    log = panel.log and any(value > 0 for curve in lines for _, value in curve.points)
    span = max(len(curve.points) for curve in lines) // SMOOTHING_SHARE if panel.key == "reward" else 1
    # No room for a unit next to powers of ten: put it in the heading.
    return LossFigure(
        heading=f"{panel.title}, {panel.unit} (log scale)" if log else panel.title,
        caption=panel.sentence + (SMOOTHED if span > 1 else ""),
        drawn=line_figure(panel.title, lines, smoothed_curves(lines, span), log=log,
                          y_label="" if log else panel.unit or panel.title.casefold()))
