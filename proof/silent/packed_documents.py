"""Packed documents attend to each other, so the loss of one depends on its neighbour.

Reported: trl#3067.
"""

import numpy as np

from proof.silent._harness import Found, batch, learned, opened, right_if


def check(engine: str) -> Found:
    """A row has the same log probabilities alone, after one document and after another one."""
    model = opened(engine)
    state = model.init(0)
    first, second = learned(9, 12)
    other = learned(9, seed=7)[0]
    alone = model.log_probs(state, batch([second]))[0, 0, :15]
    packed, packed_again = (model.log_probs(state, batch([[before, second]]))[0, 0, 12:] for before in (first, other))
    apart = max(np.abs(alone - packed).max(), np.abs(packed - packed_again).max())
    return right_if(apart < 1e-5 and np.abs(alone).max() > 1, f"log probabilities differ by at most {apart:.1e}")
