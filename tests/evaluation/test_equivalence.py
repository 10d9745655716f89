"""Equivalence within a margin: against the tests that it stands for, by each method, and in `compare`."""

from pathlib import Path

import numpy as np
import pytest
from statsmodels.stats.weightstats import DescrStatsW

from tests.evaluation.making import items, score
from workings.evaluation.comparison.compare import compare
from workings.evaluation.comparison.paired import values_equivalence
from workings.evaluation.statistics import TOST_CONFIDENCE, Equivalence, score_statistic, tango, z_value


def test_shown_exactly_where_both_score_tests_reject() -> None:
    for right in range(0, 30, 3):
        for wrong in range(0, 30, 3):
            interval = tango(right, wrong, 400, TOST_CONFIDENCE)
            for margin in (0.01, 0.02, 0.04, 0.08):
                above, below = (score_statistic(right, wrong, 400, end) for end in (-margin, margin))
                assert Equivalence(margin, interval).shown == (min(above, -below) > z_value(TOST_CONFIDENCE))


@pytest.mark.parametrize("clusters", [0, 20])
def test_the_t_tests_are_those_of_statsmodels(clusters: int) -> None:
    values = np.random.default_rng(4).normal(0.01, 0.3, (100, 1) if not clusters else (clusters, 5))
    # Clusters of one size are tested by their means.
    other = DescrStatsW(values.mean(1))
    names = [f"c{k // 5}" if clusters else "" for k in range(values.size)]
    for margin in (0.02, 0.05, 0.1, 0.2):
        found = values_equivalence([0.0] * values.size, values.ravel().tolist(), names, margin)
        assert isinstance(found, Equivalence)
        assert found.shown == (other.ttost_mean(-margin, margin)[0] < 0.05)
        assert (found.interval.low, found.interval.high) == pytest.approx(other.tconfint_mean(alpha=0.1))


def test_equivalence_is_by_the_interval_that_the_values_have() -> None:
    half, clusters = [1.0, 0.0] * 20, [f"c{k % 10}" for k in range(40)]
    # No item differs: as many pairs as there are clusters.
    assert values_equivalence(half, half, clusters, 0.2) == Equivalence(0.2, tango(0, 0, 10, TOST_CONFIDENCE))
    assert values_equivalence([0.5], [0.25], [""], 0.2) == "one item"


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
    far = compare(a, b, equivalent_within=0.002)
    assert far.verdict == "inconclusive"
    assert "a difference of 0.2 points or more is not ruled out" in far.sentence
    # What is better stays better, also where the difference does not matter.
    c = score(tmp_path, "c", asked, [k % 4 > 0 or k < 24 for k in range(400)])
    better = compare(a, c, equivalent_within=0.1)
    assert (better.verdict, better.to_json()["equivalence"]["shown"]) == ("better", True)
