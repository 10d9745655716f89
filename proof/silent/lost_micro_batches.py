"""Only the last micro batch of an update reaches the optimizer; those before it are computed and dropped.

Reported: arXiv 2604.23747 (DeepSpeed's offloaded optimizer, in TRL, OpenRLHF and LLaMA-Factory).
"""

from proof.silent._harness import Found, batch, learned, opened, right_if


def check(engine: str) -> Found:
    """The gradient of three micro batches is that of one batch of the three rows, not that of the last row."""
    model, rows = opened(engine), learned(8, 8, 8)
    norms = [model.step(model.init(0), batch(rows[first:], micro), 1e-3)[1].grad_norm
             for first, micro in ((0, 3), (0, 1), (2, 1))]
    return right_if(abs(norms[0] - norms[1]) < 1e-4 and abs(norms[0] - norms[2]) > 1e-2,
                    "gradient norm {:.4f} of three micro batches, {:.4f} of one batch, {:.4f} of the last row".format(
                        *norms))
