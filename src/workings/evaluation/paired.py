"""The paired difference B - A by the method that suits the scores, and the verdict that follows from its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.evaluation.scorecard import ItemResult, cluster_names
from workings.evaluation.statistics.interval import Interval
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
        record: dict[str, Any] = {"delta": self.delta, "newly_right": self.newly_right, "newly_wrong": self.newly_wrong,
                                  "minimum_detectable_effect": minimum_detectable_effect(self.standard_error)}
        if isinstance(self.interval, Interval):
            record |= {"delta_ci_low": self.interval.low, "delta_ci_high": self.interval.high,
                       "method": self.interval.method}
        if self.p_value is not None:
            record["p_value"] = self.p_value
        if isinstance(self.mcnemar, float):
            record["mcnemar_p"] = self.mcnemar
        return record


def paired_difference(pairs: Pairs) -> PairedDifference:
    """The difference over pairs of results of the same items (at least one pair).

    Right or wrong on independent items: Tango's score interval with the score test's p value. Scores in between:
    Student's t on the differences. Items in clusters: the clustered t interval. See docs/decisions/0003-statistics.md.
    """
    n = len(pairs)
    differences = [b.score - a.score for a, b in pairs]
    right, wrong = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    binary = all(score in (0.0, 1.0) for a, b in pairs for score in (a.score, b.score))
    names = cluster_names([a.cluster for a, _ in pairs])
    clusters = len(set(names))
    interval: Interval | str
    p_value: float | None
    if clusters < n:
        mcnemar: float | str = "items in clusters are not independent"
        if clusters < MIN_CLUSTERS:
            interval, p_value = f"only {clusters} clusters; an interval needs {MIN_CLUSTERS}", None
            error = _independent_error(differences)
        else:
            result = clustered_t_mean(differences, names)
            interval, p_value, error = result.interval, result.p_value, result.standard_error
    elif binary:
        interval, p_value, mcnemar = tango(right, wrong, n), score_p(right, wrong), mcnemar_exact(right, wrong)
        error = _independent_error(differences)
    elif n > 1:
        result = t_mean(differences)
        interval, p_value, error = result.interval, result.p_value, result.standard_error
        mcnemar = "scores between 0 and 1 have no right and wrong"
    else:
        interval, p_value, error, mcnemar = "one item", None, 0.0, "one item"
    return PairedDifference(n=n, delta=math.fsum(differences) / n, interval=interval, p_value=p_value, mcnemar=mcnemar,
                            newly_right=right, newly_wrong=wrong, standard_error=error)


def _independent_error(differences: Sequence[float]) -> float:
    n = len(differences)
    mean = math.fsum(differences) / n
    return math.sqrt(math.fsum((d - mean) ** 2 for d in differences)) / n
