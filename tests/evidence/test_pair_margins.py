"""Mean margin, accuracy and loss of preference pairs: which of them can occur together."""

import math

import numpy as np
import pytest

from workings.evidence.verify.checks.preference_pairs import loss_bounds, margin_problems, pair_loss
from workings.ways.dpo import Dpo

SIGMOID = Dpo(name="dpo")


@pytest.mark.parametrize("seed", range(20))
def test_every_set_of_margins_is_within_its_bounds(seed: int) -> None:
    margins = np.random.default_rng(seed).normal(scale=3, loc=seed - 10, size=1 + seed % 5)
    loss = float(np.mean([pair_loss(margin) for margin in margins]))
    right = int((margins > 0).sum())
    least, most = loss_bounds(float(margins.mean()), right, len(margins))
    assert least - 1e-12 <= loss <= most + 1e-12
    numbers = {"accuracy": right / len(margins), "margin": float(margins.mean()), "loss": loss}
    assert margin_problems(SIGMOID, numbers, len(margins), 1e-9) == []


def test_the_bounds_are_reached() -> None:
    assert loss_bounds(1.0, 2, 2)[0] == pair_loss(1.0)
    assert loss_bounds(1.0, 1, 2)[0] == (pair_loss(0.0) + pair_loss(2.0)) / 2
    assert loss_bounds(1.0, 2, 2)[1] == (pair_loss(0.0) + pair_loss(2.0)) / 2
    assert loss_bounds(-1.0, 1, 2) == ((pair_loss(0.0) + pair_loss(-2.0)) / 2, math.inf)


@pytest.mark.parametrize(("numbers", "word"), [
    ({"accuracy": 0.5, "margin": 1.0, "loss": 0.317}, "at least"),
    ({"accuracy": 1.0, "margin": 1.0, "loss": 0.6}, "at most"),
    ({"accuracy": 0.0, "margin": 1.0, "loss": 0.4}, "no pair right"),
    ({"accuracy": 1.0, "margin": -1.0, "loss": 1.4}, "every pair right"),
])
def test_numbers_that_no_two_pairs_have(numbers: dict[str, float], word: str) -> None:
    problems = margin_problems(SIGMOID, numbers, 2, 1e-4)
    assert len(problems) == 1
    assert word in problems[0]


def test_other_losses_are_held_to_the_sign_alone() -> None:
    for algorithm in (Dpo(name="dpo", loss="ipo"), Dpo(name="dpo", label_smoothing=0.1),
                      Dpo(name="dpo", length_normalized=True)):
        assert margin_problems(algorithm, {"accuracy": 0.5, "margin": 1.0, "loss": 0.01}, 2, 1e-4) == []
        assert margin_problems(algorithm, {"accuracy": 1.0, "margin": -1.0, "loss": 1.4}, 2, 1e-4)
