"""Numbers as people read them: shares, times, tables."""

from collections.abc import Sequence

MILLISECOND = 1e-3
"""Shorter times are not said in numbers."""


def percent(share: float, places: int = 1) -> str:
    """A share as a percentage with this number of decimals: ``0.994`` as ``99.4 %``."""
    return f"{100 * share:.{places}f} %"


def duration(seconds: float) -> str:
    """A duration as text, with at most two units."""
    if 0 < seconds < MILLISECOND:
        return "less than a millisecond"
    if seconds < 90:
        return f"{seconds:.3g} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    hours, rest = divmod(round(seconds / 60), 60)
    return f"{hours} h {rest:02d} min" if hours < 48 else f"{hours / 24:.1f} days"


def about(seconds: float) -> str:
    """A planned time: ``about 3 min``."""
    return duration(seconds) if 0 < seconds < MILLISECOND else f"about {duration(seconds)}"


def p_text(p: float) -> str:
    """A p value as text: ``p = 0.031``, ``p < 0.001``."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def table_lines(rows: Sequence[Sequence[str]], *, first: str = "<", rest: str = ">") -> list[str]:
    """Lines with aligned columns; ``first`` and ``rest``: alignment of the first column and of the others."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    formats = [f"{first}{width}" for width in widths[:1]] + [f"{rest}{width}" for width in widths[1:]]
    return ["  ".join(map(format, row, formats)).rstrip() for row in rows]
