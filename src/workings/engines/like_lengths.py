"""The rows of an update in micro batches of like length, so that little of them is padding; equal beginnings together.

Only for objectives that allow it (`workings.objectives.base.AnyRowOrder`). Sums over the update stay what they were but
for their order, because its divisor is that of the whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from workings.engines.shared_beginnings import SharedBeginnings
from workings.models.batch import Batch

MAX_ROWS, MIN_ROWS = 32, 8
"""Rows of a micro batch: among more of them one long row makes more others long, and fewer keep no core busy."""

SIZES = 4
"""Sizes that the distinct positions of a micro batch may have: quarters of all its positions."""


@dataclass(frozen=True)
class LikeLengths:
    """A batch ``[A, B, S]`` in micro batches of like length."""

    batches: list[Batch]
    """``[1, B', S']`` each, the shortest rows first; or one ``[A, B, S]``."""
    order: np.ndarray
    """``[A B]``: of each of their rows, one after the other, its number in the batch."""
    shape: tuple[int, ...]
    """A, B, S."""

    @classmethod
    def of(cls, batch: Batch, padded: Callable[[int], int] = int) -> "LikeLengths":
        """Rows sorted by length and cut behind the longest of each micro batch.

        Args:
            batch: rows whose padding stands at their end.
            padded: positions that so many are padded to, for engines whose every length is a program to compile.
        """
        first, rows, length = batch.tokens.shape
        lengths = np.count_nonzero(batch.segment_ids, -1).reshape(-1)
        # By what lengths are padded to, and then by tokens: rows that begin alike become neighbours, which share that
        # (`shared_beginnings`). The micro batches follow from the batch alone.
        tokens = batch.tokens.reshape(-1, length).T[::-1]
        order = np.lexsort((*tokens, [padded(int(each)) for each in lengths]))
        size = rows_at_a_time(first, rows)
        batches = []
        for own in order.reshape(-1, size):
            longest = min(length, padded(max(1, int(lengths[own].max()))))
            part = Batch.of({name: x.reshape(-1, length)[own, :longest][None] for name, x in batch.arrays.items()},
                            divided_by=batch.divisor)
            if batch.loss_positions is not None:
                supervised = int(np.count_nonzero(part.loss_mask, -1).max())
                part = part.with_loss_positions(min(batch.loss_positions.shape[-1], padded(max(1, supervised))))
            # Few sizes, as of lengths, for engines whose every size is a program to compile.
            step = -(-part.tokens.size // SIZES)
            batches.append(replace(part, distinct_positions=-(-SharedBeginnings.count(part) // step) * step))
        return cls(batches, order, batch.tokens.shape)

    @classmethod
    def unsplit(cls, batch: Batch) -> "LikeLengths":
        """The batch as it is."""
        return cls([batch], np.arange(batch.tokens[..., 0].size), batch.tokens.shape)

    def together(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """``[A, B, S, ...]`` of what there is of each position of `batches`; 0 behind their ends."""
        each = parts[0].shape[3:]
        merged = np.zeros((self.order.size, self.shape[2], *each), parts[0].dtype)
        for own, part in zip(self.order.reshape(len(parts), -1), parts, strict=True):
            merged[own, :part.shape[2]] = part.reshape(len(own), part.shape[2], *each)
        return merged.reshape(*self.shape, *each)


def rows_at_a_time(micro_batches: int, rows: int) -> int:
    """Rows of a micro batch, where a recipe asks for ``micro_batches`` of ``rows`` each.

    As many as it asks for, up to `MAX_ROWS`; where it asks for more, the most that divide all rows, if they are not
    too few.
    """
    most = max(size for size in range(1, MAX_ROWS + 1) if micro_batches * rows % size == 0)
    return most if rows > MAX_ROWS and most >= MIN_ROWS else rows
