"""The policy gradient's value and metrics against numbers worked out by hand, with plain NumPy."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.objectives.numpy_functions import NUMPY
from workings.errors import RequestError
from workings.objectives.cross_entropy import CROSS_ENTROPY
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, REFERENCE, PolicyGradient

LN2 = math.log(2)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Two rows of three positions; the last of the second row is padding. The policy was 1/2 everywhere."""

    objective: PolicyGradient
    ratios: list[list[float]]
    """Probability now over probability then."""
    advantages: list[float]
    total: float
    clipped: float
    metrics: dict[str, float] = field(default_factory=dict)


CASES = {
    "nothing moved: minus the advantages": Case(
        objective=PolicyGradient(), ratios=[[1, 1, 1], [1, 1, 0]], advantages=[2, -1],
        total=-(3 * 2 - 2 * 1), clipped=0),
    "a good token that is likelier than the bound counts as the bound": Case(
        objective=PolicyGradient(), ratios=[[1.5, 1, 1], [1, 1, 0]], advantages=[1, 0],
        total=-(1.2 + 1 + 1), clipped=1 / 5),
    "a good token that has become unlikely counts as it is": Case(
        objective=PolicyGradient(), ratios=[[0.5, 1, 1], [1, 1, 0]], advantages=[1, 0],
        total=-(0.5 + 1 + 1), clipped=0),
    "a bad token that has become unlikely counts as the bound": Case(
        objective=PolicyGradient(), ratios=[[1, 1, 1], [0.5, 1, 0]], advantages=[0, -1], total=0.8 + 1, clipped=1 / 5),
    "a bad token that has become likelier counts as it is": Case(
        objective=PolicyGradient(), ratios=[[1, 1, 1], [3, 1, 0]], advantages=[0, -1], total=3 + 1, clipped=0),
    "bounds of their own": Case(
        objective=PolicyGradient(clip_high=0.28), ratios=[[1.5, 1, 1], [1, 1, 0]], advantages=[1, 0],
        total=-(1.28 + 1 + 1), clipped=1 / 5),
    "rows count alike: means of 3 and of 2 tokens": Case(
        objective=PolicyGradient(normalize="sequences"), ratios=[[1, 1, 1], [1, 1, 0]], advantages=[2, -1],
        total=-(2 - 1), clipped=0),
    "a ratio of the row is the geometric mean: (8 * 1 * 1) ** (1/3) = 2, bounded to 1.2": Case(
        objective=PolicyGradient(ratio="sequence", normalize="sequences"), ratios=[[8, 1, 1], [1, 1, 0]],
        advantages=[1, 0], total=-1.2, clipped=3 / 5),
    "a detached ratio weighs log probabilities: 1.2 * ln(3/4) + 2 ln(1/2)": Case(
        objective=PolicyGradient(bound="detached"), ratios=[[1.5, 1, 1], [1, 1, 0]], advantages=[1, 0],
        total=-(1.2 * math.log(0.75) - 2 * LN2), clipped=1 / 5),
    "divergence from a reference of 1/4: r - 1 - ln r of r = 1/2, for five tokens": Case(
        objective=PolicyGradient(kl_beta=0.5), ratios=[[1, 1, 1], [1, 1, 0]], advantages=[0, 0],
        total=0.5 * 5 * (LN2 - 0.5), clipped=0, metrics={"kl_reference": LN2 - 0.5}),
}


@pytest.mark.parametrize("name", CASES)
def test_values_worked_out_by_hand(name: str) -> None:
    case, mask = CASES[name], np.array([[1, 1, 1], [1, 1, 0]], np.float64)
    log_probs = (np.log(np.where(mask > 0, case.ratios, 1)) - LN2) * mask
    signals = {ADVANTAGE: np.repeat(np.array(case.advantages)[:, None], 3, 1), BEHAVIOR: np.full((2, 3), -LN2),
               REFERENCE: np.full((2, 3), -2 * LN2)}
    terms = case.objective.terms(NUMPY, log_probs, mask, signals)
    assert terms.total == pytest.approx(case.total)
    means = {key: float(total / count) for key, (total, count) in terms.metrics.items()}
    assert tuple(means) == case.objective.metrics
    expected = {"clip_fraction": case.clipped, "entropy": -log_probs.sum() / 5} | case.metrics
    assert {key: means[key] for key in expected} == pytest.approx(expected)
    moved = np.where(mask > 0, case.ratios, 1)  # r of then to now is one over the ratio
    assert means["kl_behavior"] == pytest.approx(((1 / moved - 1 + np.log(moved)) * mask).sum() / 5)


def test_a_row_without_supervised_tokens_counts_nothing() -> None:
    empty, zero = np.zeros((1, 3)), {name: np.zeros((1, 3)) for name in (ADVANTAGE, BEHAVIOR)}
    assert PolicyGradient(normalize="sequences").terms(NUMPY, empty, empty, zero).total == 0


def test_the_divergence_is_never_negative() -> None:
    draw = np.random.default_rng(0)
    log_probs, behavior = -draw.exponential(size=(2, 50, 40))
    terms = PolicyGradient().terms(NUMPY, log_probs, np.ones((50, 40)), {ADVANTAGE: behavior, BEHAVIOR: behavior})
    assert terms.metrics["kl_behavior"][0] > 0


def test_cross_entropy_is_the_negative_log_likelihood() -> None:
    mask = np.array([[1, 0, 1.0]])
    assert CROSS_ENTROPY.terms(NUMPY, np.array([[-1.0, -9.0, -0.5]]), mask, {}).total == pytest.approx(1.5)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(RequestError, match="clip_low"):
        PolicyGradient(clip_low=0)
    with pytest.raises(RequestError, match="normalize sequences"):
        PolicyGradient(ratio="sequence")
