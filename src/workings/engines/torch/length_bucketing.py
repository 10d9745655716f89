"""Length bucketing: an update's rows in micro batches of similar length, to save padding; equal prefixes stay together.

Only for objectives whose rows may be moved (`workings.objectives.base.OfCompletions`). Sums over the update change in
their order alone, because the divisor is that of the whole update.
"""

import numpy as np

from workings.models.batch import Batch

MAX_ROWS, MIN_ROWS = 32, 8
"""Limits of the rows of a micro batch: with more of them one long row pads more others; fewer leave cores idle."""


Part = tuple[np.ndarray, Batch]
"""Numbers of rows of a batch ``[A B]``, and these rows."""


def parts_by_length(batch: Batch) -> list[Part]:
    """A batch ``[A, B, S]`` as micro batches ``[1, B', S']`` of rows of similar length, with padding at their end."""
    first, rows, length = batch.tokens.shape
    lengths = np.count_nonzero(batch.segment_ids, -1).reshape(-1)
    # By length, and then by tokens: rows with equal prefixes become neighbours, which prefix sharing needs.
    tokens = batch.tokens.reshape(-1, length).T[::-1]
    order = np.lexsort((*tokens, lengths))
    parts = []
    for numbers in order.reshape(-1, rows_at_a_time(first, rows)):
        longest = max(1, int(lengths[numbers].max()))
        parts.append((numbers, Batch.of({name: x.reshape(-1, length)[numbers, :longest][None]
                                         for name, x in batch.arrays.items()}, divided_by=batch.divisor)))
    return parts


def one_part(batch: Batch) -> list[Part]:
    """The whole batch."""
    return [(np.arange(batch.tokens[..., 0].size), batch)]


def rows_at_a_time(micro_batches: int, rows: int) -> int:
    """Rows of a micro batch, for a recipe with ``micro_batches`` micro batches of ``rows`` each.

    The recipe's number up to `MAX_ROWS`. Above it, the largest number that divides all rows, unless that is below
    `MIN_ROWS`.
    """
    most = max(size for size in range(1, MAX_ROWS + 1) if micro_batches * rows % size == 0)
    return most if rows > MAX_ROWS and most >= MIN_ROWS else rows
