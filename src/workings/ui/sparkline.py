"""A small curve without axes, for a row of a table or a card."""

from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT = 120, 28
"""Of the drawing, in units that the style scales."""


def sparkline(values: Sequence[float]) -> Markup:
    """Values from left to right as a line, with the first and last one as its text; empty for fewer than two."""
    if len(values) < 2:
        return Markup("")
    low, high = min(values), max(values)
    # A curve of equal values is drawn in the middle.
    height = (high - low) or 1.0
    points = " ".join(f"{index * WIDTH / (len(values) - 1):.1f},"
                      f"{HEIGHT - 2 - (value - low if high > low else 0.5) / height * (HEIGHT - 4):.1f}"
                      for index, value in enumerate(values))
    return Markup('<svg class="spark" viewBox="0 0 {w} {h}" role="img" aria-label="{label}" preserveAspectRatio="none">'
                  '<polyline points="{points}"/></svg>').format(
        w=WIDTH, h=HEIGHT, points=points, label=f"from {values[0]:.4g} to {values[-1]:.4g}")
