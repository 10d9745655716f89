"""Numbers as people read them: shares, times, tables."""

import re
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
    # "75 s" says more than "1 min".
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
    """A p value with its digits, for JSON answers and records: ``p = 0.031``, ``p = 2.0e-09``, ``p < 1e-300``."""
    # Near the smallest double; below it the number printed would be 0, which no test says.
    if p < 1e-300:
        return "p < 1e-300"
    return f"p = {p:.1e}" if p < 0.001 else f"p = {p:.3f}"


_TINY = re.compile(r"p [=<] \d(?:\.\d+)?e-\d+")
"""A p value below 0.001 as `p_text` writes it."""


def p_shown(p: float) -> str:
    """A p value as text, in a terminal, on the page and in reports: ``p = 0.031``, ``p < 0.001``."""
    return small_p(p_text(p))


def small_p(text: str, blank: str = "\N{NO-BREAK SPACE}") -> str:
    """A text with `p < 0.001` in place of every smaller p value that `p_text` wrote into it.

    >>> small_p("+83.0 points, p = 2.6e-110", " ")
    '+83.0 points, p < 0.001'
    """
    return _TINY.sub(f"p{blank}<{blank}0.001", text)


def table_lines(rows: Sequence[Sequence[str]], *, first: str = "<", rest: str = ">") -> list[str]:
    """Lines with aligned columns; ``first`` and ``rest``: alignment of the first column and of the others."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{rest if number else first}{width}}" for number, (cell, width) in enumerate(
        zip(row, widths, strict=True))).rstrip() for row in rows]
