"""Prefix sharing: equal prefixes of rows are computed once (preference pairs, completions of one prompt).

A decoder's output at a position depends on the tokens up to it alone, so it is equal in two rows that are equal so far.
Distinct positions are laid out one behind the other without padding: norms and matrices run over these, and only
attention sees rows. Prefix sharing for preference pairs: arXiv 2410.20305.

Shape suffixes: A micro batches, B rows, S positions of a row, P distinct positions.
"""

from dataclasses import dataclass

import numpy as np

from workings.models.batch import Batch

MAX_ROWS = 8
"""The most rows that share a position: each doubling costs another pass over the gradients of attention's inputs."""
MAX_SHARE = 0.9
"""Share of distinct positions among all, above which laying out rows costs more than is saved."""


@dataclass(frozen=True)
class PrefixSharing:
    """Distinct positions of each micro batch, and the map between them and its flattened rows."""

    first_AP: np.ndarray
    """int32: first of the flattened positions that a distinct position stands for; ``B * S`` for spare ones."""
    index_ABS: np.ndarray
    """int32: distinct position of each position; 0 for padding. Rows that share a position are neighbours."""

    @classmethod
    def from_batch(cls, batch: Batch) -> "PrefixSharing | None":
        """The plan for a batch; None where `Batch.distinct_positions` is unknown or too large to save anything.

        It has room for that many distinct positions, because programs have fixed shapes.
        """
        # All micro batches have one size, so the first speaks for all.
        size, most = batch.tokens[0].size, batch.distinct_positions
        if not 0 < most <= MAX_SHARE * size:
            return None
        is_first, index = _number_positions(batch)
        if (count := int(is_first.sum(-1).max())) > most:
            raise ValueError(f"a micro batch with {count} distinct positions in a batch of at most {most}")
        # The number behind the last position marks a spare one: a read is clipped and a mask drops it.
        first = np.full((len(is_first), most), size, np.int32)
        for micro_batch, mask in zip(first, is_first, strict=True):
            [positions] = np.nonzero(mask)
            micro_batch[:len(positions)] = positions
        return cls(first, index)

    @staticmethod
    def count(batch: Batch) -> int:
        """The largest number of distinct positions of a micro batch."""
        return int(_number_positions(batch)[0].sum(-1).max())


def _number_positions(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """``[A, B S]``: which flattened positions are the first of their kind; ``[A, B, S]``: distinct position of each."""
    tokens, segments = batch.tokens, batch.segment_ids
    equal = (tokens[:, 1:] == tokens[:, :-1]) & (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] > 0)
    # Neighbouring rows share a position only if all positions before it are equal, too.
    equal = np.logical_and.accumulate(equal, -1)
    # Rank counts the rows before this one that share the position; a group ends at `MAX_ROWS`.
    shared, rank = np.zeros(tokens.shape, bool), np.zeros(tokens[:, 0].shape, int)
    for row in range(1, tokens.shape[1]):
        shared[:, row] = equal[:, row - 1] & (rank < MAX_ROWS - 1)
        rank = np.where(shared[:, row], rank + 1, 0)
    is_first = ((segments > 0) & ~shared).reshape(len(tokens), -1)
    # The running count of firsts is the number of a distinct position.
    index = np.where(is_first, is_first.cumsum(-1) - 1, 0).reshape(tokens.shape).astype(np.int32)
    for row in range(1, tokens.shape[1]):
        # Row by row: the row before may itself have taken its number from an earlier one.
        index[:, row] = np.where(shared[:, row], index[:, row - 1], index[:, row])
    return is_first, index
