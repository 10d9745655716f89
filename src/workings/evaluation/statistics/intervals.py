"""Intervals of one quantity: an accuracy, a mean of scores, a mean of scores in clusters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from workings.errors import RequestError

CONFIDENCE = 0.95
"""Coverage of every interval in a scorecard or comparison."""
# Values off the nearer end from which on `wilson_effective` believes their spread.
_FEW_OFF = 20
MIN_CLUSTERS = 8
"""Below this no interval is claimed: a t interval on so few clusters covers too little."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval and the method it came from."""

    low: float
    high: float
    method: str


def z_value(confidence: float = CONFIDENCE) -> float:
    """Two-sided normal quantile: 1.959963984540054 at 95 %."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def t_value(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Two-sided quantile of Student's t: 2.262157162798205 at 9 degrees of freedom and 95 %."""
    # Not at import: the verbs that need no statistics start without it; nor `scipy.stats` with all its distributions.
    from scipy import special

    return float(special.stdtrit(degrees, (1 + confidence) / 2))


def two_sided_p(z: float) -> float:
    """Two-sided p value of a standard normal statistic, exact far out in the tail as well."""
    return math.erfc(abs(z) / math.sqrt(2))


def wilson(correct: int, n: int) -> Interval:
    """Wilson's score interval: the p for which ``|p_hat - p| <= z * sqrt(p (1 - p) / n)``.

    Never leaves [0, 1] and stays sensible at 0 and n correct. Averaged over p its coverage at n of 100 and more is
    95 % within 1; at single values of p it is not (Brown, Cai and DasGupta, 2001).
    """
    low, high = _wilson(correct / n, n, z_value())
    # At the ends the root is exact in theory only; rounding must not leave the ends open.
    return Interval(0.0 if correct == 0 else low, 1.0 if correct == n else high, "wilson")


def wilson_effective(values: Sequence[float]) -> Interval:
    """Wilson's interval of a mean of values from 0 to 1, such as estimates of pass@k, over independent items.

    It is that of the number of binary items with the same variance: ``n_eff = m (1 - m) / error**2``, never fewer
    than there are items, because nothing between 0 and 1 varies more. Where fewer than 20 values are off the nearer end
    their spread is hardly known, and the items themselves count. Student's t and the bootstrap, which believe that
    spread, cover far too little near 0 and 1 (`proof/statistics.json`).

    Raises:
        RequestError: fewer than 2 values.
    """
    # The spread says how much the values vary, and so how many items of right or wrong they are worth.
    by_spread = t_mean(values)
    n, mean = len(values), by_spread.mean
    off = sum(value != round(mean) for value in values)
    spread = by_spread.standard_error ** 2
    # Values in between vary less than right or wrong does, as if there were more items; never fewer than there are.
    effective = max(n, mean * (1 - mean) / spread) if off >= _FEW_OFF and spread else n
    low, high = _wilson(mean, effective, t_value(n - 1))
    # As in `wilson`: rounding must not leave the ends open.
    return Interval(0.0 if mean == 0 else low, 1.0 if mean == 1 else high, "wilson, effective items")


def _wilson(p: float, n: float, z: float) -> tuple[float, float]:
    # The closed form of the two roots in p.
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return max(0.0, center - half), min(1.0, center + half)


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
    independent items. With clusters of equal size this is exactly Student's t interval of the cluster means. With
    unequal ones the usual sandwich (CR1, clusters - 1 degrees) raises 6 to 10 % false alarms, this one 3 to 5 %.

    Raises:
        RequestError: fewer than 8 clusters.
    """
    data = np.asarray(values, dtype=np.float64)
    # float64: sums over ten thousand items in float32 would lose the last digits that records print.
    groups, totals, sizes = cluster_sums(data, clusters)
    if groups < MIN_CLUSTERS:
        raise RequestError(f"{groups} clusters are too few for an interval", f"at least {MIN_CLUSTERS} clusters",
                           "more clusters: items of one cluster count as one observation")
    n = len(data)
    mean = float(data.mean())
    # A cluster's leverage; CR2 divides by 1 - share, because a large cluster pulls the mean towards itself.
    # Of 10 clusters of equal size each share is a tenth: dividing by 0.9 is then Student's factor of 10 / 9.
    shares = sizes / n
    # Summed within a cluster before they are squared, because its items move together.
    deviations = totals - mean * sizes
    # No share is 1, because there are at least `MIN_CLUSTERS` clusters.
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


def cluster_sums(data: np.ndarray, clusters: Sequence[str]) -> tuple[int, np.ndarray, np.ndarray]:
    """Number of clusters, and per cluster the sum of its values and its size, in order of first appearance."""
    numbers: dict[str, int] = {}
    # `len(numbers)` is read before the name is added, so names are numbered as they come.
    index = np.fromiter((numbers.setdefault(name, len(numbers)) for name in clusters), dtype=np.int64, count=len(data))
    return len(numbers), np.bincount(index, weights=data), np.bincount(index).astype(np.float64)


def t_result(mean: float, error: float, degrees: float, method: str, confidence: float) -> MeanResult:
    """A mean with this standard error and these degrees of freedom."""
    from scipy import special  # as in `t_value`

    # Interval and p value have the same degrees of freedom, so that they never contradict each other.
    half = t_value(degrees, confidence) * error
    # Without any spread the statistic would be 0 / 0 or infinite.
    if error == 0:
        p = 1.0 if mean == 0 else 0.0
    else:
        # The lower tail: 1 minus an upper tail would be 0 far out.
        p = float(2 * special.stdtr(degrees, -abs(mean) / error))
    return MeanResult(mean, Interval(mean - half, mean + half, method), p, error)
