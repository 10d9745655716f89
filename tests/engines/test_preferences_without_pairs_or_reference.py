"""SimPO, ORPO and KTO against numbers worked out by hand, for all three arrays: values and derivatives."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.engines.objective_oracle import FRAMEWORKS
from workings.errors import RequestError
from workings.objectives.kto import VERDICT, Kto
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.preference import IMITATION, Orpo, SimPo
from workings.objectives.registry import from_json, to_json

LN2, LN3, LN4 = math.log(2), math.log(3), math.log(4)
MASK = np.array([[0, 1, 1], [0, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 0], [0, 0, 0]], np.float32)
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


CASES = {
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
    value, means, derivative = FRAMEWORKS[framework](case.objective, LOG_PROBS, MASK, {
        signal: SIGNALS[signal] for signal in case.objective.signals})
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
    signals = {REFERENCE: np.array([[0.0], [-1e4]]), VERDICT: np.array([[-1.0], [0.0]]), IMITATION: mask}
    for objective in (SimPo(), Orpo(), Kto()):
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
    (SimPo, {"beta": 0.0}), (SimPo, {"gamma": -1.0}), (Orpo, {"beta": 0.0}), (Kto, {"beta": 0.0}),
    (Kto, {"right_weight": 0.0}), (Kto, {"wrong_weight": -1.0})])
def test_settings_survive_a_file_and_those_that_make_no_sense_are_refused(kind: Any, settings: dict[str, float]
                                                                          ) -> None:
    assert from_json(to_json(kind(beta=0.3))) == kind(beta=0.3)
    with pytest.raises(RequestError):
        kind(**settings)
