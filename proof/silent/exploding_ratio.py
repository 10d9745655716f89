"""A product of ratios over hundreds of tokens is 0 or infinite, and one such row makes the gradient NaN.

Reported: trl#7120.
"""

import numpy as np

from proof.silent._harness import Found, batch, learned, opened, right_if
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR
from workings.ways.rewards import Cispo, Grpo, Gspo


def check(engine: str) -> Found:
    """A behavior that was 200 nats away: loss and gradient stay finite with token and sequence ratios."""
    norms = {}
    for way in (Grpo(name="grpo"), Gspo(name="gspo"), Cispo(name="cispo")):
        model, made = opened(engine, objective=way.objective), batch(learned(90))
        behavior = np.full(made.tokens.shape, -200, np.float32) * made.loss_mask
        signals = {BEHAVIOR: behavior, ADVANTAGE: -np.ones_like(behavior)}
        result = model.step(model.init(0), type(made).of(made.arrays | signals), 1e-3)[1]
        norms[way.name] = abs(result.loss) + result.grad_norm
    return right_if(np.isfinite([*norms.values()]).all(),
                    "loss and gradient norm are finite: " + ", ".join(f"{name} {x:.2g}" for name, x in norms.items()))
