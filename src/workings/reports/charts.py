"""Curves over steps, and means with intervals, as SVG: drawn on the server, styled by classes, without scripts."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale from a domain of values to a range of pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Pixel of a value, rounded to a tenth to keep the file short."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(self.start + share * (self.end - self.start), 1)


def linear_ticks(low: float, high: float, count: int) -> list[float]:
    """About ``count`` round values (1, 2 or 5 times a power of ten apart) within a domain."""
    if high <= low:
        return [low]
    raw = (high - low) / max(count, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def tick_label(value: float) -> str:
    """A tick's text: plain digits, thousands with a thin space, small numbers as they are."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.6g}"


Points = Sequence[tuple[float, float]]
Values = NDArray[np.float64]
# Margins of a line chart for the names and numbers of its axes, in units of the view box.
_LEFT, _TOP, _BOTTOM = 52, 14, 44
# Of a chart of intervals: heights of a mark, of the text above it in a narrow chart, of the gap between rows; margins.
_MARK, _TEXT, _GAP, _ROWS_TOP, _ROWS_BOTTOM = 21, 16, 12, 8, 40
_MAX_POINTS = 400
"""Points that a curve keeps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One curve. ``color`` is the number of its run."""

    name: str
    points: Points
    color: int
    style: Literal["faint", "line", "dots"] = "line"


def draw_line_chart(curves: Sequence[Curve], width: int, height: int, label: str, y_label: str) -> Markup:
    """Curves over steps as one SVG element of this size, which scales with its container; ``label`` is its text."""
    right = width - 14
    steps = [step for curve in curves for step, _ in curve.points]
    x = Scale(min(steps), max(steps), _LEFT, right)
    # SVG counts downwards, so the highest value is at the top.
    y = Scale(*_domain([value for curve in curves for _, value in curve.points]), height - _BOTTOM, _TOP)
    return svg(width, height, label, [*_grid(x, y, right, height, y_label), *(_curve(curve, x, y) for curve in curves)])


def svg(width: int, height: int, label: str, parts: Iterable[Markup], kind: str = "chart", **more: str) -> Markup:
    """A figure with its text alternative."""
    return element("svg", parts, viewBox=f"0 0 {width} {height}", role="img", aria_label=label, class_=kind, **more)


def element(name: str, content: str | Iterable[Markup] = "", **attributes: object) -> Markup:
    """An element of SVG; text is escaped, and `class_="tick", text_anchor="end"` are `class` and `text-anchor`."""
    words = [Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items()]
    inner = escape(content) if isinstance(content, str) else Markup("").join(content)
    start = Markup("<{}{}").format(name, Markup("").join(words))
    return Markup("{}>{}</{}>").format(start, inner, name) if inner else start + Markup("/>")


def marker(color: int, x: float, y: float, size: float) -> Markup:
    """A run's sign: circle, square, diamond or triangle, so that runs are told apart without their colors."""
    if color == 0:
        return element("circle", cx=x, cy=y, r=size)
    square, diamond = ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)), ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0))
    corners = {2: diamond, 3: ((0, -1.2), (1.2, 1), (-1.2, 1))}.get(color, square)
    return element("polygon", points=" ".join(f"{x + size * dx:g},{y + size * dy:g}" for dx, dy in corners))


def key_entry(name: str, color: int, kind: str) -> dict[str, Any]:
    """An entry of a figure's key: a curve's symbol (`line`, or `mark` for points) and its name."""
    if kind == "line":
        return {"text": name, "mark": element("path", class_=f"line c{color}", d="M0 5H28")}
    return {"text": name, "mark": element("g", [marker(color, 14, 5, 4)], class_=f"mark c{color}")}


def smoothed(points: Points, span: int) -> list[tuple[float, float]]:
    """Centered moving mean over ``span`` points (fewer at both ends)."""
    mean = moving_mean(np.array([y for _, y in points], dtype=np.float64), span)
    return [(x, value) for (x, _), value in zip(points, mean.tolist(), strict=True)]


def moving_mean(values: Values, span: int) -> Values:
    """The mean around each value over ``span`` of them, fewer at both ends: of 1, 2, 6 with span 3 it is 1.5, 3, 4."""
    # A mean is the difference of two running sums, so the cost does not depend on the span.
    sums = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    first, last = np.maximum(0, index - span // 2), np.minimum(len(values), index + span // 2 + 1)
    return np.asarray((sums[last] - sums[first]) / (last - first))


def thinned(points: Points) -> Points:
    """The curve thinned to about `_MAX_POINTS` points, in their order; it keeps every spike."""
    return [points[i] for i in kept_places(np.array([y for _, y in points], dtype=np.float64), _MAX_POINTS)]


def kept_places(values: Values, limit: int) -> list[int]:
    """Indices of the points that are drawn: both ends, and of each bin the lowest and the highest."""
    count = len(values)
    if count <= limit:
        return list(range(count))
    inner = values[1:-1]
    bin_size = math.ceil(2 * count / limit)  # 5 for 9 points and a limit of 4: 2 bins, at most 2 + 2 * 2 points
    bins = math.ceil(len(inner) / bin_size)
    padded = np.full(bins * bin_size, inner[-1])  # the last value again: the first of equal ones is taken
    padded[:len(inner)] = inner
    table, starts = padded.reshape(bins, bin_size), 1 + bin_size * np.arange(bins)
    indices = np.concatenate([[0], starts + table.argmin(axis=1), starts + table.argmax(axis=1), [count - 1]])
    return [int(index) for index in np.unique(indices)]


def _domain(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    pad = (high - low) * 0.05 or 0.5
    # Include a zero that is near: otherwise small changes look large.
    return (0.0 if 0 <= low < high / 3 else low - pad), high + pad


def _grid(x: Scale, y: Scale, right: float, height: int, y_label: str) -> Iterator[Markup]:
    bottom = height - _BOTTOM
    for tick in linear_ticks(y.low, y.high, 5):
        yield _line("grid", _LEFT, right, y(tick), y(tick))
        yield _text("tick", _LEFT - 6, y(tick) + 4, tick_label(tick), "end")
    for tick in linear_ticks(x.low, x.high, max(2, int((right - _LEFT) // 90))):
        yield _line("axis", x(tick), x(tick), bottom, bottom + 5)
        yield _text("tick", x(tick), bottom + 19, tick_label(tick), "middle")
    yield _line("axis", _LEFT, right, bottom, bottom)
    yield _text("label", (_LEFT + right) / 2, height - 6, "step", "middle")
    yield element("text", y_label, class_="label", transform=f"translate(13 {(_TOP + bottom) / 2}) rotate(-90)",
                  text_anchor="middle")


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> Markup:
    return element("line", class_=kind, x1=x1, x2=x2, y1=y1, y2=y2)


def _text(kind: str, x: float, y: float, words: str, anchor: str = "start") -> Markup:
    return element("text", words, class_=kind, x=x, y=y, text_anchor=anchor)


def _curve(curve: Curve, x: Scale, y: Scale) -> Markup:
    pixels = [(x(step), y(value)) for step, value in thinned(curve.points)]
    path = "M" + "L".join(f"{left:g} {top:g}" for left, top in pixels)
    if curve.style == "dots":
        dots = [marker(curve.color, left, top, 3.5) for left, top in pixels]
        return element("g", [element("path", class_="dashed", d=path), *dots], class_=f"dots c{curve.color}")
    return element("path", class_=f"{curve.style} c{curve.color}", d=path)


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """One value with its interval (or only the value), in percent or percentage points."""

    value: float
    low: float | None
    high: float | None
    color: int
    label: str
    """The numbers as text, at the right."""


IntervalRows = Sequence[tuple[str, Sequence[Mark]]]
"""Marks by name: the runs of one section."""


def draw_interval_chart(rows: IntervalRows, width: int, label: str, x_label: str, *, signed: bool) -> Markup:
    """Rows that share an axis as an SVG element; its height depends on its rows, ``label`` is its text.

    ``signed`` values are differences, on both sides of a line at zero; others are from 0 to 100. A narrow chart has
    names and numbers above the marks, a wide one at their left and right.
    """
    marks = [mark for _, marks in rows for mark in marks]
    narrow = width < 500
    left, right, text_height = 12, width - 14.0, _TEXT
    if not narrow:
        left, text_height = min(180, 18 + 7 * max(len(name) for name, _ in rows)), 0
        right -= 6.7 * max(len(mark.label) for mark in marks)
    low, high = _difference_domain(marks) if signed else (0.0, 100.0)
    x = Scale(low, high, left, right)
    bottom = _ROWS_TOP + len(marks) * (_MARK + text_height) + len(rows) * _GAP
    height = bottom + _ROWS_BOTTOM
    parts = []
    for tick in linear_ticks(low, high, max(2, int((right - left) // 80))):
        parts += [_line("zero" if signed and tick == 0 else "grid", x(tick), x(tick), _ROWS_TOP, bottom),
                  _text("tick", x(tick), bottom + 16, f"{tick:+g}" if signed and tick else f"{tick:g}", "middle")]
    parts.append(_text("label", (left + right) / 2, height - 6, x_label, "middle"))
    top = float(_ROWS_TOP)
    for name, own in rows:
        if narrow:
            parts.append(_text("row", left, top + 12, name))
        else:
            parts.append(_text("row", left - 12, top + _MARK * len(own) / 2 + 4, name, "end"))
        for mark in own:
            y, kind = top + text_height + _MARK / 2, f"value t{mark.color}"
            parts.append(_mark(mark, x, y))
            if narrow:
                parts.append(_text(kind, int(right), top + 12, mark.label, "end"))
            else:
                parts.append(_text(kind, round(right + 12, 1), y + 4, mark.label))
            top += _MARK + text_height
        top += _GAP
    return svg(width, height, label, parts)


def _difference_domain(marks: Sequence[Mark]) -> tuple[float, float]:
    values = [value for mark in marks for value in (mark.value, mark.low, mark.high) if value is not None]
    low, high = min(0.0, *values), max(0.0, *values)
    pad = (high - low) * 0.06 or 1.0
    return low - pad, high + pad


def _mark(mark: Mark, x: Scale, y: float) -> Markup:
    parts = []
    if mark.low is not None and mark.high is not None:
        a, b = x(mark.low), x(mark.high)
        parts.append(element("path", class_="whisker", d=f"M{a} {y}H{b}M{a} {y - 5}V{y + 5}M{b} {y - 5}V{y + 5}"))
    return element("g", [*parts, marker(mark.color, x(mark.value), y, 4.5)], class_=f"mark c{mark.color}")
