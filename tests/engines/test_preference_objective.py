"""The preference objective's value, metrics and derivatives against numbers worked out by hand, for all three arrays.

Three pairs of rows of three positions. By how many nats a row is likelier than under the reference, and its tokens:

    pair 1   chosen  ln 2 of 2 tokens   rejected -ln 2 of 1 token    apart by 2 ln 2 = ln 4
    pair 2   chosen -ln 2 of 1 token    rejected  ln 2 of 2 tokens   apart by -ln 4
    pair 3   is padding
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from tests.engines.objective_oracle import FRAMEWORKS
from workings.errors import RequestError
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.preference import Preference
from workings.objectives.registry import from_json, to_json

LN2, LN4 = math.log(2), math.log(4)
MASK = np.array([[0, 1, 1], [0, 1, 0], [0, 1, 0], [0, 1, 1], [0, 0, 0], [0, 0, 0]], np.float32)
LOG_PROBS = np.array([[0, -LN2, -LN2], [0, -2 * LN2, 0], [0, -3 * LN2, 0], [0, -LN2, 0], [0] * 3, [0] * 3], np.float32)
REFERENCES = np.array([[0, -3 * LN2, 0], [0, -LN2, 0], [0, -2 * LN2, 0], [0, -2 * LN2, 0], [0] * 3, [0] * 3],
                      np.float32)


@dataclass(frozen=True, kw_only=True)
class Case:
    """An objective, its value, and its derivative in one token of the first pair's chosen row."""

    objective: Preference
    total: float
    derivative: float


# Minus the logarithm of the sigmoid of ln x is ln(1 + 1/x); its derivative is -1 / (1 + x).
CASES = {
    # x = 4: ln(5/4); x = 1/4: ln 5.
    "beta 1": Case(objective=Preference(beta=1.0), total=math.log(5 / 4) + math.log(5), derivative=-1 / 5),
    # x = 4 ** (1/2) = 2: ln(3/2); x = 1/2: ln 3. The derivative: beta times -1/3.
    "beta 1/2": Case(objective=Preference(beta=0.5), total=math.log(3 / 2) + math.log(3), derivative=-1 / 6),
    # Of each pair 0.9 of the one and 0.1 of the other: together as much as without.
    # The derivative: 0.9 * -1/5 + 0.1 * 4/5.
    "smoothed labels": Case(objective=Preference(beta=1.0, label_smoothing=0.1),
                            total=math.log(5 / 4) + math.log(5), derivative=-0.1),
    # Means: ln 2 / 2 and -ln 2, apart by ln(2 ** 1.5); then -ln 2 and ln 2 / 2. The derivative shares over two tokens.
    "means over tokens": Case(objective=Preference(beta=1.0, length_normalized=True),
                              total=math.log(1 + 2 ** -1.5) + math.log(1 + 2 ** 1.5),
                              derivative=-1 / (1 + 2 ** 1.5) / 2),
    # The same means; 1 / (2 * 0.5) = 1. The derivative: 2 * (1.5 ln 2 - 1), over two tokens.
    "ipo": Case(objective=Preference(beta=0.5, loss="ipo"), total=(1.5 * LN2 - 1) ** 2 + (-1.5 * LN2 - 1) ** 2,
                derivative=1.5 * LN2 - 1),
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("name", CASES)
def test_values_worked_out_by_hand(name: str, framework: str) -> None:
    case = CASES[name]
    value, means, derivative = FRAMEWORKS[framework](case.objective, LOG_PROBS, MASK, {REFERENCE: REFERENCES})
    assert value == pytest.approx(case.total, rel=1e-6)
    assert {*means} == {*Preference.metrics}
    # Rewards of the two pairs cancel; of two margins one is above 0. Log probabilities: -2 ln 2, -3 ln 2 chosen;
    # -2 ln 2, -ln 2 rejected.
    assert means == pytest.approx({"margin": 0, "accuracy": 0.5, "chosen_reward": 0, "rejected_reward": 0,
                                   "chosen_log_prob": -2.5 * LN2, "rejected_log_prob": -1.5 * LN2}, abs=1e-6)
    if derivative is not None:
        np.testing.assert_allclose(derivative[0], [0, case.derivative, case.derivative], atol=1e-7)
        # The rejected row's single token moves the other way; padding moves nothing.
        shared = 2 if case.objective.length_normalized or case.objective.loss == "ipo" else 1
        np.testing.assert_allclose(derivative[1], [0, -shared * case.derivative, 0], atol=1e-7)
        np.testing.assert_array_equal(derivative[4:], 0)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_margin_overflows(framework: str) -> None:
    for sign in (-1, 1):
        log_probs, reference = np.array([[-1.0], [-1.0]]), np.array([[sign * 1e4], [0.0]])
        found = FRAMEWORKS[framework](Preference(beta=1.0), log_probs, np.ones((2, 1)), {REFERENCE: reference})
        assert found.total == pytest.approx(1e4 if sign > 0 else 0)  # a margin of minus and plus 10,000


def test_settings_survive_a_file_and_those_that_make_no_sense_are_refused() -> None:
    asked = Preference(beta=0.3, label_smoothing=0.2)
    assert from_json(to_json(asked)) == asked
    for settings in ({"beta": 0.0}, {"label_smoothing": 0.5}, {"loss": "ipo", "label_smoothing": 0.1},
                     {"loss": "ipo", "length_normalized": True}):
        with pytest.raises(RequestError):
            Preference(**settings)  # type: ignore[arg-type]
