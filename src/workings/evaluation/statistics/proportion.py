"""Interval of one accuracy over independent items."""

import math

from workings.evaluation.statistics import CONFIDENCE
from workings.evaluation.statistics.interval import Interval, z_value


def wilson(correct: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval: the p for which ``|p_hat - p| <= z * sqrt(p (1 - p) / n)``.

    Never leaves [0, 1] and stays sensible at 0 and n correct. Averaged over p its coverage at n of 100 and more is
    95 % within 1; at single values of p it is not (Brown, Cai and DasGupta, 2001).
    """
    z = z_value(confidence)
    p = correct / n
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # At the ends the root is exact in theory only; rounding must not leave the ends open.
    low = 0.0 if correct == 0 else max(0.0, center - half)
    high = 1.0 if correct == n else min(1.0, center + half)
    return Interval(low, high, "wilson")
