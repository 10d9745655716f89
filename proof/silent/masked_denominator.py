"""Completions that are left out stay in the denominator of the loss, so the others count less.

Reported: trl#6369.
"""

from dataclasses import replace

from proof.silent._harness import Found, right_if
from tests.rollouts.making import TWO
from tests.rollouts.test_rollouts import SHAPE
from workings.ways.parts.rollout_batch import batch_of
from workings.ways.rewards import Dapo, Grpo


def check() -> Found:
    """With one of two groups left out the divisors are those of the group that is there."""
    half = replace(TWO, groups=(TWO.groups[0], replace(TWO.groups[1], kept=False)), trainer_log_probs=())
    alone = replace(TWO, groups=TWO.groups[:1], trainer_log_probs=())
    divisors = [[batch_of(one, 0, SHAPE, way).divisor for way in (Dapo(name="dapo"), Grpo(name="grpo"))]
                for one in (half, alone, TWO)]
    return right_if(divisors[0] == divisors[1] == [4, 2] != divisors[2],
                    f"tokens and completions: {divisors[0]} with a group left out, {divisors[2]} with both")
