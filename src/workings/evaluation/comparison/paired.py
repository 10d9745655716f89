"""Two scorecards item by item: are they comparable, and the difference B - A with interval and verdict.

They are comparable if items, scorer, extraction, decoding and template are equal.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from workings.evaluation.scorecard import ItemResult, cluster_names, too_few_clusters
from workings.evaluation.statistics import (
    CONFIDENCE,
    MIN_CLUSTERS,
    TOST_CONFIDENCE,
    Equivalence,
    Interval,
    bounds,
    clustered_t_mean,
    mcnemar_exact,
    minimum_detectable_effect,
    score_p,
    t_mean,
    tango,
    z_value,
)
from workings.record.number_text import p_text
from workings.record.values import is_absent

Pairs = Sequence[tuple[ItemResult, ItemResult]]

# Without seed and batch size, which may change answers but not the questions. `aggregate` is a value, so it has no key.
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


def compare_configs(a: dict[str, Any], b: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Differences that forbid a comparison, unknown settings, and equal settings, each in words.

    A value that one side does not record (existing predictions) only gives a note.
    """
    different, unknown, equal = [], [], []
    for section, key, words in _MUST_AGREE:
        value_a, value_b = _value(a, section, key), _value(b, section, key)
        if missing := [side for side, value in (("A", value_a), ("B", value_b)) if is_absent(value)]:
            unknown.append(f"{words} is not recorded for {missing[0] if len(missing) == 1 else 'both'}")
        elif value_a != value_b:
            different.append(f"{words} differ: {_setting_text(value_a)} and {_setting_text(value_b)}")
        else:
            equal.append(f"{words}: {_setting_text(value_a)}")
    return different, unknown, equal


def steps_versions(configs: Iterable[dict[str, Any]]) -> str:
    """Why the step validity is not comparable: different versions of the checker.

    Empty where one version checked all of them.
    """
    versions = {str(config.get("steps", {}).get("version", "unknown")) for config in configs}
    return "" if len(versions) == 1 else (
        f"equations were checked by versions {' and '.join(sorted(versions))} of the checker")


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
        # From the wider side: if no item differs, the standard error is 0 but the interval is not.
        half = max(self.interval.high - self.delta, self.delta - self.interval.low)
        return minimum_detectable_effect(half / z_value())

    @property
    def verdict(self) -> str:
        """`better`, `worse` or `inconclusive`, by where the interval is."""
        # An end exactly at zero is not enough for a claim.
        if isinstance(self.interval, str) or self.interval.low <= 0 <= self.interval.high:
            return "inconclusive"
        return "better" if self.interval.low > 0 else "worse"

    def to_json(self) -> dict[str, Any]:
        """Keys of ``compare --json``, without absent values."""
        record: dict[str, Any] = {"delta": self.delta, "newly_right": self.newly_right, "newly_wrong": self.newly_wrong,
                                  **bounds(self.interval, "delta_ci")}
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
                  confidence: float = CONFIDENCE) -> PairedDifference:
    """The difference B - A of any values over the same items (at least one).

    Correct or wrong on independent items: Tango's score interval with the score test's p value. Values in between:
    Student's t on the differences. Items in clusters: the clustered t interval. See docs/decisions/0003-statistics.md.
    """
    differences = [y - x for x, y in zip(a, b, strict=True)]
    n, names = len(differences), cluster_names(clusters)
    groups = len(set(names))
    # Ties count for neither side; the interval accounts for their number.
    right, wrong = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    counts: tuple[int, int, int] | None = None
    reason = ""
    # Clusters first: both other methods assume that items are independent.
    if groups < n:
        mcnemar: float | str = "items in clusters are not independent"
        reason = too_few_clusters(groups) if groups < MIN_CLUSTERS else ""
        # Without spread a t interval has no width: Tango's interval with one pair per cluster.
        counts = None if any(differences) else (0, 0, groups)
    # Binary scores have exact methods; t intervals are too narrow near 0 and 1.
    elif all(value in (0.0, 1.0) for value in (*a, *b)):
        mcnemar, counts = mcnemar_exact(right, wrong), (right, wrong, n)
    else:
        reason = "one item" if n == 1 else ""
        mcnemar = reason or "scores between 0 and 1 are neither correct nor wrong"
    # `fsum` is exact, so the order of the items does not change the last digit.
    result = partial(PairedDifference, n=n, delta=math.fsum(differences) / n, newly_right=right, newly_wrong=wrong,
                     mcnemar=mcnemar)
    if reason:
        return result(interval=reason, p_value=None, standard_error=_independent_error(differences))
    if counts:
        return result(interval=tango(*counts, confidence), p_value=score_p(*counts[:2]),
                      standard_error=_independent_error(differences))
    mean = clustered_t_mean(differences, names, confidence) if groups < n else t_mean(differences, confidence)
    return result(interval=mean.interval, p_value=mean.p_value, standard_error=mean.standard_error)


def values_equivalence(a: Sequence[float], b: Sequence[float], clusters: Sequence[str], margin: float
                       ) -> Equivalence | str:
    """Whether values are shown to differ by less than the margin, by the method of `paired_values`; or why not."""
    interval = paired_values(a, b, clusters, TOST_CONFIDENCE).interval
    return interval if isinstance(interval, str) else Equivalence(margin, interval)


def equivalence_text(equivalence: Equivalence) -> str:
    """Whether a difference of the margin is ruled out, with the interval."""
    low, high = points(equivalence.interval.low), points(equivalence.interval.high)
    return (f"a difference of {100 * equivalence.margin:g} points or more is {'' if equivalence.shown else 'not '}"
            f"ruled out (90 % interval {low} to {high})")


def equivalence_json(equivalence: Equivalence) -> dict[str, Any]:
    """Keys of `equivalence` in ``compare --json``."""
    return {"margin": equivalence.margin, "shown": equivalence.shown, **bounds(equivalence.interval, "delta_ci90"),
            "method": equivalence.interval.method}


def points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{100 * share:+.1f}"


def difference_text(difference: PairedDifference, p_value: float | None) -> str:
    """A difference in percentage points, with its interval and p value."""
    text = f"{points(difference.delta)} points"
    if isinstance(difference.interval, Interval):
        text += f" (95 % interval {points(difference.interval.low)} to {points(difference.interval.high)}"
        return f"{text}, {p_text(p_value)})" if p_value is not None else f"{text})"
    return f"{text} (no interval: {difference.interval})"


def _independent_error(differences: Sequence[float]) -> float:
    n = len(differences)
    mean = math.fsum(differences) / n
    # With n and not n - 1 as the divisor, as in the score statistic at the observed difference.
    return math.sqrt(math.fsum((d - mean) ** 2 for d in differences)) / n
