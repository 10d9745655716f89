"""Distillation that changes nothing: the teacher's signal never reaches the gradient.

Reported: atropos#456.
"""

import numpy as np

from proof.silent._harness import Found, batch, learned, opened, right_if
from tests.engines.tiny import with_top_tokens
from workings.objectives.top_tokens import TopTokens


def check(engine: str) -> Found:
    """A teacher that is the student gives no gradient, another one does, and its divergence falls."""
    model, made = opened(engine, objective=TopTokens(top_k=4)), batch(learned(9, 12))
    state = model.init(0)
    own = model.most_likely(state, made, 4, 60)
    other = model.most_likely(model.init(1), made, 4, 60)
    losses, norms = [], []
    for tokens, log_probs in (own, *[other] * 4):
        state, result = model.step(state, with_top_tokens(made, tokens, log_probs), 1e-2)
        losses.append(result.loss)
        norms.append(result.grad_norm)
    return right_if(norms[1] > 10 * norms[0] and losses[-1] < losses[1] and np.isfinite(losses).all(),
                    f"gradient norm {norms[0]:.1e} under itself, {norms[1]:.2f} under another teacher; loss "
                    f"{losses[1]:.3f}, then {losses[-1]:.3f}")
