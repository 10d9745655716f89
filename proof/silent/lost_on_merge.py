"""The adapter is lost or changed where it is merged into the weights.

Reported: unsloth#7792, transformers#45127.
"""

import numpy as np

from proof.silent._harness import LORA, Found, batch, learned, opened, right_if, temporary


def check(engine: str) -> Found:
    """Log probabilities of the run and of the exported, merged folder agree, and differ from the base."""
    rows = batch(learned(9, 14))
    with temporary() as folder:
        (base := folder / "base").mkdir()
        (merged := folder / "merged").mkdir()
        full = opened(engine)
        full.export(full.init(3), base)
        model = opened(engine, method=LORA, weights=base)
        state = model.load(base)
        for _ in range(5):
            state, _ = model.step(state, rows, 1e-1)
        trained = model.log_probs(state, rows)
        model.export(state, merged)
        read, first = (full.log_probs(full.load(place), rows) for place in (merged, base))
    apart, moved = np.abs(trained - read).max(), np.abs(trained - first).max()
    return right_if(apart < 1e-4 < moved, f"run and merged folder differ by {apart:.1e} nats; training moved them by "
                    f"{moved:.1f}")
