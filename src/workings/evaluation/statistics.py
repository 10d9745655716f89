"""Intervals and tests, each checked against statsmodels and by simulation.

Of differences between models over the same independent items: ``newly_right`` are those that B answers and A does not,
``newly_wrong`` the other way round; the difference is B - A = (newly_right - newly_wrong) / n.

Equivalence within a margin (TOST): two one-sided tests (Schuirmann, 1987), each at 5 %, that B is not worse than A by
the margin, and that it is not better by it. Both reject exactly if the 90 % interval of the same method is within the
margin, so only the interval is computed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from workings.errors import RequestError

CONFIDENCE = 0.95
"""Coverage of every interval in a scorecard or comparison."""
# Values off the nearer end from which on `wilson_effective` believes their spread.
_FEW_OFF = 20
MIN_CLUSTERS = 8
"""Below this no interval is claimed: a t interval on so few clusters covers too little."""
TOST_CONFIDENCE = 2 * CONFIDENCE - 1
"""Confidence of the interval that is within the margin exactly if both one-sided tests reject: 90 %."""
POWER = 0.8
"""Share of experiments in which a difference of the minimum detectable size is found."""
ASSUMED_DISCORDANT = 0.2
"""Share of items on which two models disagree, assumed where only one scorecard is there (facts of earlier runs)."""
# More halvings than a double has digits.
_BISECTIONS = 80


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval and the method it came from."""

    low: float
    high: float
    method: str


def bounds(interval: Interval | str, name: str) -> dict[str, float]:
    """Both ends of an interval as keys of JSON, ``name_low`` and ``name_high``; empty if there is none."""
    return {} if isinstance(interval, str) else {f"{name}_low": interval.low, f"{name}_high": interval.high}


def z_value(confidence: float = CONFIDENCE) -> float:
    """Two-sided normal quantile: 1.959963984540054 at 95 %."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def t_value(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t: 2.262157162798205 at 9 degrees of freedom and 95 %."""
    # Not at import: the verbs that need no statistics start without it; nor `scipy.stats` with all its distributions.
    from scipy import special

    return float(special.stdtrit(degrees, (1 + confidence) / 2))


def wilson(correct: int, n: int) -> Interval:
    """Wilson's score interval: the p for which ``|p_hat - p| <= z * sqrt(p (1 - p) / n)``.

    Never leaves [0, 1] and stays sensible at 0 and n correct. Averaged over p its coverage at n of 100 and more is
    95 % within 1; at single values of p it is not (Brown, Cai and DasGupta, 2001).
    """
    return _wilson(correct / n, n, z_value(), "wilson")


def wilson_effective(values: Sequence[float]) -> Interval:
    """Wilson's interval of a mean of values from 0 to 1, such as estimates of pass@k, over independent items.

    It is that of the number of binary items with the same variance: ``n_eff = m (1 - m) / error**2``, never fewer
    than there are items, because nothing between 0 and 1 varies more. Where fewer than 20 values are off the nearer end
    their spread is hardly known, and the items themselves count (`proof/statistics.json`). Raises `RequestError` for
    fewer than 2 values.
    """
    by_spread = t_mean(values)
    n, mean = len(values), by_spread.mean
    off = sum(value != round(mean) for value in values)
    spread = by_spread.standard_error ** 2
    effective = max(n, mean * (1 - mean) / spread) if off >= _FEW_OFF and spread else n
    return _wilson(mean, effective, t_value(n - 1), "wilson, effective items")


def _wilson(p: float, n: float, z: float, method: str) -> Interval:
    # The closed form of the two roots in p.
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # At the ends the root is exact in theory only; rounding must not leave the ends open.
    return Interval(0.0 if p == 0 else max(0.0, center - half), 1.0 if p == 1 else min(1.0, center + half), method)


@dataclass(frozen=True, slots=True)
class MeanResult:
    """A mean with its 95 % interval and the two-sided p value of "the mean is zero" that belongs to it."""

    mean: float
    interval: Interval
    p_value: float
    standard_error: float


def t_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> MeanResult:
    """Student's t interval of a mean over independent values."""
    data = np.asarray(values, dtype=np.float64)
    n = len(data)
    if n < 2:
        raise RequestError(f"an interval needs at least 2 values, not {n}", "more values")
    return t_result(float(data.mean()), float(data.std(ddof=1)) / math.sqrt(n), n - 1, "t", confidence)


def clustered_t_mean(values: Sequence[float], clusters: Sequence[str], confidence: float = CONFIDENCE) -> MeanResult:
    """Cluster-robust t interval of the mean over items (CR2 variance, Bell and McCaffrey's degrees of freedom, 2002).

    The mean weighs items, not clusters. A cluster's summed deviations from it are too small by its own share of the
    items, so their squares are divided by ``1 - n_g / n``; the degrees of freedom are those of that variance for
    independent items. With clusters of equal size this is exactly Student's t interval of the cluster means. Raises
    `RequestError` for fewer than 8 clusters.
    """
    data = np.asarray(values, dtype=np.float64)
    # Numbered as they come, so that the sums have one order.
    numbers = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    index = [numbers[name] for name in clusters]
    totals, sizes = np.bincount(index, weights=data), np.bincount(index).astype(np.float64)
    if len(sizes) < MIN_CLUSTERS:
        raise RequestError(f"{len(sizes)} clusters are too few for an interval", f"at least {MIN_CLUSTERS} clusters",
                           "more clusters: items of one cluster count as one observation")
    n = len(data)
    mean = float(data.mean())
    # A cluster's leverage; CR2 divides by 1 - share, because a large cluster pulls the mean towards itself.
    shares = sizes / n
    # Summed within a cluster before they are squared, because its items move together.
    deviations = totals - mean * sizes
    error = math.sqrt(float((deviations ** 2 / (1 - shares)).sum())) / n
    return t_result(mean, error, degrees_of_freedom(sizes), "clustered t", confidence)


def degrees_of_freedom(sizes: np.ndarray) -> float:
    """Bell and McCaffrey's degrees of freedom of the CR2 variance of a mean; clusters - 1 where all are of one size.

    Satterthwaite's ``trace(M) ** 2 / trace(M @ M)`` for ``M = A C``: C is the covariance of the clusters' summed
    deviations for independent items of variance 1, A holds ``1 / (1 - n_g / n)`` on its diagonal.
    """
    n = float(sizes.sum())
    # trace(M) is n and its diagonal the sizes; M_gh * M_hg is the product of the weights of clusters g and h.
    weights = sizes ** 2 / (n - sizes)
    # The square of a sum less the squares: every product of two different clusters, without a double loop.
    off_diagonal = float(weights.sum()) ** 2 - float((weights ** 2).sum())
    return n * n / (float((sizes ** 2).sum()) + off_diagonal)


def t_result(mean: float, error: float, degrees: float, method: str, confidence: float) -> MeanResult:
    """A mean with this standard error and these degrees of freedom."""
    from scipy import special  # as in `t_value`

    half = t_value(degrees, confidence) * error
    # Without spread the statistic would be 0 / 0 or infinite. The lower tail: 1 minus an upper one is 0 far out.
    p = float(mean == 0) if error == 0 else float(2 * special.stdtr(degrees, -abs(mean) / error))
    return MeanResult(mean, Interval(mean - half, mean + half, method), p, error)


def tango(newly_right: int, newly_wrong: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Tango's score interval (1998): every difference that the score test does not reject.

    Under a difference d the maximum-likelihood share q of newly wrong items solves a quadratic; the statistic is
    ``(d_hat - d) / sqrt((2 q + d (1 - d)) / n)``, falling in d, so each end is found by bisection. At d = 0 it is
    McNemar's statistic without continuity correction, so the interval leaves out zero exactly where `score_p` is
    below 5 %.
    """
    z = z_value(confidence)
    observed = (newly_right - newly_wrong) / n
    low = _end(lambda d: score_statistic(newly_right, newly_wrong, n, d) - z, -1.0, observed)
    high = _end(lambda d: score_statistic(newly_right, newly_wrong, n, d) + z, observed, 1.0)
    return Interval(low, high, "tango")


def score_p(newly_right: int, newly_wrong: int) -> float:
    """Two-sided p value of the score statistic at a difference of zero: the p value of `tango`."""
    discordant = newly_right + newly_wrong
    # `erfc` is exact far out in the tail as well.
    return math.erfc(abs(newly_right - newly_wrong) / math.sqrt(2 * discordant)) if discordant else 1.0


def mcnemar_exact(newly_right: int, newly_wrong: int) -> float:
    """Exact McNemar: two-sided binomial p value of the discordant items at one half.

    Conservative: its false-alarm rate at 5 % is 2.2 % with 100 items, 10 % of them discordant.
    """
    from scipy import special  # as in `t_value`

    discordant = newly_right + newly_wrong
    # Twice the smaller tail exceeds 1 where both sides are equal.
    return min(1.0, 2 * float(special.bdtr(min(newly_right, newly_wrong), discordant, 0.5)))


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
    shares = [float(np.var(values, ddof=1)) / len(values) for values in (a, b)]
    difference = float(np.mean(b) - np.mean(a))
    variance = math.fsum(shares)
    # Without variance the degrees of freedom would be 0 / 0, and decide nothing.
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
    return (z_value() + NormalDist().inv_cdf(POWER)) * standard_error


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Result of two one-sided tests."""

    margin: float
    """Largest difference that does not matter, as a share."""
    interval: Interval
    """The 90 % interval of the difference."""

    @property
    def shown(self) -> bool:
        """Whether a difference of the margin or more is ruled out."""
        return -self.margin < self.interval.low and self.interval.high < self.margin

    def text(self) -> str:
        """The result for humans, in percentage points."""
        return (f"a difference of {100 * self.margin:g} points or more is {'' if self.shown else 'not '}ruled out "
                f"(90 % interval {100 * self.interval.low:+.1f} to {100 * self.interval.high:+.1f})")

    def to_json(self) -> dict[str, Any]:
        """Keys of `equivalence` in ``compare --json``."""
        return {"margin": self.margin, "shown": self.shown, **bounds(self.interval, "delta_ci90"),
                "method": self.interval.method}
