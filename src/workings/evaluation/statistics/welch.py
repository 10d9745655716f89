"""Difference of two means of independent values: the seeds of one recipe against those of another."""

import math
from collections.abc import Sequence

import numpy as np

from workings.evaluation.statistics import CONFIDENCE
from workings.evaluation.statistics.interval import Interval


def welch(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """Welch's t interval of mean(b) - mean(a), Satterthwaite's degrees of freedom; at least two values a side."""
    from scipy import stats  # not at import: the verbs that need no statistics start without it

    shares = [float(np.var(values, ddof=1)) / len(values) for values in (a, b)]
    difference = float(np.mean(b) - np.mean(a))
    variance = math.fsum(shares)
    if variance == 0:
        return Interval(difference, difference, "welch")
    degrees = variance ** 2 / math.fsum(share ** 2 / (len(values) - 1)
                                        for share, values in zip(shares, (a, b), strict=True))
    half = float(stats.t.ppf((1 + confidence) / 2, degrees)) * math.sqrt(variance)
    return Interval(difference - half, difference + half, "welch")
