"""What every objective holds to; values worked out by hand are in `tests/engines/test_objective_variants.py`."""

import numpy as np
import pytest

from tests.objectives.numpy_functions import NUMPY
from workings.errors import RequestError
from workings.objectives.base import CROSS_ENTROPY
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, PolicyGradient


def test_a_row_without_supervised_tokens_counts_nothing() -> None:
    empty, zero = np.zeros((1, 3)), {name: np.zeros((1, 3)) for name in (ADVANTAGE, BEHAVIOR)}
    assert PolicyGradient(normalize="sequences").terms(NUMPY, empty, empty, zero).total == 0


def test_cross_entropy_is_the_negative_log_likelihood() -> None:
    mask = np.array([[1, 0, 1.0]])
    assert CROSS_ENTROPY.terms(NUMPY, np.array([[-1.0, -9.0, -0.5]]), mask, {}).total == pytest.approx(1.5)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(RequestError, match="clip_low"):
        PolicyGradient(clip_low=0)
    with pytest.raises(RequestError, match="normalize sequences"):
        PolicyGradient(ratio="sequence")
