"""Filters of the templates: recorded values as people read them."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup, escape

from workings.hardware.memory import byte_text
from workings.record.number_text import duration, percent
from workings.record.values import leaves
from workings.reports.charts import Scale, element, svg
from workings.reports.figures import marked
from workings.reports.rollouts import visible
from workings.reports.run_table import count

WIDTH, HEIGHT = 120, 28
"""Size of a small curve; the style scales it."""


def time_text(text: str) -> str:
    """A recorded time in UTC, to the minute; the page's script converts it to local time."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return text


def value_text(value: object) -> str:
    """A recorded value as text; an absent value as the reason."""
    if isinstance(value, dict):
        if set(value) == {"absent"}:
            return f"absent: {value['absent']}"
        return ", ".join(f"{key} {value_text(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(value_text, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def facts(values: dict[str, Any]) -> dict[str, str]:
    """Dotted key -> text of each value of nested objects."""
    texts = {}
    for key, value in leaves(values):
        is_size = key.endswith("_bytes") and type(value) is int
        texts[key] = byte_text(value) if is_size else value_text(value) or "none"
    return texts


def coded(text: str) -> Markup:
    """A text with the parts between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


def ending(finish_reason: str) -> str:
    """Why a completion ended, in words."""
    return {"stop": "stop token", "length": "cut off at the length limit"}.get(finish_reason, finish_reason)


def sparkline(values: Sequence[float]) -> Markup:
    """Values from left to right as a small curve; empty for fewer than two."""
    if len(values) < 2:
        return Markup("")
    x = Scale(0, len(values) - 1, 0, WIDTH)
    y = Scale(min(values), max(values), HEIGHT - 2, 2)  # SVG counts downwards, so the highest value is at the top
    points = " ".join(f"{x(index):.1f},{y(value):.1f}" for index, value in enumerate(values))
    return svg(WIDTH, HEIGHT, f"from {values[0]:.4g} to {values[-1]:.4g}", [element("polyline", points=points)],
               "spark", preserveAspectRatio="none")


FILTERS = {"size": byte_text, "time": time_text, "value": value_text, "count": count, "duration": duration,
           "percent": percent, "facts": facts, "coded": coded, "ending": ending, "marked": marked,
           "visible": visible, "sparkline": sparkline}
