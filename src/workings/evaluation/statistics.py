"""Confidence intervals and tests, each checked against statsmodels and by simulation.

Two models A and B answer the same n items. ``newly_right`` items are right in B only, ``newly_wrong`` items in A only;
the difference of the accuracies is B - A = (newly_right - newly_wrong) / n.
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
_MIN_DIFFERING = 20
"""With fewer values that differ from the nearer of 0 and 1, `wilson_effective` does not use their spread."""
MIN_CLUSTERS = 8
"""An interval needs this many clusters; on fewer a t interval covers too little."""
TOST_CONFIDENCE = 2 * CONFIDENCE - 1
"""90 %, see `Equivalence`."""
POWER = 0.8
"""Share of experiments that find a difference of the minimum detectable size."""
ASSUMED_DISCORDANT = 0.2
"""Share of items on which two models disagree, assumed if there is only one scorecard; as in earlier runs."""
_BISECTIONS = 80
"""Halvings of an interval; a double has fewer binary digits."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval and the name of its method."""

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
    # Imported here, because most commands need no statistics; `scipy.stats` would take longer still.
    from scipy import special

    return float(special.stdtrit(degrees, (1 + confidence) / 2))


def wilson(correct: int, n: int) -> Interval:
    """Wilson's score interval of a share: the p for which ``|p_hat - p| <= z * sqrt(p (1 - p) / n)``.

    It is within [0, 1]. From n = 100 on its coverage, averaged over p, is 94 to 96 % (Brown, Cai and DasGupta, 2001).
    """
    return _wilson(correct / n, n, z_value(), "wilson")


def wilson_effective(values: Sequence[float]) -> Interval:
    """Wilson's interval of a mean of values from 0 to 1, such as estimates of pass@k, over independent items.

    It is the interval for ``n_eff = m (1 - m) / error**2`` binary items, which have the same variance; at least n, as
    no values from 0 to 1 vary more than binary ones. If fewer than 20 values differ from the nearer of 0 and 1, their
    spread is hardly known, and n is used (`proof/statistics.json`). Raises `RequestError` for fewer than 2 values.
    """
    by_spread = t_mean(values)
    n, mean = len(values), by_spread.mean
    differing = sum(value != round(mean) for value in values)
    variance = by_spread.standard_error ** 2
    effective = max(n, mean * (1 - mean) / variance) if differing >= _MIN_DIFFERING and variance else n
    return _wilson(mean, effective, t_value(n - 1), "wilson, effective items")


def _wilson(p: float, n: float, z: float, method: str) -> Interval:
    center = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return Interval(0.0 if p == 0 else max(0.0, center - half), 1.0 if p == 1 else min(1.0, center + half), method)


@dataclass(frozen=True, slots=True)
class MeanResult:
    """A mean with its interval, and the two-sided p value of the hypothesis that the mean is zero."""

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
    """Cluster-robust t interval of the mean over items: CR2 variance, degrees of freedom by Bell and McCaffrey (2002).

    A cluster of n_g items pulls the mean towards itself, so its squared sum of deviations is divided by
    ``1 - n_g / n``. With clusters of equal size this is Student's t interval of the cluster means. Raises
    `RequestError` for fewer than 8 clusters.
    """
    data = np.asarray(values, dtype=np.float64)
    # In the order in which they come, so that sums do not depend on the names.
    numbers = {name: number for number, name in enumerate(dict.fromkeys(clusters))}
    index = [numbers[name] for name in clusters]
    totals, sizes = np.bincount(index, weights=data), np.bincount(index).astype(np.float64)
    if len(sizes) < MIN_CLUSTERS:
        raise RequestError(f"{len(sizes)} clusters are too few for an interval", f"at least {MIN_CLUSTERS} clusters",
                           "more clusters: items of one cluster count as one observation")
    n = len(data)
    mean = float(data.mean())
    shares = sizes / n
    deviations = totals - mean * sizes  # summed within each cluster
    error = math.sqrt(float((deviations ** 2 / (1 - shares)).sum())) / n
    return t_result(mean, error, degrees_of_freedom(sizes), "clustered t", confidence)


def degrees_of_freedom(sizes: np.ndarray) -> float:
    """Bell and McCaffrey's degrees of freedom of the CR2 variance of a mean; clusters - 1 if all have the same size.

    They are ``trace(M) ** 2 / trace(M @ M)`` for ``M = A C``: C is the covariance of the clusters' summed deviations
    for independent items of variance 1, and A is diagonal with ``1 / (1 - n_g / n)``.
    """
    n = float(sizes.sum())
    # The diagonal of M is `sizes`, so trace(M) is n; M_gh * M_hg is weights_g * weights_h.
    weights = sizes ** 2 / (n - sizes)
    off_diagonal = float(weights.sum()) ** 2 - float((weights ** 2).sum())  # over pairs of different clusters
    return n * n / (float((sizes ** 2).sum()) + off_diagonal)


def t_result(mean: float, error: float, degrees: float, method: str, confidence: float) -> MeanResult:
    """A mean with this standard error and these degrees of freedom."""
    from scipy import special  # as in `t_value`

    half = t_value(degrees, confidence) * error
    # Without spread the statistic would be 0 / 0 or infinite.
    p = float(mean == 0) if error == 0 else float(2 * special.stdtr(degrees, -abs(mean) / error))
    return MeanResult(mean, Interval(mean - half, mean + half, method), p, error)


def tango(newly_right: int, newly_wrong: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Tango's score interval (1998) of a paired difference: every difference that the score test does not reject.

    It excludes zero exactly if `score_p` is below 5 %.
    """
    z = z_value(confidence)
    observed = (newly_right - newly_wrong) / n
    low = _zero_of(lambda d: score_statistic(newly_right, newly_wrong, n, d) - z, -1.0, observed)
    high = _zero_of(lambda d: score_statistic(newly_right, newly_wrong, n, d) + z, observed, 1.0)
    return Interval(low, high, "tango")


def score_p(newly_right: int, newly_wrong: int) -> float:
    """Two-sided p value of McNemar's test without continuity correction, which is the score test of no difference."""
    discordant = newly_right + newly_wrong
    return math.erfc(abs(newly_right - newly_wrong) / math.sqrt(2 * discordant)) if discordant else 1.0


def mcnemar_exact(newly_right: int, newly_wrong: int) -> float:
    """Two-sided p value of McNemar's exact test: the binomial test of the discordant items at one half."""
    from scipy import special  # as in `t_value`

    discordant = newly_right + newly_wrong
    return min(1.0, 2 * float(special.bdtr(min(newly_right, newly_wrong), discordant, 0.5)))


def score_statistic(newly_right: int, newly_wrong: int, n: int, difference: float) -> float:
    """Tango's statistic for the hypothesis of this difference d: ``(d_hat - d) / sqrt((2 q + d (1 - d)) / n)``.

    q is the most likely share of newly wrong items under the hypothesis: the larger root of 2 n q^2 + b q - c = 0.
    """
    b = difference * (2 * n - newly_right + newly_wrong) - (newly_right + newly_wrong)
    c = newly_wrong * difference * (1 - difference)
    q = (math.sqrt(max(b * b + 8 * n * c, 0.0)) - b) / (4 * n)
    variance = (2 * q + difference * (1 - difference)) / n
    gap = (newly_right - newly_wrong) / n - difference
    if variance <= 0:
        return math.copysign(math.inf, gap) if gap else 0.0
    return gap / math.sqrt(variance)


def _zero_of(falling: Callable[[float], float], low: float, high: float) -> float:
    """The point between two others at which a falling function is zero."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if falling(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def welch_mean(a: Sequence[float], b: Sequence[float], confidence: float = CONFIDENCE) -> MeanResult:
    """Welch's t test of mean(b) - mean(a), with at least two values on each side."""
    variance_a, variance_b = (float(np.var(values, ddof=1)) / len(values) for values in (a, b))  # of each mean
    difference = float(np.mean(b) - np.mean(a))
    variance = math.fsum((variance_a, variance_b))
    # By Satterthwaite; without variance they would be 0 / 0, and any number will do.
    degrees = 1.0 if variance == 0 else variance ** 2 / math.fsum(
        (variance_a ** 2 / (len(a) - 1), variance_b ** 2 / (len(b) - 1)))
    return t_result(difference, math.sqrt(variance), degrees, "welch", confidence)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p values adjusted for their number by Holm's step-down method (1979); None stays and does not count."""
    sorted_p_values = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for rank, (p, index) in enumerate(sorted_p_values):
        # At least as large as the one before, although its factor is smaller.
        running = max(running, min(1.0, (len(sorted_p_values) - rank) * p))
        adjusted[index] = running
    return adjusted


def minimum_detectable_effect(standard_error: float) -> float:
    """Smallest true difference that a two-sided test at 5 % finds with `POWER`: ``(z_alpha + z_power) * error``."""
    return (z_value() + NormalDist().inv_cdf(POWER)) * standard_error


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Equivalence within a margin, by two one-sided tests (TOST) at 5 % (Schuirmann, 1987).

    Both tests reject exactly if the 90 % interval of the difference is within the margin.
    """

    margin: float
    """Largest difference that does not matter, as a share."""
    interval: Interval
    """90 % interval of the difference."""

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
