"""All rollouts come from the base model without the adapter, while losses look normal.

Reported: unsloth#8701.
"""

import numpy as np

from proof.silent._harness import LORA, Found, batch, learned, opened, right_if
from tests.data.making import row


def check(engine: str) -> Found:
    """After large steps of an adapter samples are others, and their log probabilities are the trainer's."""
    model, rows = opened(engine, method=LORA), batch(learned(9, 14))
    state, prompts = model.init(0), [[5, 9, 3], [8, 2]]
    asked = {"max_new_tokens": 6, "stop_ids": [], "temperature": 1.0, "seeds": [1, 2]}
    first = model.sample(state, prompts, **asked)
    for _ in range(5):
        state, _ = model.step(state, rows, 1e-1)
    then = model.sample(state, prompts, **asked)
    tokens = [*prompts[0], *then[0].tokens]
    scored = model.log_probs(state, batch([row("x", tokens, 3)]))[0, 0, 2:8]
    apart = np.abs(scored - np.array(then[0].log_probs)).max()
    return right_if([one.tokens for one in first] != [one.tokens for one in then] and apart < 1e-4,
                    f"samples changed with the adapter; sampler and trainer differ by {apart:.1e} nats")
