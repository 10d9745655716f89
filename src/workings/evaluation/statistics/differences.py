"""Intervals and tests of differences between models; several tests at once; the smallest difference that shows.

Over the same independent items ``newly_right`` are those that B answers and A does not, ``newly_wrong`` the other way
round. The difference is B - A = (newly_right - newly_wrong) / n.
"""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from workings.evaluation.statistics.intervals import CONFIDENCE, Interval, MeanResult, t_result, two_sided_p, z_value

POWER = 0.8
"""Share of experiments in which a difference of the minimum detectable size is found."""
ASSUMED_DISCORDANT = 0.2
"""Share of items on which two models disagree, assumed where only one scorecard is there (facts of earlier runs)."""
# More halvings than a double has digits, so that each end is as exact as it can be written.
_BISECTIONS = 80


def tango(newly_right: int, newly_wrong: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Tango's score interval (1998): every difference that the score test does not reject.

    Under a difference d the maximum-likelihood share q of newly wrong items solves a quadratic; the statistic is
    ``(d_hat - d) / sqrt((2 q + d (1 - d)) / n)``, falling in d, so each end is found by bisection. At d = 0 it is
    McNemar's statistic without continuity correction, so the interval leaves out zero exactly where `score_p` is
    below 5 %.
    """
    z = z_value(confidence)
    observed = (newly_right - newly_wrong) / n
    # The statistic falls with the hypothetical difference, so each end is found by halving.
    low = _end(lambda d: score_statistic(newly_right, newly_wrong, n, d) - z, -1.0, observed)
    high = _end(lambda d: score_statistic(newly_right, newly_wrong, n, d) + z, observed, 1.0)
    return Interval(low, high, "tango")


def score_p(newly_right: int, newly_wrong: int) -> float:
    """Two-sided p value of the score statistic at a difference of zero: the p value of `tango`."""
    discordant = newly_right + newly_wrong
    # At a difference of zero the score statistic is McNemar's without a correction.
    return two_sided_p((newly_right - newly_wrong) / math.sqrt(discordant)) if discordant else 1.0


def mcnemar_exact(newly_right: int, newly_wrong: int) -> float:
    """Exact McNemar: two-sided binomial p value of the discordant items at one half.

    Conservative: its false-alarm rate at 5 % is 2.2 % with 100 items, 10 % of them discordant.
    """
    # Items on which both agree say nothing of a difference, so only the others are counted.
    discordant = newly_right + newly_wrong
    smaller = min(newly_right, newly_wrong)
    if discordant == 0:
        return 1.0
    # Sum of binomial terms, each from the one before; the first in logarithms, so that nothing overflows.
    log_term = -discordant * math.log(2)
    terms = []
    for k in range(smaller + 1):
        terms.append(log_term)
        # The next binomial coefficient is the one before times (n - k) / (k + 1).
        log_term += math.log(discordant - k) - math.log(k + 1)
    # Twice the smaller tail exceeds 1 where both sides are equal.
    return min(1.0, 2 * math.fsum(math.exp(term) for term in terms))


def score_statistic(newly_right: int, newly_wrong: int, n: int, difference: float) -> float:
    """Tango's statistic of the hypothesis that the difference is this one; positive where more was observed."""
    b = difference * (2 * n - newly_right + newly_wrong) - (newly_right + newly_wrong)
    # q is the most likely share of newly wrong items if the difference is this one.
    c = newly_wrong * difference * (1 - difference)
    # The larger root of 2 n q^2 + b q - c = 0; rounding may leave a little less than zero under the root.
    q = (math.sqrt(max(b * b + 8 * n * c, 0.0)) - b) / (4 * n)
    variance = (2 * q + difference * (1 - difference)) / n
    gap = (newly_right - newly_wrong) / n - difference
    # At differences of -1 and 1 nothing is left to vary: any gap is infinitely many errors wide.
    if variance <= 0:
        return math.copysign(math.inf, gap) if gap else 0.0
    return gap / math.sqrt(variance)


def _end(above: Callable[[float], float], low: float, high: float) -> float:
    """Zero of a falling function between two points."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if above(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def welch_mean(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> MeanResult:
    """Welch's t test of mean(b) - mean(a), Satterthwaite's degrees of freedom; at least two values a side."""
    # Each side has its own variance (Welch, 1947): two methods need not vary alike.
    shares = [float(np.var(values, ddof=1)) / len(values) for values in (a, b)]
    difference = float(np.mean(b) - np.mean(a))
    variance = math.fsum(shares)
    # Equal values on each side: the degrees of freedom would be 0 / 0, and decide nothing.
    degrees = 1.0 if variance == 0 else variance ** 2 / math.fsum(
        share ** 2 / (len(values) - 1) for share, values in zip(shares, (a, b), strict=True))
    return t_result(difference, math.sqrt(variance), degrees, "welch", confidence)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjustment, in the order given; tests without a p value do not count.

    The share of experiments with any false alarm stays at 5 % whichever of the differences are real (Holm, 1979).
    """
    sorted_p_values = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, index) in enumerate(sorted_p_values):
        # A larger p value must not become the smaller one by its smaller factor.
        running = max(running, min(1.0, (len(sorted_p_values) - rank) * p))
        adjusted[index] = running
    return adjusted


def minimum_detectable_effect(standard_error: float) -> float:
    """Smallest true difference that a two-sided test finds with this power: ``(z_alpha + z_power) * error``."""
    # The first quantile is the distance from zero that a test asks for, the second what chance may take away.
    return (z_value() + NormalDist().inv_cdf(POWER)) * standard_error


def paired_error(n: int, discordant_share: float) -> float:
    """Standard error of a paired difference of zero over ``n`` items with this share of discordant items."""
    # A difference is -1, 0 or 1: with a mean of zero its variance is the share of discordant items.
    return math.sqrt(discordant_share / n)


def items_needed(half_width: float, error: float, n: int) -> int:
    """Items at which an interval with standard error ``error`` at ``n`` items would be ``half_width`` to a side."""
    # Rounded up: one item fewer would leave the interval a little too wide.
    return math.ceil(n * (z_value() * error / half_width) ** 2)
