"""The intervals keep what they promise: a small share of `proof/statistics.py`, with its own functions."""

import numpy as np
import pytest

from proof.statistics import clustered_false_alarms, paired_coverage, paired_false_alarms_exact, wilson_coverage


@pytest.mark.parametrize("n", [100, 300])
def test_wilson_covers_95_percent_on_average(n: int) -> None:
    assert 0.94 <= wilson_coverage(n, steps=400) <= 0.96


@pytest.mark.parametrize(("n", "discordant"), [(100, 0.1), (100, 0.3), (300, 0.2)])
def test_false_alarms_without_chance(n: int, discordant: float) -> None:
    """Summed over all counts, so nothing is random here."""
    found = paired_false_alarms_exact(n, discordant)
    assert 0.04 <= found["tango"] <= 0.06
    assert found["exact_mcnemar"] <= 0.05


def test_exact_mcnemar_is_as_conservative_as_it_is_known_to_be() -> None:
    assert paired_false_alarms_exact(100, 0.1)["exact_mcnemar"] == pytest.approx(0.022, abs=5e-4)


def test_a_small_one_sided_difference_is_covered() -> None:
    found = paired_coverage(100, 0.03, 0.0, 4000, np.random.default_rng(1))
    assert found["tango"] >= 0.94
    assert found["t"] < 0.9  # why it was not chosen


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[5] * 50, [40, 22, 16, 13, 11, 9, 8, 7, 6, 5, 4, 4, 3, 3, 2, 2, 2, 1, 1, 1]])
def test_clusters_that_move_together_raise_no_more_alarms(sizes: list[int]) -> None:
    found = clustered_false_alarms(sizes, 4000, np.random.default_rng(2))
    # Four standard errors of a share of 5 % over 4,000 pairs are 1.4 points.
    assert 0.03 <= found["clustered_t"] <= 0.064
    assert found["ignoring_clusters"] > 0.09
