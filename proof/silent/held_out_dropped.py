"""A validation set that is smaller than a batch is dropped whole, or its last batch is.

Reported: verl#7467.
"""

from proof.silent._harness import Found, learned, opened, right_if
from workings.config.data import DataConfig
from workings.data.batches import fixed_batches
from workings.data.rows import RowSet


def check(engine: str) -> Found:
    """Five rows in batches of eight and of two: all learned tokens are counted, with the same loss."""
    rows = learned(3, 5, 8, 4, 6)
    made = RowSet(tuple(rows), (), 0, 32)
    model = opened(engine)
    state, sums = model.init(0), []
    for size in (8, 2):
        found = [model.evaluate(state, one) for one in fixed_batches(made, size, DataConfig(
            traces="x", max_length=32, buckets=(32,)))]
        sums.append((sum(one.supervised_tokens for one in found), sum(one.loss_sum for one in found)))
    return right_if(sums[0][0] == sums[1][0] == 26 and abs(sums[0][1] - sums[1][1]) < 1e-3,
                    f"{sums[0][0]} and {sums[1][0]} of 26 tokens, loss {sums[0][1]:.4f} and {sums[1][1]:.4f}")
