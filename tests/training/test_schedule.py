"""Learning rates computed by hand."""

import math

import pytest

from workings.config.training import TrainingConfig


def schedule(kind, **changes):
    return TrainingConfig(**({"schedule": kind, "learning_rate": 0.4, "steps": 10, "warmup_steps": 2,
                              "final_share": 0.1} | changes))


@pytest.mark.parametrize(("kind", "step", "rate"), [
    ("constant", 1, 0.2), ("constant", 2, 0.4), ("constant", 10, 0.4),
    ("linear", 1, 0.2), ("linear", 2, 0.4), ("linear", 6, 0.22), ("linear", 10, 0.04),
    # half-way down the cosine: 0.4 * (0.1 + 0.9 / 2)
    ("cosine", 2, 0.4), ("cosine", 6, 0.22), ("cosine", 10, 0.04),
    # a quarter of the way: 0.4 * (0.1 + 0.9 * (1 + cos(pi / 4)) / 2)
    ("cosine", 4, 0.4 * (0.1 + 0.45 * (1 + math.sqrt(0.5)))),
])
def test_by_hand(kind, step, rate):
    assert schedule(kind).rate_at(step) == pytest.approx(rate, rel=1e-12)


def test_without_warmup_the_first_step_is_on_the_curve():
    assert schedule("linear", warmup_steps=0, final_share=0.0).rate_at(1) == pytest.approx(0.36)
    assert schedule("cosine", warmup_steps=0, steps=1, final_share=0.5).rate_at(1) == pytest.approx(0.2)


@pytest.mark.parametrize("step", [0, 11, -1])
def test_steps_outside_the_run(step):
    with pytest.raises(ValueError, match="outside"):
        schedule("cosine").rate_at(step)


def test_a_constant_schedule_has_no_end_value():
    assert schedule("constant", warmup_steps=0, final_share=0.5).rate_at(10) == 0.4
