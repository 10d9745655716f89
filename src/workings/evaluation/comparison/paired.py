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
    MIN_CLUSTERS,
    Equivalence,
    Interval,
    clustered_t_mean,
    mcnemar_exact,
    minimum_detectable_effect,
    score_equivalence,
    score_p,
    t_equivalence,
    t_mean,
    tango,
    z_value,
)
from workings.record.number_text import p_text
from workings.record.values import is_absent

Pairs = Sequence[tuple[ItemResult, ItemResult]]

# Without seed and batch size, which may change answers but not the questions.
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
)
# By the same words: the options of `workings eval` that make both alike.
_OPTIONS = {"items": "--items", "scorer": "--scorer", "extraction rules": "--rules",
            "decoding: max_new_tokens": "--max-new-tokens", "decoding: temperature": "--temperature",
            "decoding: samples": "--samples"}
_BY_VERSION = ("scorer version", "extraction version")


def compare_configs(a: dict[str, Any], b: dict[str, Any]) -> tuple[list[str], list[str], list[str]]:
    """Differences that forbid a comparison, unknown settings, and equal settings, each in words.

    A value that one side does not record (existing predictions) only gives a note.
    """
    different, unknown, equal = [], [], []
    # `aggregate` is a value, not a section, so it has no key.
    for section, key, words in (*_MUST_AGREE, ("aggregate", "", "aggregation of samples")):
        value_a, value_b = _value(a, section, key), _value(b, section, key)
        if is_absent(value_a) or is_absent(value_b):
            unknown.append(f"{words} is not recorded for {_sides(value_a, value_b)}")
        elif value_a != value_b:
            different.append(f"{words} differ: {_setting_text(value_a)} and {_setting_text(value_b)}")
        else:
            equal.append(f"{words}: {_setting_text(value_a)}")
    return different, unknown, equal


def way_to_compare(a: dict[str, Any], b: dict[str, Any]) -> str:
    """Command that makes two evaluations comparable, by the settings that differ."""
    values = {words: (_value(a, section, key), _value(b, section, key)) for section, key, words in _MUST_AGREE}
    different = [words for words, pair in values.items() if not any(map(is_absent, pair)) and pair[0] != pair[1]]
    if "chat template" in different:
        # No option fixes this: the template belongs to the model.
        return "nothing: answers under two chat templates are answers to different prompts"
    words = " ".join(f"{_OPTIONS[name]} …" for name in different if name in _OPTIONS)
    which = "both runs" if set(_BY_VERSION) & set(different) else "one of the runs like the other"
    return f"evaluate {which}: workings eval RUN{' ' * bool(words)}{words} --out EVALUATION"


def steps_versions(configs: Iterable[dict[str, Any]]) -> str:
    """Why the step validity is not comparable: different or unknown versions of the checker.

    Empty where one version checked all of them.
    """
    # Records have it since version 2; old baselines may lack it.
    versions = {str(config["steps"]["version"]) if "steps" in config else "1" if "schema" in config else "unknown"
             for config in configs}
    return "" if versions != {"unknown"} and len(versions) == 1 else (
        f"equations were checked by versions {' and '.join(sorted(versions))} of the checker")


def _value(config: dict[str, Any], section: str, key: str) -> Any:
    value = config.get(section, {"absent": "not recorded"})
    return value if not key or is_absent(value) else value.get(key, {"absent": "not recorded"})


def _sides(a: Any, b: Any) -> str:
    return "both" if is_absent(a) and is_absent(b) else ("A" if is_absent(a) else "B")


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
        record: dict[str, Any] = {"delta": self.delta, "newly_right": self.newly_right, "newly_wrong": self.newly_wrong}
        if isinstance(self.interval, Interval):
            record |= {"delta_ci_low": self.interval.low, "delta_ci_high": self.interval.high,
                       "method": self.interval.method, "minimum_detectable_effect": self.smallest_shown}
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

    Correct or wrong on independent items: Tango's score interval with the score test's p value. Values in between:
    Student's t on the differences. Items in clusters: the clustered t interval. See docs/decisions/0003-statistics.md.
    """
    differences = [y - x for x, y in zip(a, b, strict=True)]
    n = len(differences)
    # Ties count for neither side; the interval accounts for their number.
    right, wrong = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    # `fsum` is exact, so the order of the items does not change the last digit.
    result = partial(PairedDifference, n=n, delta=math.fsum(differences) / n, newly_right=right, newly_wrong=wrong)
    names = cluster_names(clusters)
    groups = len(set(names))
    # Clusters first: both other methods assume that items are independent.
    if groups < n:
        mcnemar = "items in clusters are not independent"
        if groups < MIN_CLUSTERS:
            # The error assumes independent items; no claim uses it.
            return result(interval=too_few_clusters(groups), p_value=None, mcnemar=mcnemar,
                          standard_error=_independent_error(differences))
        # Without spread a t interval has no width: Tango's interval with one pair per cluster.
        if not any(differences):
            return result(interval=tango(0, 0, groups), p_value=1.0, mcnemar=mcnemar, standard_error=0.0)
        mean = clustered_t_mean(differences, names)
    # Binary scores have exact methods; t intervals are too narrow near 0 and 1.
    elif all(value in (0.0, 1.0) for value in (*a, *b)):
        return result(interval=tango(right, wrong, n), p_value=score_p(right, wrong),
                      mcnemar=mcnemar_exact(right, wrong), standard_error=_independent_error(differences))
    elif n == 1:
        return result(interval="one item", p_value=None, mcnemar="one item", standard_error=0.0)
    else:
        mean, mcnemar = t_mean(differences), "scores between 0 and 1 are neither correct nor wrong"
    return result(interval=mean.interval, p_value=mean.p_value, mcnemar=mcnemar, standard_error=mean.standard_error)


def paired_equivalence(pairs: Pairs, margin: float) -> Equivalence | str:
    """`values_equivalence` over pairs of results of the same items."""
    return values_equivalence([a.score for a, _ in pairs], [b.score for _, b in pairs], [a.cluster for a, _ in pairs],
                              margin)


def values_equivalence(a: Sequence[float], b: Sequence[float], clusters: Sequence[str], margin: float
                       ) -> Equivalence | str:
    """Whether values are shown to differ by less than the margin, by the method of `paired_values`; or why not."""
    differences = [y - x for x, y in zip(a, b, strict=True)]
    n, names = len(differences), cluster_names(clusters)
    groups = len(set(names))
    if groups < n:
        if groups < MIN_CLUSTERS:
            return too_few_clusters(groups)
        # As in `paired_values`: without spread use the number of clusters.
        return (t_equivalence(differences, margin, names) if any(differences) else
                score_equivalence(0, 0, groups, margin))
    # The same method as in `paired_values`, so that verdict and equivalence never contradict each other.
    if all(value in (0.0, 1.0) for value in (*a, *b)):
        return score_equivalence(sum(d > 0 for d in differences), sum(d < 0 for d in differences), n, margin)
    return t_equivalence(differences, margin) if n > 1 else "one item"


def equivalence_text(equivalence: Equivalence) -> str:
    """Whether a difference of the margin is ruled out, with interval and p value."""
    interval = f"{points(equivalence.interval.low)} to {points(equivalence.interval.high)}"
    ruled_out = "ruled out" if equivalence.shown else "not ruled out"
    return (f"a difference of {100 * equivalence.margin:g} points or more is {ruled_out} "
            f"(90 % interval {interval}, {p_text(equivalence.p_value)})")


def equivalence_json(equivalence: Equivalence) -> dict[str, Any]:
    """Keys of `equivalence` in ``compare --json``."""
    return {"margin": equivalence.margin, "shown": equivalence.shown, "p_value": equivalence.p_value,
            "delta_ci90_low": equivalence.interval.low, "delta_ci90_high": equivalence.interval.high,
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
