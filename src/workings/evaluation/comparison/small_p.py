"""Sentences about comparisons, without the digits of a tiny p value, which nobody reads. Loads nothing else."""

import re

_TINY = re.compile(r"p [=<] \d(?:\.\d+)?e-\d+")
"""A p value as `workings.evaluation.comparison.paired.p_text` writes one below 0.001."""


def small_p(text: str, blank: str = "\N{NO-BREAK SPACE}") -> str:
    """The text with `p < 0.001` in place of them; JSON answers, reports and records keep the digits.

    >>> small_p("+83.0 points, p = 2.6e-110", " ")
    '+83.0 points, p < 0.001'
    """
    return _TINY.sub(f"p{blank}<{blank}0.001", text)
