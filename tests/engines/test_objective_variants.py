"""Every algorithm's loss on five tokens, worked out by hand, and ratios that no float could hold.

With NumPy, and with the functions of both engines, which find the derivatives by themselves.
"""

from math import exp, log
from typing import Any

import numpy as np
import pytest

from tests.engines.objective_oracle import FRAMEWORKS
from tests.objectives.numpy_functions import NUMPY
from workings.errors import RequestError
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, REFERENCE, PolicyGradient
from workings.ways.rewards import Cispo, Dapo, DrGrpo, Grpo, Gspo, RewardWay

THEN = ((0.4, 0.8, 0.5), (0.5, 0.25))
"""Probability of each token when it was drawn; the second completion is a token shorter."""
RATIOS = ((1.5, 0.5, 1.1), (0.6, 1.3))
"""Probability now over probability then."""
ADVANTAGES = (2.0, -1.0)
NOW = tuple(tuple(log(p * r) for p, r in zip(*row, strict=True)) for row in zip(THEN, RATIOS, strict=True))
"""Log probability of each token now."""
FIRST = 0.825 ** (1 / 3)
"""Geometric mean of the first row's ratios, 1.5 * 0.5 * 1.1 = 0.825."""


# A good completion's ratios 1.5, 0.5, 1.1 count 1.2 (the bound), 0.5, 1.1, times 2; a bad one's 0.6 and 1.3 count 0.8
# (the bound) and 1.3, times -1. Beyond the bound the derivative is 0, else minus advantage times ratio.
cases = pytest.mark.parametrize(("algorithm", "loss", "derivative"), [
    pytest.param(
        Grpo(name="grpo"), (-(2.4 + 1.0 + 2.2) / 3 + (0.8 + 1.3) / 2) / 2,
        ((0.0, -1.0 / 6, -2.2 / 6), (0.0, 1.3 / 4)), id="grpo: mean of two means, of 3 and of 2 tokens"),
    pytest.param(
        DrGrpo(name="dr_grpo", max_new_tokens=4), (-(2.4 + 1.0 + 2.2) + (0.8 + 1.3)) / 8,
        ((0.0, -1.0 / 8, -2.2 / 8), (0.0, 1.3 / 8)), id="dr_grpo: over the 2 * 4 tokens that there could have been"),
    pytest.param(
        Dapo(name="dapo"), (-(2.56 + 1.0 + 2.2) + (0.8 + 1.3)) / 5,
        ((0.0, -1.0 / 5, -2.2 / 5), (0.0, 1.3 / 5)), id="dapo: over the 5 tokens, the upper bound 1.28"),
    pytest.param(
        Gspo(name="gspo", clip_low=0.05, clip_high=0.1), (-2 * FIRST + 0.95) / 2,
        ((-2 * FIRST / 6, -2 * FIRST / 6, -2 * FIRST / 6), (0.0, 0.0)),
        id="gspo: the good row's 0.938 is below the bound 0.95 and counts, the bad row's 0.883 counts 0.95"),
    pytest.param(
        Cispo(name="cispo", clip_low=1.0, clip_high=0.4),
        (-2 * (1.4 * NOW[0][0] + 0.5 * NOW[0][1] + 1.1 * NOW[0][2]) + (0.6 * NOW[1][0] + 1.3 * NOW[1][1])) / 5,
        ((-2.8 / 5, -1.0 / 5, -2.2 / 5), (0.6 / 5, 1.3 / 5)),
        id="cispo: log probabilities times ratios up to 1.4; every token teaches"),
])
"""An algorithm, its loss, and the derivative of the loss in the log probability of each token."""


def padded(rows: tuple[tuple[float, ...], ...], empty: float = 0.0) -> np.ndarray:
    """``[2, 3]`` of a row of three and a row of two."""
    return np.array([rows[0], (*rows[1], empty)])


@pytest.mark.parametrize("framework", FRAMEWORKS)
@cases
def test_losses_and_derivatives_worked_out_by_hand(algorithm: RewardWay, loss: float, derivative: Any,
                                                   framework: str) -> None:
    mask = padded(((1.0, 1.0, 1.0), (1.0, 1.0)))
    signals = {ADVANTAGE: np.repeat(np.array(ADVANTAGES)[:, None], 3, 1),
               BEHAVIOR: padded(tuple(tuple(log(p) for p in row) for row in THEN))}
    total, _, gradient = FRAMEWORKS[framework](algorithm.objective, padded(NOW), mask, signals)
    divisor = algorithm.divisor(rows=2, tokens=5)
    assert total / divisor == pytest.approx(loss, rel=1e-6)
    if gradient is not None:
        np.testing.assert_allclose(gradient / divisor, padded(derivative), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_ratios_that_no_float_holds_are_bounded_before_they_are_made(ratio: str, framework: str) -> None:
    """Log ratios of plus and minus 200, where exp(200) is infinite in float32, in rows of a token each.

    Bad tokens, which have become likelier by the whole range (e**20 for each), unlikelier (the bound 0.8), and not at
    all (1). To the reference the log ratios are -200, 200 and -1/2.
    """
    objective = PolicyGradient(kl_beta=0.5, ratio=ratio, normalize="sequences")
    now, then, reference = (np.array(x)[:, None] for x in ((-1.0, -201.0, -1.0), (-201.0, -1.0, -1.0),
                                                           (-201.0, -1.0, -1.5)))
    signals = {ADVANTAGE: np.full((3, 1), -1.0), BEHAVIOR: then, REFERENCE: reference}
    total, metrics, gradient = FRAMEWORKS[framework](objective, now, np.ones((3, 1)), signals)
    apart = (exp(-20) - 1 + 20, exp(20) - 1 - 20, exp(-0.5) - 1 + 0.5)
    assert total == pytest.approx(exp(20) + 0.8 + 1 + 0.5 * sum(apart), rel=1e-6)
    assert metrics["kl_reference"] == pytest.approx(sum(apart) / 3, rel=1e-6)
    assert metrics["kl_behavior"] == pytest.approx((exp(-20) + 19 + exp(20) - 21) / 3, rel=1e-6)
    assert metrics["clip_fraction"] == pytest.approx(1 / 3)
    if gradient is not None:  # none out of range; the third token's is its ratio and its part of the divergence
        np.testing.assert_allclose(gradient[:, 0], [0, 0, 1 + 0.5 * (1 - exp(-0.5))], rtol=1e-6)


def test_a_row_without_supervised_tokens_counts_nothing_and_nonsense_is_refused() -> None:
    empty, zero = np.zeros((1, 3)), {name: np.zeros((1, 3)) for name in (ADVANTAGE, BEHAVIOR)}
    assert PolicyGradient(normalize="sequences").terms(NUMPY, empty, empty, zero).total == 0
    with pytest.raises(RequestError, match="clip_low"):
        PolicyGradient(clip_low=0)
    with pytest.raises(RequestError, match="normalize sequences"):
        PolicyGradient(ratio="sequence")
