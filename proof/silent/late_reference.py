"""The reference is taken after training, or moves with the policy: all margins are 0.

Reported: trl#6443.
"""

import numpy as np

from proof.silent._harness import LORA, Found, batch, learned, opened, right_if
from workings.objectives.policy_gradient import REFERENCE
from workings.ways.preferences import Dpo


def check(engine: str) -> Found:
    """The loss begins at ln 2 and falls; after three updates the reference is what it was."""
    way = Dpo(name="dpo", beta=1.0)
    model, made = opened(engine, objective=way.objective, method=LORA), batch(learned(6, 9))
    state = model.init(0)
    first = model.log_probs(model.without_adapters(state), made)
    signal = np.zeros_like(first)
    signal[..., 2] = first.sum(-1)
    losses = []
    for _ in range(3):
        state, result = model.step(state, type(made).of(made.arrays | {REFERENCE: signal}, divided_by=1.0), 1e-2)
        losses.append(result.loss)
    same = (model.log_probs(model.without_adapters(state), made) == first).all()
    return right_if(abs(losses[0] - np.log(2)) < 1e-5 and losses[2] < losses[1] < losses[0] and same,
                    f"losses {', '.join(f'{loss:.4f}' for loss in losses)}; the reference is unchanged: {same}")
