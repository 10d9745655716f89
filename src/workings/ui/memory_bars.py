"""Bars of a device's memory against its limit, as SVG with a text alternative."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from workings.hardware.memory import byte_text
from workings.reports.charts import element, svg

WIDTH, NARROW, HEIGHT, LEFT = 880, 360, 34, 4
BAR_DISTANCE = HEIGHT + 24  # with the text between two bars
MAX_LIMIT_RATIO = 50
"""A limit that is farther away, in lengths of the longest bar, is not drawn."""
PART_GROUPS = (("parameters",), ("moments", "master weights"),
               ("gradient", "head gradient", "embedding in fp32", "update in"),
               ("activations",), ("weights", "copy of the head", "reference", "teacher"), ("keys and values", "cache"))
"""Beginnings of part names; each group has its own colour."""
Bars = Sequence[tuple[str, Sequence[tuple[str, int]]]]
"""Name of each bar, from top to bottom, and names and bytes of its parts, from left to right."""


def memory_bar(memory: Mapping[str, Any]) -> Markup | None:
    """Bars of a device's memory: the planned parts and the measured peak. None without a plan."""
    if memory["planned_bytes"] is None or memory["limit_bytes"] is None:
        return None
    parts = [(part["name"], part["size_bytes"]) for part in memory["parts"]]
    bars = [("planned", parts or [("peak", memory["planned_bytes"])])]
    if memory["measured_bytes"] is not None:
        bars.append((memory["measured_source"], [("peak", memory["measured_bytes"])]))
    return stacked_bars(bars, memory["limit_bytes"])


def part_number(name: str) -> int:
    """Number of a part's colour."""
    for number, beginnings in enumerate(PART_GROUPS):
        if name.startswith(beginnings):
            return number
    return len(PART_GROUPS)


def stacked_bars(bars: Bars, limit: int) -> Markup:
    """Bars below each other and a line at the limit in bytes, in two widths."""
    return Markup("").join(element("div", [_stacked_bars(bars, limit, width)], class_=name)
                           for name, width in (("wide", WIDTH), ("narrow", NARROW)))


def _stacked_bars(bars: Bars, limit: int, width: int) -> Markup:
    longest_bar = max(sum(size for _, size in parts) for _, parts in bars)
    is_limit_far = limit > MAX_LIMIT_RATIO * longest_bar > 0
    bytes_of_width = (longest_bar if is_limit_far else max(limit, longest_bar)) * 1.04
    scale = (width - 2 * LEFT) / bytes_of_width
    rows, descriptions = [], []
    for index, (name, parts) in enumerate(bars):
        y, x = index * BAR_DISTANCE + 18, float(LEFT)
        total = sum(size for _, size in parts)
        rows.append(element("text", f"{name}: {byte_text(total)}", class_="row", x=LEFT, y=y - 5))
        for part, size in parts:
            rows.append(element("rect", [element("title", f"{part}: {byte_text(size)}")],
                                class_=f"part p{part_number(part)}", x=f"{x:.1f}", y=y, width=f"{size * scale:.1f}",
                                height=HEIGHT - 8))
            x += size * scale
        descriptions.append(f"{name} {byte_text(total)}")
    height = len(bars) * BAR_DISTANCE + 18
    limit_text, x_of_limit = f"limit {byte_text(limit)}", f"{LEFT + limit * scale:.1f}"
    label = f"Memory a device: {'; '.join(descriptions)}; {limit_text}"
    if is_limit_far:
        limit_text, x_of_limit = f"{limit_text}, {limit // longest_bar} times as much", f"{width - LEFT:.1f}"
    else:
        rows.append(element("line", class_="limit", x1=x_of_limit, x2=x_of_limit, y1=14, y2=height - 16))
    rows.append(element("text", limit_text, class_="tick", x=x_of_limit, y=height - 3, text_anchor="end"))
    return svg(width, height, label, rows)
