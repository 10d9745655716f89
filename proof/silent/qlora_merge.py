"""A QLoRA adapter is merged into the 16-bit weights and not into what the four bits represent.

Reported: unsloth-zoo#810, unsloth#5410.
"""

import numpy as np

from proof.silent._harness import Found, batch, learned, opened, right_if, temporary
from tests.engines.tiny import tiny_shape
from workings.config.method import QloraConfig


def check(engine: str) -> Found:
    """The merged folder has the run's log probabilities; merged into the original weights it would not."""
    shape = tiny_shape("llama", width=64, mlp_width=128, head_dim=16)
    rows = batch(learned(9, 14))
    with temporary() as folder:
        (base := folder / "base").mkdir()
        (merged := folder / "merged").mkdir()
        full = opened(engine, shape=shape)
        full.export(full.init(3), base)
        model = opened(engine, shape=shape, method=QloraConfig(name="qlora", rank=4, alpha=8), weights=base)
        state, _ = model.step(model.load(base), rows, 1e-2)
        trained = model.log_probs(state, rows)
        frozen = model.log_probs(model.without_adapters(state), rows)
        model.export(state, merged)
        read, first = (full.log_probs(full.load(place), rows) for place in (merged, base))
    apart, rounding = np.abs(trained - read).max(), np.abs(frozen - first).max()
    return right_if(apart < 1e-4 and rounding > 10 * apart, f"run and merged folder differ by {apart:.1e} nats; the "
                    f"four bits alone move log probabilities by {rounding:.1e}")
