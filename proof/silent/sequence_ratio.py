"""An algorithm of that name without its definition: a `gspo` whose ratio was that of tokens.

Reported: Soup (release notes of v0.75).
"""

from math import log

import numpy as np

from proof.silent._harness import Found, batch, learned, opened, right_if
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR
from workings.ways.rewards import Grpo, Gspo


def check(engine: str) -> Found:
    """One token 8 times as likely among 3: GSPO's ratio is 2 for all three, GRPO's 8, 1 and 1."""
    losses = {}
    for way in (Gspo(name="gspo", clip_high=9.0), Grpo(name="grpo", clip_high=9.0)):
        model, made = opened(engine, objective=way.objective), batch(learned(3))
        state = model.init(0)
        behavior = np.array(model.log_probs(state, made))
        behavior[0, 0, 2] -= log(8)
        signals = {BEHAVIOR: behavior, ADVANTAGE: np.ones_like(behavior)}
        divided = type(made).of(made.arrays | signals, divided_by=1.0)
        losses[way.name] = -model.step(state, divided, 1e-3)[1].loss
    return right_if(abs(losses["gspo"] - 2) < 1e-4 and abs(losses["grpo"] - 10 / 3) < 1e-4,
                    f"gain {losses['gspo']:.4f} with gspo, {losses['grpo']:.4f} with grpo")
