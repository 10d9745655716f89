"""Means with their intervals as SVG, one row each."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from workings.reports.line_chart import Scale, linear_ticks, marker, svg

# In units of the view box.
_ROW, _TOP, _BOTTOM = 21, 8, 40
_GAP = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """One value with its interval (or only the value), in percent or percentage points."""

    value: float
    low: float | None
    high: float | None
    color: int
    label: str
    """The numbers as text, at the right."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalRow:
    """Marks under one name: the runs of one section."""

    name: str
    marks: Sequence[Mark]


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalChart:
    """Rows that share an axis."""

    title: str
    description: str
    rows: Sequence[IntervalRow]
    x_label: str
    zero_line: bool = False
    low: float | None = None
    high: float | None = None


def draw_interval_chart(chart: IntervalChart, width: int) -> Markup:
    """The figure as an SVG element; its height depends on its rows."""
    names = max(len(row.name) for row in chart.rows)
    narrow = width < 500
    # Estimate text widths by the letters, because the server has no font.
    left = 12 if narrow else min(180, 18 + 7 * names)
    labels = max(len(mark.label) for row in chart.rows for mark in row.marks)
    right = width - (14 if narrow else 14 + 6.7 * labels)
    heights = [_row_height(row, narrow) for row in chart.rows]
    height = _TOP + sum(heights) + _BOTTOM
    x = Scale(*_domain(chart), left, right)
    parts = [_axis(chart, x, height, width)]
    top = float(_TOP)
    for row, row_height in zip(chart.rows, heights, strict=True):
        parts.append(_narrow_row(row, x, top) if narrow else _wide_row(row, x, top))
        top += row_height
    return svg(width, height, chart.title, chart.description, Markup("").join(parts))


def _row_height(row: IntervalRow, narrow: bool) -> int:
    # A narrow row has its text above the mark.
    return (_ROW + 16 if narrow else _ROW) * len(row.marks) + _GAP


def _domain(chart: IntervalChart) -> tuple[float, float]:
    values = [value for row in chart.rows for mark in row.marks
              for value in (mark.value, mark.low, mark.high) if value is not None]
    values += [0.0] if chart.zero_line else []
    low, high = min(values), max(values)
    # Avoid an empty domain if all values are equal.
    pad = (high - low) * 0.06 or 1.0
    return (chart.low if chart.low is not None else low - pad, chart.high if chart.high is not None else high + pad)


def _axis(chart: IntervalChart, x: Scale, height: int, width: int) -> Markup:
    parts = []
    bottom = height - _BOTTOM
    for tick in linear_ticks(x.low, x.high, max(2, int((x.end - x.start) // 80))):
        # Differences have a line at zero: an interval across it is inconclusive.
        style = "zero" if chart.zero_line and tick == 0 else "grid"
        parts.append(Markup('<line class="{s}" x1="{x}" x2="{x}" y1="{a}" y2="{b}"/>'
                            '<text class="tick" x="{x}" y="{t}" text-anchor="middle">{label}</text>').format(
            s=style, x=x(tick), a=_TOP, b=bottom, t=bottom + 16, label=f"{tick:+g}" if chart.zero_line and tick else
            f"{tick:g}"))
    parts.append(Markup('<text class="label" x="{x}" y="{y}" text-anchor="middle">{text}</text>').format(
        x=(x.start + x.end) / 2, y=height - 6, text=chart.x_label))
    return Markup("").join(parts)


def _wide_row(row: IntervalRow, x: Scale, top: float) -> Markup:
    """Name at the left, numbers at the right."""
    parts = [Markup('<text class="row" x="{x}" y="{y}" text-anchor="end">{name}</text>').format(
        x=x.start - 12, y=top + _ROW * len(row.marks) / 2 + 4, name=row.name)]
    for mark in row.marks:
        y = top + _ROW / 2
        parts += [_mark(mark, x, y), Markup('<text class="value t{c}" x="{x}" y="{y}">{text}</text>').format(
            c=mark.color, x=round(x.end + 12, 1), y=y + 4, text=mark.label)]
        top += _ROW
    return Markup("").join(parts)


def _narrow_row(row: IntervalRow, x: Scale, top: float) -> Markup:
    """Name and numbers above the marks."""
    parts = [Markup('<text class="row" x="{x}" y="{y}">{name}</text>').format(x=x.start, y=top + 12, name=row.name)]
    for mark in row.marks:
        parts += [_mark(mark, x, top + 16 + _ROW / 2), Markup(
            '<text class="value t{c}" x="{x}" y="{y}" text-anchor="end">{text}</text>').format(
            c=mark.color, x=x.end, y=top + 12, text=mark.label)]
        top += _ROW + 16
    return Markup("").join(parts)


def _mark(mark: Mark, x: Scale, y: float) -> Markup:
    parts = []
    if mark.low is not None and mark.high is not None:
        a, b = x(mark.low), x(mark.high)
        # One path for the three strokes keeps the file small.
        parts.append(Markup('<path class="whisker" d="M{a} {y}H{b}M{a} {t}V{u}M{b} {t}V{u}"/>').format(
            a=a, b=b, y=y, t=y - 5, u=y + 5))
    parts.append(marker(mark.color, x(mark.value), y, 4.5))
    return Markup('<g class="mark c{c}">{parts}</g>').format(c=mark.color, parts=Markup("").join(parts))
