"""Length bucketing: an update's rows in micro batches of similar length, to save padding; equal prefixes stay together.

Only for objectives whose rows may be moved (`workings.objectives.base.OfCompletions`). Sums over the update change in
their order alone, because the divisor is that of the whole update.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workings.models.batch import Batch

MAX_ROWS, MIN_ROWS = 32, 8
"""Limits of the rows of a micro batch: with more of them one long row pads more others; fewer leave cores idle."""


@dataclass(frozen=True)
class LengthBuckets:
    """A batch ``[A, B, S]`` in micro batches of rows of similar length."""

    batches: list[Batch]
    """``[1, B', S']`` each, the shortest rows first; or one ``[A, B, S]``."""
    order: np.ndarray
    """``[A B]``: row number in the batch, for each row of `batches` in order."""
    shape: tuple[int, ...]
    """A, B, S."""

    @classmethod
    def from_batch(cls, batch: Batch) -> "LengthBuckets":
        """Rows sorted by length, with padding at their end; each micro batch ends with its longest row."""
        first, rows, length = batch.tokens.shape
        lengths = np.count_nonzero(batch.segment_ids, -1).reshape(-1)
        # By length, and then by tokens: rows with equal prefixes become neighbours, which prefix sharing needs.
        tokens = batch.tokens.reshape(-1, length).T[::-1]
        # `lexsort` takes its most important key last: the length, then the first token, then the second.
        order = np.lexsort((*tokens, lengths))
        size = rows_at_a_time(first, rows)
        batches = []
        for rows_of_part in order.reshape(-1, size):
            longest = max(1, int(lengths[rows_of_part].max()))
            batches.append(Batch.of({name: x.reshape(-1, length)[rows_of_part, :longest][None]
                                     for name, x in batch.arrays.items()}, divided_by=batch.divisor))
        return cls(batches, order, batch.tokens.shape)

    @classmethod
    def unsplit(cls, batch: Batch) -> "LengthBuckets":
        """The whole batch as one bucket."""
        return cls([batch], np.arange(batch.tokens[..., 0].size), batch.tokens.shape)

    def merge(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """``[A, B, S, ...]`` values of all positions, from those of each of `batches`; 0 behind their ends."""
        value_shape = parts[0].shape[3:]
        merged = np.zeros((self.order.size, self.shape[2], *value_shape), parts[0].dtype)
        for rows, part in zip(self.order.reshape(len(parts), -1), parts, strict=True):
            merged[rows, :part.shape[2]] = part.reshape(len(rows), part.shape[2], *value_shape)
        return merged.reshape(*self.shape, *value_shape)


def rows_at_a_time(micro_batches: int, rows: int) -> int:
    """Rows of a micro batch, for a recipe with ``micro_batches`` micro batches of ``rows`` each.

    The recipe's number up to `MAX_ROWS`. Above it, the largest number that divides all rows, unless that is below
    `MIN_ROWS`.
    """
    most = max(size for size in range(1, MAX_ROWS + 1) if micro_batches * rows % size == 0)
    return most if rows > MAX_ROWS and most >= MIN_ROWS else rows
