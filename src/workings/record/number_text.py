"""Numbers as people read them: shares and times."""


import re

MILLISECOND = 1e-3
"""Shorter times are not said in numbers."""


def percent(share: float, places: int = 1) -> str:
    """A share of 1 for people, with so many decimal places: ``0.994`` as ``99.4 %``."""
    return f"{100 * share:.{places}f} %"


def duration(seconds: float) -> str:
    """A time for people: two units at most."""
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


_TINY = re.compile(r"p [=<] \d(?:\.\d+)?e-\d+")
"""A p value as `workings.evaluation.comparison.paired.p_text` writes one below 0.001."""


def small_p(text: str, blank: str = "\N{NO-BREAK SPACE}") -> str:
    """The text with `p < 0.001` in place of them; JSON answers, reports and records keep the digits.

    >>> small_p("+83.0 points, p = 2.6e-110", " ")
    '+83.0 points, p < 0.001'
    """
    return _TINY.sub(f"p{blank}<{blank}0.001", text)
