"""Bars of memory against a limit, as SVG with a text alternative; the numbers are in a table next to them."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from workings.hardware.memory import byte_text
from workings.reports.charts import svg

WIDTH, NARROW, HEIGHT, LEFT = 880, 360, 34, 4
MAX_LIMIT_RATIO = 50
"""A limit above this multiple of the longest bar is not drawn, because the bars would be too short."""
PART_GROUPS = (("parameters",), ("moments", "master weights"),
         ("gradient", "head gradient", "embedding in fp32", "update in"),
         ("activations",), ("weights", "copy of the head", "reference", "teacher"), ("keys and values", "cache"))
"""Prefixes of part names that have a fixed colour in every figure and table."""


def memory_bar(memory: Mapping[str, Any]) -> Markup | None:
    """A bar of a device's memory: planned parts, the measured peak, and the limit. None without a plan."""
    if memory["planned_bytes"] is None or memory["limit_bytes"] is None:
        return None
    parts = [(part["name"], part["size_bytes"]) for part in memory["parts"]]
    bars = [("planned", parts or [("peak", memory["planned_bytes"])])]
    if memory["measured_bytes"] is not None:
        bars.append((memory["measured_source"], [("peak", memory["measured_bytes"])]))
    return stacked_bars(bars, memory["limit_bytes"])


def part_number(name: str) -> int:
    """Index of a part's colour."""
    return next((number for number, beginnings in enumerate(PART_GROUPS) if name.startswith(beginnings)),
                len(PART_GROUPS))


def stacked_bars(bars: Sequence[tuple[str, Sequence[tuple[str, int]]]], limit: int, longest: int = 0) -> Markup:
    """One row per bar: its parts side by side, the limit as a line, or in words if it is far away.

    Once for wide and once for narrow screens; the style shows one of them. Sizes in bytes. ``longest`` is the common
    scale of several figures.
    """
    return Markup('<div class="wide">{wide}</div><div class="narrow">{narrow}</div>').format(
        wide=_stacked_bars(bars, limit, longest, WIDTH), narrow=_stacked_bars(bars, limit, longest, NARROW))


def _stacked_bars(bars: Sequence[tuple[str, Sequence[tuple[str, int]]]], limit: int, longest: int,
                  width: int) -> Markup:
    longest_bar = max(longest, *(sum(size for _, size in parts) for _, parts in bars))
    far = limit > MAX_LIMIT_RATIO * longest_bar > 0
    # A plan that does not fit is longer than the limit and must stay in the picture.
    top = (longest_bar if far else max(limit, longest_bar)) * 1.04
    scale = (width - 2 * LEFT) / top
    rows, descriptions = [], []
    for index, (name, parts) in enumerate(bars):
        # Sizes are in units of the view box; a browser scales everything, text included, to the page.
        y, x = index * (HEIGHT + 24) + 18, float(LEFT)
        total = sum(size for _, size in parts)
        rows.append(Markup('<text class="row" x="{x}" y="{y}">{text}</text>').format(
            x=LEFT, y=y - 5, text=f"{name}: {byte_text(total)}"))
        for part, size in parts:
            # `Markup.format` escapes its arguments, so that names of a foreign plan stay text.
            rows.append(Markup('<rect class="part p{n}" x="{x:.1f}" y="{y}" width="{w:.1f}" height="{h}"><title>'
                               "{text}</title></rect>").format(n=part_number(part), x=x, y=y, w=size * scale,
                                                               h=HEIGHT - 8, text=f"{part}: {byte_text(size)}"))
            x += size * scale
        descriptions.append(f"{name} {byte_text(total)}")
    height = len(bars) * (HEIGHT + 24) + 18
    at = width - LEFT if far else LEFT + limit * scale
    if not far:
        rows.append(Markup('<line class="limit" x1="{x:.1f}" x2="{x:.1f}" y1="14" y2="{y}"/>').format(
            x=at, y=height - 16))
    said_of_limit = f"limit {byte_text(limit)}" + (f", {limit // longest_bar} times as much" if far else "")
    rows.append(Markup('<text class="tick" x="{x:.1f}" y="{t}" text-anchor="end">{text}</text>').format(
        x=at, t=height - 3, text=said_of_limit))
    label = f"Memory a device: {'; '.join(descriptions)}; limit {byte_text(limit)}"
    return svg(width, height, label, Markup("").join(rows))
