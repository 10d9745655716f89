"""Statistics against statsmodels, scipy and values worked out by hand."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from workings.errors import RequestError
from workings.evaluation.statistics import (
    clustered_t_mean,
    holm,
    mcnemar_exact,
    minimum_detectable_effect,
    score_p,
    t_mean,
    tango,
    wilson,
)


@pytest.mark.parametrize("n", [1, 2, 10, 100, 1319, 100_000])
def test_wilson_is_statsmodels(n: int) -> None:
    for correct in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        low, high = proportion_confint(correct, n, method="wilson")
        ours = wilson(correct, n)
        assert ours.low == pytest.approx(low, abs=1e-12)
        assert ours.high == pytest.approx(high, abs=1e-12)
        assert 0 <= ours.low <= correct / n <= ours.high <= 1


@pytest.mark.parametrize(("right", "wrong"), [
    (0, 0), (5, 0), (0, 5), (8, 2), (2, 8), (60, 40), (700, 640), (3000, 2500)])
def test_mcnemar_is_statsmodels(right: int, wrong: int) -> None:
    table = [[50, right], [wrong, 50]]
    expected = min(1.0, mcnemar(table, exact=True).pvalue)
    assert mcnemar_exact(right, wrong) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    if right + wrong:
        # The score statistic is McNemar's chi square without continuity correction.
        chi = mcnemar(table, exact=False, correction=False).pvalue
        assert score_p(right, wrong) == pytest.approx(chi, rel=1e-9, abs=1e-12)


def test_tango_published_example() -> None:
    """Airway reactivity before and after transplantation (Bentur et al., 2009), as in Fagerland et al. (2014)."""
    found = tango(1, 7, 21)
    assert found.low == pytest.approx(-0.517, abs=5e-4)
    assert found.high == pytest.approx(-0.026, abs=5e-4)


def test_t_is_scipy() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.1, 1, 37)
    found = t_mean(values)
    expected: Any = stats.ttest_1samp(values, 0)
    low, high = expected.confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == (pytest.approx(low, abs=1e-12), pytest.approx(high, abs=1e-12))
    assert found.p_value == pytest.approx(expected.pvalue, abs=1e-12)


def test_clustered_t_is_statsmodels_for_clusters_of_one_size() -> None:
    rng = np.random.default_rng(1)
    clusters = np.repeat(np.arange(12), 17)
    values = rng.normal(0, 1, 204) + 0.5 * rng.normal(0, 1, 12)[clusters]
    fitted = OLS(values, np.ones(204)).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    low, high = fitted.conf_int()[0]
    found = clustered_t_mean(values, [str(cluster) for cluster in clusters])
    assert found.mean == pytest.approx(fitted.params[0], abs=1e-12)
    assert found.standard_error == pytest.approx(fitted.bse[0], abs=1e-12)
    assert (found.interval.low, found.interval.high) == (pytest.approx(low, abs=1e-12), pytest.approx(high, abs=1e-12))
    assert found.p_value == pytest.approx(fitted.pvalues[0], abs=1e-12)


def test_clusters_of_unequal_size_are_bell_and_mccaffrey() -> None:
    """Against the definition with whole matrices: residuals over I - H within clusters, Satterthwaite."""
    rng = np.random.default_rng(3)
    sizes = np.array([30, 12, 9, 5, 5, 4, 2, 2, 1])
    names = np.repeat(np.arange(len(sizes)), sizes)
    values = rng.normal(0.3, 1, sizes.sum()) + 0.7 * rng.normal(0, 1, len(sizes))[names]
    n = len(values)
    design = np.ones((n, 1))
    hat = design @ design.T / n
    residuals = values - values.mean()
    directions = []
    for group in range(len(sizes)):
        rows = np.flatnonzero(names == group)
        within = np.eye(len(rows)) - hat[np.ix_(rows, rows)]
        # The inverse square root of I - H_gg, applied to this cluster's residuals and summed.
        eigenvalues, vectors = np.linalg.eigh(within)
        root = vectors @ np.diag(eigenvalues ** -0.5) @ vectors.T
        directions.append((np.eye(n) - hat)[:, rows] @ root @ np.ones(len(rows)) / n)
    stacked = np.array(directions).T
    error = math.sqrt(float(((stacked.T @ residuals) ** 2).sum()))
    eigenvalues = np.linalg.eigvalsh(stacked.T @ stacked)
    degrees = eigenvalues.sum() ** 2 / (eigenvalues ** 2).sum()
    found = clustered_t_mean(values, [str(name) for name in names])
    assert found.standard_error == pytest.approx(error, abs=1e-12)
    half = stats.t.ppf(0.975, degrees) * error
    assert found.interval.low == pytest.approx(values.mean() - half, abs=1e-10)
    assert found.p_value == pytest.approx(2 * stats.t.sf(abs(values.mean()) / error, degrees), abs=1e-12)


def test_too_few_clusters_are_refused() -> None:
    with pytest.raises(RequestError, match="7 clusters are too few"):
        clustered_t_mean([0.0, 1.0] * 7, [str(k // 2) for k in range(14)])


def test_constant_values_have_no_width() -> None:
    assert t_mean([0.0, 0.0, 0.0]).p_value == 1
    found = t_mean([1.0, 1.0, 1.0])
    assert (found.interval.low, found.interval.high, found.p_value) == (1, 1, 0)
    with pytest.raises(RequestError, match="at least 2 values, not 1"):
        t_mean([1.0])


@pytest.mark.slow
def test_holm_is_statsmodels() -> None:
    p_values = [0.01, 0.04, 0.03, 0.005, 0.5]
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]), abs=1e-15)
    assert holm([0.04, None, 0.03]) == [pytest.approx(0.06), None, pytest.approx(0.06)]


def test_minimum_detectable_effect_by_hand() -> None:
    # 20 % discordant, 100 items: standard error sqrt(0.2/100) = 0.0447; (1.95996 + 0.84162) times that.
    assert minimum_detectable_effect(math.sqrt(0.2 / 100)) == pytest.approx(0.125291, abs=1e-6)
