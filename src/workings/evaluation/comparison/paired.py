"""Compare two evaluations item by item: whether they are comparable, and the difference B - A with its interval.

They are comparable if items, scorer, extraction, decoding and template are equal.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from workings.evaluation import statistics
from workings.evaluation.scorecard import ItemResult, cluster_names, too_few_clusters
from workings.evaluation.statistics import Equivalence, Interval, MeanResult
from workings.record.number_text import p_text
from workings.record.values import is_absent

Pairs = Sequence[tuple[ItemResult, ItemResult]]
"""The results of A and B for each item."""

# Section of `eval_config.json`, key in it (none for a section that is a single value), and its name in a message. Seed
# and batch size may differ: they change answers, but not what is asked.
_MUST_AGREE = (
    ("items", "digest", "items"),
    ("scorer", "name", "scorer"),
    ("scorer", "version", "scorer version"),
    ("extraction", "version", "extraction version"),
    ("extraction", "rules", "extraction rules"),
    ("template", "digest", "chat template"),
    ("decoding", "max_new_tokens", "decoding: max_new_tokens"),
    ("decoding", "temperature", "decoding: temperature"),
    ("decoding", "samples", "decoding: samples"),
    ("aggregate", "", "aggregation of samples"),
)


class ComparedConfigs(NamedTuple):
    """The settings of two evaluations that must agree, as texts for messages."""

    different: list[str]
    """They forbid a comparison."""
    unknown: list[str]
    """Not recorded on a side, as for existing predictions; they forbid nothing."""
    equal: list[str]


def compare_configs(a: dict[str, Any], b: dict[str, Any]) -> ComparedConfigs:
    """Compare the contents of ``eval_config.json`` of two evaluations."""
    compared = ComparedConfigs(different=[], unknown=[], equal=[])
    for section, key, name in _MUST_AGREE:
        value_a, value_b = _value(a, section, key), _value(b, section, key)
        missing = [side for side, value in (("A", value_a), ("B", value_b)) if is_absent(value)]
        if missing:
            compared.unknown.append(f"{name} is not recorded for {'both' if len(missing) == 2 else missing[0]}")
        elif value_a != value_b:
            compared.different.append(f"{name} differ: {_setting_text(value_a)} and {_setting_text(value_b)}")
        else:
            compared.equal.append(f"{name}: {_setting_text(value_a)}")
    return compared


def steps_versions(configs: Iterable[dict[str, Any]]) -> str:
    """Why the step validity of evaluations is not comparable; empty if one version of the checker was used for all."""
    versions = {str(config.get("steps", {}).get("version", "unknown")) for config in configs}
    if len(versions) == 1:
        return ""
    return f"equations were checked by versions {' and '.join(sorted(versions))} of the checker"


def _value(config: dict[str, Any], section: str, key: str) -> Any:
    value = config.get(section, {"absent": "not recorded"})
    return value if not key or is_absent(value) else value.get(key, {"absent": "not recorded"})


def _setting_text(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    # 64 letters and digits are a SHA-256; twelve are enough to distinguish two.
    return f"{text[:12]}…" if len(text) == 64 and text.isalnum() else text


@dataclass(frozen=True, kw_only=True, slots=True)
class PairedDifference:
    """Mean of B - A over the same items."""

    n: int
    delta: float
    interval: Interval | str
    """The 95 % interval, or why there is none."""
    p_value: float | None
    """Two-sided, by the interval's method: below 5 % exactly if the interval excludes zero."""
    mcnemar: float | str
    """Exact McNemar p value, or why it does not apply."""
    newly_right: int
    newly_wrong: int
    standard_error: float

    @property
    def smallest_shown(self) -> float | None:
        """Smallest true difference that these items show with 80 % power; None without an interval."""
        if isinstance(self.interval, str):
            return None
        # Not from the standard error, which is 0 if no item differs.
        half = max(self.interval.high - self.delta, self.delta - self.interval.low)
        return statistics.minimum_detectable_effect(half / statistics.z_value())

    @property
    def verdict(self) -> str:
        """`better` or `worse` if the interval excludes zero, else `inconclusive`."""
        if isinstance(self.interval, str) or self.interval.low <= 0 <= self.interval.high:
            return "inconclusive"
        return "better" if self.interval.low > 0 else "worse"

    def to_json(self) -> dict[str, Any]:
        """Keys of ``compare --json``, without absent values."""
        record: dict[str, Any] = {"delta": self.delta, "newly_right": self.newly_right, "newly_wrong": self.newly_wrong,
                                  **statistics.bounds(self.interval, "delta_ci")}
        if isinstance(self.interval, Interval):
            record |= {"method": self.interval.method, "minimum_detectable_effect": self.smallest_shown}
        if self.p_value is not None:
            record["p_value"] = self.p_value
        if isinstance(self.mcnemar, float):
            record["mcnemar_p"] = self.mcnemar
        return record


def paired_difference(pairs: Pairs) -> PairedDifference:
    """The difference of scores over pairs of results of the same items (at least one pair)."""
    return paired_values([a.score for a, _ in pairs], [b.score for _, b in pairs], [a.cluster for a, _ in pairs])


def paired_values(a: Sequence[float], b: Sequence[float], clusters: Sequence[str],
                  confidence: float = statistics.CONFIDENCE) -> PairedDifference:
    """The difference B - A of any values over the same items (at least one).

    Correct or wrong on independent items: Tango's score interval with the score test's p value. Values in between:
    Student's t on the differences. Items in clusters: the clustered t interval. See docs/decisions/0003-statistics.md.
    """
    differences = [y - x for x, y in zip(a, b, strict=True)]
    n = len(differences)
    # `fsum` is exact, so the order of the items does not change the last digit.
    delta = math.fsum(differences) / n
    # Divided by n and not by n - 1, as in the score statistic at the observed difference.
    independent_error = math.sqrt(math.fsum((d - delta) ** 2 for d in differences)) / n
    # Ties count for neither side; the interval accounts for their number.
    right, wrong = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    names = cluster_names(clusters)
    groups = len(set(names))
    mcnemar: float | str
    mean: MeanResult | str
    # Clusters first: the other methods assume that items are independent.
    if groups < n:
        mcnemar = "items in clusters are not independent"
        if groups < statistics.MIN_CLUSTERS:
            mean = too_few_clusters(groups)
        elif any(differences):
            mean = statistics.clustered_t_mean(differences, names, confidence)
        else:  # without spread a t interval has no width
            mean = _score_test(0, 0, groups, independent_error, confidence)
    elif all(value in (0.0, 1.0) for value in (*a, *b)):
        mcnemar = statistics.mcnemar_exact(right, wrong)
        mean = _score_test(right, wrong, n, independent_error, confidence)
    elif n == 1:
        mcnemar = mean = "one item"
    else:
        mcnemar = "scores between 0 and 1 are neither correct nor wrong"
        mean = statistics.t_mean(differences, confidence)
    if isinstance(mean, str):
        return PairedDifference(n=n, delta=delta, newly_right=right, newly_wrong=wrong, mcnemar=mcnemar,
                                interval=mean, p_value=None, standard_error=independent_error)
    return PairedDifference(n=n, delta=delta, newly_right=right, newly_wrong=wrong, mcnemar=mcnemar,
                            interval=mean.interval, p_value=mean.p_value, standard_error=mean.standard_error)


def _score_test(right: int, wrong: int, n: int, error: float, confidence: float) -> MeanResult:
    """Tango's interval and the score test of n pairs: ``right`` of them are right in B only, ``wrong`` in A only."""
    interval = statistics.tango(right, wrong, n, confidence)
    return MeanResult((right - wrong) / n, interval, statistics.score_p(right, wrong), error)


def values_equivalence(a: Sequence[float], b: Sequence[float], clusters: Sequence[str], margin: float
                       ) -> Equivalence | str:
    """The test of equivalence within a margin, by the method of `paired_values`; or why there is none."""
    interval = paired_values(a, b, clusters, statistics.TOST_CONFIDENCE).interval
    return interval if isinstance(interval, str) else Equivalence(margin, interval)


def points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{100 * share:+.1f}"


def difference_text(difference: PairedDifference, p_value: float | None) -> str:
    """A difference in percentage points, with its interval and p value."""
    interval = difference.interval
    if isinstance(interval, str):
        return f"{points(difference.delta)} points (no interval: {interval})"
    p = "" if p_value is None else f", {p_text(p_value)}"
    return f"{points(difference.delta)} points (95 % interval {points(interval.low)} to {points(interval.high)}{p})"
