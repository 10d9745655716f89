"""Equivalence within a margin: against statsmodels, a likelihood maximized over a grid, and in `compare`."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.making import items, score
from workings.evaluation.comparison.compare import compare
from workings.evaluation.comparison.paired import values_equivalence
from workings.evaluation.statistics import Equivalence, Interval, score_equivalence, t_equivalence, tango


def z_by_maximizing(newly_right: int, newly_wrong: int, n: int, difference: float) -> float:
    """The score statistic with the share of newly wrong items found by maximizing the likelihood over a grid."""
    low, high = max(0.0, -difference), (1 - difference) / 2
    q = np.linspace(low, high, 2_000_001)[1:-1]
    same = n - newly_right - newly_wrong
    likelihood = newly_right * np.log(q + difference) + newly_wrong * np.log(q) + same * np.log(1 - 2 * q - difference)
    best = float(q[likelihood.argmax()])
    variance = (2 * best + difference - difference ** 2) / n
    return ((newly_right - newly_wrong) / n - difference) / math.sqrt(variance)


@pytest.mark.parametrize(("newly_right", "newly_wrong", "n", "margin"), [
    (12, 10, 500, 0.03), (3, 9, 200, 0.05), (40, 38, 1319, 0.02), (5, 5, 100, 0.1), (20, 6, 300, 0.08)])
def test_the_score_test_is_that_of_the_constrained_likelihood(newly_right: int, newly_wrong: int, n: int,
                                                              margin: float) -> None:
    found = score_equivalence(newly_right, newly_wrong, n, margin)
    above = z_by_maximizing(newly_right, newly_wrong, n, -margin)
    below = z_by_maximizing(newly_right, newly_wrong, n, margin)
    expected = max(math.erfc(z / math.sqrt(2)) / 2 for z in (above, -below))
    assert found.p_value == pytest.approx(expected, rel=1e-4)


def test_shown_exactly_where_the_interval_is_within_the_margin() -> None:
    for right in range(0, 30, 3):
        for wrong in range(0, 30, 3):
            interval = tango(right, wrong, 400, 0.9)
            for margin in (0.01, 0.02, 0.04, 0.08):
                found = score_equivalence(right, wrong, 400, margin)
                assert found.shown == (-margin < interval.low and interval.high < margin)
                assert found.interval == interval


@pytest.mark.parametrize("margin", [0.02, 0.05, 0.2])
def test_the_t_tests_are_those_of_statsmodels(margin: float) -> None:
    from statsmodels.stats.weightstats import DescrStatsW

    values = np.random.default_rng(3).normal(0.01, 0.3, 250).tolist()
    found = t_equivalence(values, margin)
    other = DescrStatsW(values)
    assert found.p_value == pytest.approx(other.ttost_mean(-margin, margin)[0], rel=1e-9)
    low, high = other.tconfint_mean(alpha=0.1)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high))


def test_clusters_of_one_size_are_tested_by_their_means() -> None:
    from statsmodels.stats.weightstats import DescrStatsW

    values = np.random.default_rng(4).normal(0.0, 0.3, (20, 5))
    found = t_equivalence(values.ravel().tolist(), 0.1, [f"c{k // 5}" for k in range(100)])
    assert found.p_value == pytest.approx(DescrStatsW(values.mean(1)).ttost_mean(-0.1, 0.1)[0], rel=1e-9)


def test_the_method_follows_the_values_and_the_clusters() -> None:
    def found(a: list[float], b: list[float], clusters: int = 0) -> Equivalence | str:
        return values_equivalence(a, b, [f"c{k % clusters}" if clusters else "" for k in range(len(a))], 0.2)

    def method(value: Equivalence | str) -> str:
        assert isinstance(value, Equivalence)
        return value.interval.method

    half = [1.0, 0.0] * 20
    assert method(found(half, half[::-1])) == "tango"
    assert method(found([0.5, 0.25] * 20, half)) == "t"
    assert method(found(half, [1.0] * 40, clusters=10)) == "clustered t"
    # No item differs: as many pairs as there are clusters.
    assert found(half, half, clusters=10) == score_equivalence(0, 0, 10, 0.2)
    assert found(half, half, clusters=4) == "only 4 clusters; an interval needs 8"
    assert found([0.5], [0.25]) == "one item"


def test_compare_says_what_is_ruled_out(tmp_path: Path) -> None:
    asked = items(400)
    a = score(tmp_path, "a", asked, [k % 4 > 0 for k in range(400)])
    b = score(tmp_path, "b", asked, [k % 4 > 0 or k == 0 for k in range(400)])
    assert compare(a, b).verdict == "inconclusive"
    assert "equivalence" not in compare(a, b).to_json()
    near = compare(a, b, equivalent_within=0.02)
    assert near.verdict == "equivalent"
    assert near.sentence.startswith("b and a are equivalent: 75.2 % (95 % interval ")
    assert "; a difference of 2 points or more is ruled out (90 % interval -" in near.sentence
    value = near.to_json()["equivalence"]
    assert (value["margin"], value["shown"], value["method"]) == (0.02, True, "tango")
    assert -0.02 < value["delta_ci90_low"] < 0 < value["delta_ci90_high"] < 0.02
    assert isinstance(near.difference and near.difference.interval, Interval)
    far = compare(a, b, equivalent_within=0.002)
    assert far.verdict == "inconclusive"
    assert "a difference of 0.2 points or more is not ruled out" in far.sentence
    # What is better stays better, also where the difference does not matter.
    c = score(tmp_path, "c", asked, [k % 4 > 0 or k < 24 for k in range(400)])
    assert compare(a, c, equivalent_within=0.1).verdict == "better"
    assert compare(a, c, equivalent_within=0.1).to_json()["equivalence"]["shown"]
