"""Length bucketing: micro batches of rows of similar length, to save padding. Rows with equal prefixes stay together.

Only for objectives whose rows may be moved (`workings.objectives.base.OfCompletions`). Results change by the order of
sums only, because every micro batch is divided by the divisor of the whole update.
"""

import numpy as np

from workings.models.batch import Batch

MAX_ROWS, MIN_ROWS = 32, 8
"""Limits of a micro batch's rows: in larger ones a long row pads many others, smaller ones leave cores idle."""

Part = tuple[np.ndarray, Batch]
"""Some rows of a batch: their numbers among all ``A * B`` rows, and the rows."""


def parts_by_length(batch: Batch) -> list[Part]:
    """A batch ``[A, B, S]`` as micro batches ``[1, B', S']`` of rows of similar length, with padding at their end."""
    micro_batches, rows, length = batch.tokens.shape
    lengths = np.count_nonzero(batch.segment_ids, -1).reshape(-1)
    # By length, then by tokens: so rows with equal prefixes are neighbours, which prefix sharing needs.
    tokens = batch.tokens.reshape(-1, length).T[::-1]
    order = np.lexsort((*tokens, lengths))  # [1, 3, 2, 0] for lengths [9, 2, 8, 3]
    parts = []
    for numbers in order.reshape(-1, rows_at_a_time(micro_batches, rows)):
        longest = max(1, int(lengths[numbers].max()))
        arrays = {name: x.reshape(-1, length)[numbers, :longest][None] for name, x in batch.arrays.items()}
        parts.append((numbers, Batch.of(arrays, divided_by=batch.divisor)))
    return parts


def one_part(batch: Batch) -> list[Part]:
    """The whole batch."""
    return [(np.arange(batch.tokens[..., 0].size), batch)]


def rows_at_a_time(micro_batches: int, rows: int) -> int:
    """Rows of a micro batch, for a recipe with ``micro_batches`` of ``rows`` each: 4 for 2 of 4, and 20 for 1 of 40."""
    if rows <= MAX_ROWS:
        return rows
    largest_divisor = max(size for size in range(1, MAX_ROWS + 1) if micro_batches * rows % size == 0)
    return largest_divisor if largest_divisor >= MIN_ROWS else rows
