"""The greedy answer to a prompt depends on the other prompts of its batch: padding is attended to.

Reported: unsloth#9708, transformers#47651.
"""

import numpy as np

from proof.silent._harness import Found, opened, right_if


def check(engine: str) -> Found:
    """Six prompts of 3 to 60 tokens have the same greedy tokens alone and together."""
    model, draw = opened(engine), np.random.default_rng(0)
    state = model.init(4)
    prompts = [draw.integers(1, 60, length).tolist() for length in (3, 60, 8, 21, 5, 34)]
    asked = {"max_new_tokens": 12, "stop_ids": []}
    together = [one.tokens for one in model.generate(state, prompts, **asked)]
    alone = [model.generate(state, [prompt], **asked)[0].tokens for prompt in prompts]
    return right_if(together == alone and len({*map(tuple, alone)}) > 4, "72 greedy tokens of six prompts are equal")
