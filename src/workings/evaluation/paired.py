"""The paired difference B - A by the method that suits the scores, and the verdict that follows from its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.evaluation.scorecard import ItemResult, cluster_names, too_few_clusters
from workings.evaluation.statistics.interval import Interval, z_value
from workings.evaluation.statistics.mean import MIN_CLUSTERS, clustered_t_mean, t_mean
from workings.evaluation.statistics.paired import mcnemar_exact, score_p, tango
from workings.evaluation.statistics.power import minimum_detectable_effect

Pairs = Sequence[tuple[ItemResult, ItemResult]]


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedDifference:
    """Mean of B - A over the same items."""

    n: int
    delta: float
    interval: Interval | str
    """The 95 % interval, or why there is none."""
    p_value: float | None
    """Two-sided, of the same method as the interval: below 5 % exactly where the interval leaves out zero."""
    mcnemar: float | str
    """Exact McNemar p value, or why it does not apply."""
    newly_right: int
    newly_wrong: int
    standard_error: float

    @property
    def verdict(self) -> str:
        """`better`, `worse` or `inconclusive`, by where the interval lies."""
        if isinstance(self.interval, str) or self.interval.low <= 0 <= self.interval.high:
            return "inconclusive"
        return "better" if self.interval.low > 0 else "worse"

    def to_json(self) -> dict[str, Any]:
        """Keys of ``compare --json``; what does not exist is left out."""
        record: dict[str, Any] = {"delta": self.delta, "newly_right": self.newly_right, "newly_wrong": self.newly_wrong}
        if isinstance(self.interval, Interval):
            # From the wider side: where no item differs the standard error says 0, the interval does not.
            half = max(self.interval.high - self.delta, self.delta - self.interval.low)
            record |= {"delta_ci_low": self.interval.low, "delta_ci_high": self.interval.high,
                       "method": self.interval.method,
                       "minimum_detectable_effect": minimum_detectable_effect(half / z_value())}
        if self.p_value is not None:
            record["p_value"] = self.p_value
        if isinstance(self.mcnemar, float):
            record["mcnemar_p"] = self.mcnemar
        return record


def paired_difference(pairs: Pairs) -> PairedDifference:
    """The difference of scores over pairs of results of the same items (at least one pair)."""
    return paired_values([a.score for a, _ in pairs], [b.score for _, b in pairs], [a.cluster for a, _ in pairs])


def paired_values(a: Sequence[float], b: Sequence[float], clusters: Sequence[str]) -> PairedDifference:
    """The difference B - A of any values over the same items (at least one).

    Right or wrong on independent items: Tango's score interval with the score test's p value. Values in between:
    Student's t on the differences. Items in clusters: the clustered t interval. See docs/decisions/0003-statistics.md.
    """
    differences = [y - x for x, y in zip(a, b, strict=True)]
    n = len(differences)
    right, wrong = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    names = cluster_names(clusters)
    if len(set(names)) < n:
        found = _clustered(differences, names)
    elif all(value in (0.0, 1.0) for value in (*a, *b)):
        found = _Found(tango(right, wrong, n), score_p(right, wrong), mcnemar_exact(right, wrong),
                       _independent_error(differences))
    elif n > 1:
        result = t_mean(differences)
        found = _Found(result.interval, result.p_value, "values in between have no right and wrong",
                       result.standard_error)
    else:
        found = _Found("one item", None, "one item", 0.0)
    return PairedDifference(n=n, delta=math.fsum(differences) / n, interval=found.interval, p_value=found.p_value,
                            mcnemar=found.mcnemar, newly_right=right, newly_wrong=wrong, standard_error=found.error)


@dataclass(frozen=True, slots=True)
class _Found:
    interval: Interval | str
    p_value: float | None
    mcnemar: float | str
    error: float


def _clustered(differences: Sequence[float], names: Sequence[str]) -> _Found:
    """Clustered t; where no item differs, Tango's interval with as many pairs as there are clusters."""
    mcnemar = "items in clusters are not independent"
    groups = len(set(names))
    if groups < MIN_CLUSTERS:
        return _Found(too_few_clusters(groups), None, mcnemar, _independent_error(differences))
    if not any(differences):
        return _Found(tango(0, 0, groups), 1.0, mcnemar, 0.0)
    result = clustered_t_mean(differences, names)
    return _Found(result.interval, result.p_value, mcnemar, result.standard_error)


def _independent_error(differences: Sequence[float]) -> float:
    n = len(differences)
    mean = math.fsum(differences) / n
    return math.sqrt(math.fsum((d - mean) ** 2 for d in differences)) / n
