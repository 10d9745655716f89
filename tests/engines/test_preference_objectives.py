"""Objectives of preferences against numbers worked out by hand, for all three arrays: values, metrics, derivatives.

Three pairs of rows of three positions; the third pair is padding. For objectives of pairs with a reference, the log
ratio of each row to the reference in nats, and its tokens:

    pair 1   chosen  ln 2 of 2 tokens   rejected -ln 2 of 1 token    apart by 2 ln 2 = ln 4
    pair 2   chosen -ln 2 of 1 token    rejected  ln 2 of 2 tokens   apart by -ln 4
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.engines.objective_oracle import FRAMEWORKS
from workings.errors import RequestError
from workings.objectives.kto import VERDICT, Kto
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.preference import IMITATION, Orpo, Preference, SimPo

LN2, LN3, LN4 = math.log(2), math.log(3), math.log(4)
MASK = np.array([[0, 1, 1], [0, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 0], [0, 0, 0]], np.float32)
OF_PAIRS = np.array([[0, -LN2, -LN2], [0, -2 * LN2, 0], [0, -3 * LN2, 0], [0, -LN2, 0], [0] * 3, [0] * 3], np.float32)
REFERENCES_OF_PAIRS = np.array([[0, -3 * LN2, 0], [0, -LN2, 0], [0, -2 * LN2, 0], [0, -2 * LN2, 0], [0] * 3, [0] * 3],
                               np.float32)
# Means a token: -ln 2 and -ln 4; then -ln 3 and -ln 2. The last two rows are padding.
LOG_PROBS = np.array([[0, -2 * LN2, 0], [0, -LN4, 0], [0, -LN3, 0], [0, -LN2, -LN2], [0] * 3, [0] * 3], np.float32)
# Each of two pairs over three tokens of both chosen rows.
WEIGHTS = np.where(np.arange(6)[:, None] % 2, 0, MASK * 2 / 3).astype(np.float32)
# Log ratios: of the rows themselves ln 3 and -ln 3, of those next to them 2 ln 2 and 0, so that the drift is ln 2.
REFERENCES = np.array([[0, -2 * LN2 - LN3, 0], [0, -4 * LN2, 0], [0, 0, 0], [0, -2 * LN2, 0], [0] * 3, [0] * 3],
                      np.float32)
VERDICTS = np.array([[0, 1, 0], [0] * 3, [0, -1, 0], [0] * 3, [0] * 3, [0] * 3], np.float32)
SIGNALS = {REFERENCE: REFERENCES, VERDICT: VERDICTS, IMITATION: WEIGHTS}


@dataclass(frozen=True, kw_only=True)
class Case:
    """An objective, its value, metrics, and its derivatives in the tokens of the first two rows."""

    objective: Any
    total: float
    metrics: dict[str, float]
    derivative: list[list[float]]
    of_pairs: bool = False
    """Whether rows are those of `OF_PAIRS`."""


def paired(objective: Preference, total: float, derivative: float) -> Case:
    """A case of `OF_PAIRS`; ``derivative``: in one token of the first pair's chosen row."""
    # The rejected row's single token moves the other way.
    shared = 2 if objective.length_normalized or objective.loss == "ipo" else 1
    # Rewards of the two pairs cancel; of two margins one is above 0. Log probabilities: -2 ln 2, -3 ln 2 chosen;
    # -2 ln 2, -ln 2 rejected.
    return Case(objective=objective, total=total, of_pairs=True,
                metrics={"margin": 0, "accuracy": 0.5, "chosen_reward": 0, "rejected_reward": 0,
                         "chosen_log_prob": -2.5 * LN2, "rejected_log_prob": -1.5 * LN2},
                derivative=[[0, derivative, derivative], [0, -shared * derivative, 0]])


CASES = {
    # Minus the logarithm of the sigmoid of ln x is ln(1 + 1/x); its derivative is -1 / (1 + x).
    # x = 4: ln(5/4); x = 1/4: ln 5.
    "beta 1": paired(Preference(beta=1.0), math.log(5 / 4) + math.log(5), -1 / 5),
    # x = 4 ** (1/2) = 2: ln(3/2); x = 1/2: ln 3. The derivative: beta times -1/3.
    "beta 1/2": paired(Preference(beta=0.5), math.log(3 / 2) + math.log(3), -1 / 6),
    # Of each pair 0.9 of the one and 0.1 of the other: together as much as without.
    # The derivative: 0.9 * -1/5 + 0.1 * 4/5.
    "smoothed labels": paired(Preference(beta=1.0, label_smoothing=0.1), math.log(5 / 4) + math.log(5), -0.1),
    # Means: ln 2 / 2 and -ln 2, apart by ln(2 ** 1.5); then -ln 2 and ln 2 / 2. The derivative shares over two tokens.
    "means over tokens": paired(Preference(beta=1.0, length_normalized=True),
                                math.log(1 + 2 ** -1.5) + math.log(1 + 2 ** 1.5), -1 / (1 + 2 ** 1.5) / 2),
    # The same means; 1 / (2 * 0.5) = 1. The derivative: 2 * (1.5 ln 2 - 1), over two tokens.
    "ipo": paired(Preference(beta=0.5, loss="ipo"), (1.5 * LN2 - 1) ** 2 + (-1.5 * LN2 - 1) ** 2, 1.5 * LN2 - 1),
    # Margins 2 (ln 4 - ln 2) = ln 4 and 2 (ln 2 - ln 3) = ln(4/9), less ln 2: ln 2 and ln(2/9).
    # Losses ln(1 + 1/2) and ln(1 + 9/2). Derivative: -1/3 times 2, over two tokens and over one.
    "simpo": Case(objective=SimPo(beta=2.0, gamma=LN2), total=math.log(3 / 2) + math.log(11 / 2),
                  metrics={"margin": (LN4 + math.log(4 / 9)) / 2, "accuracy": 0.5, "chosen_reward": -LN2 - LN3,
                           "rejected_reward": -LN4 - LN2, "chosen_log_prob": -(LN2 + LN3) / 2,
                           "rejected_log_prob": -(LN4 + LN2) / 2},
                  derivative=[[0, -1 / 3, -1 / 3], [0, 2 / 3, 0]]),
    # Odds 1 and 1/3, apart by ln 3: ln(4/3). Odds 1/2 and 1: ln 3. Imitation: 2/3 of 2 ln 2 + ln 3.
    # Derivative of log odds in a mean log probability: 1 / (1 - p), 2 and 4/3; of the preference in log odds: -1/4.
    "orpo": Case(objective=Orpo(beta=0.5), total=2 / 3 * (2 * LN2 + LN3) + 0.5 * (math.log(4 / 3) + LN3),
                 metrics={"margin": (LN2 - LN3 + LN2) / 4, "accuracy": 0.5, "chosen_reward": -(LN2 + LN3) / 4,
                          "rejected_reward": -(LN4 + LN2) / 4, "chosen_log_prob": -(LN2 + LN3) / 2,
                          "rejected_log_prob": -(LN4 + LN2) / 2, "log_odds": (LN3 - LN2) / 2,
                          "imitation_loss": (2 * LN2 + LN3) / 3},
                 derivative=[[0, -2 / 3 - 0.5 * 2 / 4 / 2, -2 / 3 - 0.5 * 2 / 4 / 2], [0, 0.5 * 4 / 3 / 4, 0]]),
    # Right: ln 3 - ln 2, loss 1 - sigmoid = 2/5. Wrong: -(-ln 3 - ln 2) = ln 6, loss 1/7, which counts half.
    # Derivative: -2/5 times 3/5. The row next to it has none.
    "kto": Case(objective=Kto(beta=1.0, wrong_weight=0.5), total=2 / 5 + 1 / 14,
                metrics={"margin": LN3, "accuracy": 1.0, "implied_reward": 0.0, "log_prob": -LN2 - LN3 / 2,
                         "drift": LN2},
                derivative=[[0, -6 / 25, -6 / 25], [0, 0, 0]]),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", CASES)
def test_values_worked_out_by_hand(name: str, framework: str) -> None:
    case = CASES[name]
    log_probs, reference = (OF_PAIRS, REFERENCES_OF_PAIRS) if case.of_pairs else (LOG_PROBS, REFERENCES)
    signals = SIGNALS | {REFERENCE: reference}
    value, means, derivative = FRAMEWORKS[framework](case.objective, log_probs, MASK, {
        signal: signals[signal] for signal in case.objective.signals})
    assert value == pytest.approx(case.total, rel=1e-6)
    assert {*means} == {*case.objective.metrics}
    assert means == pytest.approx(case.metrics, abs=1e-6)
    if derivative is not None:
        np.testing.assert_allclose(derivative[:2] * MASK[:2], case.derivative, atol=1e-7)
        np.testing.assert_array_equal(derivative[4:] * MASK[4:], 0)
        assert np.isfinite(derivative).all()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_certain_and_impossible_completions_stay_finite(framework: str) -> None:
    log_probs, mask = np.array([[0.0], [-1e4]]), np.ones((2, 1))
    signals = {REFERENCE: np.array([[2e4], [-1e4]]), VERDICT: np.array([[-1.0], [0.0]]), IMITATION: mask}
    for objective in (Preference(), SimPo(), Orpo(), Kto()):
        found = FRAMEWORKS[framework](objective, log_probs, mask, {name: signals[name] for name in objective.signals})
        assert math.isfinite(found.total)
        assert found.derivative is None or np.isfinite(found.derivative).all()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_drift_below_zero_counts_as_none(framework: str) -> None:
    reference = REFERENCES.copy()
    reference[1, 1] = reference[3, 1] = 5.0
    found = FRAMEWORKS[framework](Kto(beta=1.0), LOG_PROBS, MASK, {REFERENCE: reference, VERDICT: VERDICTS})
    assert found.metrics["drift"] == 0
    assert found.total == pytest.approx(1 / 4 + 1 / 4)


@pytest.mark.parametrize(("kind", "settings"), [
    *((Preference, settings) for settings in ({"beta": 0.0}, {"label_smoothing": 0.5},
                                              {"loss": "ipo", "label_smoothing": 0.1},
                                              {"loss": "ipo", "length_normalized": True})),
    (SimPo, {"beta": 0.0}), (SimPo, {"gamma": -1.0}), (Orpo, {"beta": 0.0}), (Kto, {"beta": 0.0}),
    (Kto, {"right_weight": 0.0}), (Kto, {"wrong_weight": -1.0})])
def test_settings_that_make_no_sense_are_refused(kind: Any, settings: dict[str, float]) -> None:
    with pytest.raises(RequestError):
        kind(**settings)
