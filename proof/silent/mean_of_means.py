"""Accumulation averages the means of micro batches, so tokens of short rows weigh more than those of long ones.

Reported: arXiv 2604.23747 (OpenRLHF), mlx-lm#1544, axolotl#3196, transformers#37766.
"""

from proof.silent._harness import Found, batch, learned, opened, right_if


def check(engine: str) -> Found:
    """One row of 3 and one of 30 learned tokens: accumulated, the loss is that of one batch of both."""
    model, rows = opened(engine), learned(3, 30)
    state = model.init(0)
    log_probs = model.log_probs(state, batch(rows)).sum(-1)[0]
    means = -(log_probs[0] / 3 + log_probs[1] / 30) / 2
    together = model.step(model.init(0), batch(rows), 1e-3)[1]
    apart = model.step(model.init(0), batch(rows, micro=2), 1e-3)[1]
    same = abs(together.loss - apart.loss) < 1e-5 and abs(together.grad_norm - apart.grad_norm) < 1e-4
    return right_if(same and abs(apart.loss - means) > 1e-3 and abs(apart.loss + log_probs.sum() / 33) < 1e-5,
                    f"loss {apart.loss:.5f} accumulated, {together.loss:.5f} in one batch; mean of means {means:.5f}")
