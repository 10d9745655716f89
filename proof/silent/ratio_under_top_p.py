"""The sampler cuts or reshapes its distribution (top-p, top-k, temperature), and the ratio is taken with another one.

Reported: trl#6789.
"""

import numpy as np

from proof.silent._harness import Found, batch, opened, refused, right_if
from tests.data.making import row
from workings.config.load import load_recipe
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, PolicyGradient


def check(engine: str) -> Found:
    """At temperature 1.7 a fresh completion's ratio is 1: no divergence in its first update; `top_p` is no key."""
    model = opened(engine, objective=PolicyGradient(temperature=1.7))
    state, prompt = model.init(0), [5, 9, 3]
    [drawn] = model.sample(state, [prompt], max_new_tokens=9, stop_ids=[], temperature=1.7, seeds=[4])
    made = batch([row("x", [*prompt, *drawn.tokens], 3)])
    behavior = np.zeros(made.tokens.shape, np.float32)
    behavior[0, 0, 2:11] = drawn.log_probs
    signals = {BEHAVIOR: behavior, ADVANTAGE: np.ones_like(behavior)}
    result = model.step(state, type(made).of(made.arrays | signals), 1e-3)[1]
    cut = refused(lambda: load_recipe("smoke-tiny", ["algorithm={name: grpo, top_p: 0.9}"]), "top_p")
    return right_if(abs(result.metrics["kl_behavior"]) < 1e-6 and abs(result.loss + 1) < 1e-5
                    and cut.verdict == "refused",
                    f"loss {result.loss:.6f} with advantages of 1; divergence {result.metrics['kl_behavior']:.0e}")
