"""Rows that begin alike, with what they begin with computed once: pairs of completions, completions of one prompt.

What a decoder gives at a position depends on the tokens up to it alone. So where two rows have begun alike, everything
is equal, whatever comes after. Distinct positions lie one behind the other without padding: norms and matrices run over
those, and attention alone sees rows. Prefix sharing for preference pairs: arXiv 2410.20305.

Shape suffixes: A micro batches, B rows, S positions of a row, P distinct positions.
"""

from dataclasses import dataclass

import numpy as np

from workings.models.batch import Batch

MOST_ROWS = 8
"""Rows that share a position: each doubling costs a walk over all gradients of queries, keys and values in backward."""
WORTH = 0.9
"""Share of all positions above which so few are saved that bringing rows into order costs more."""


@dataclass(frozen=True)
class SharedBeginnings:
    """Where the distinct positions of each micro batch stand in its flattened rows, and the way back."""

    first_AP: np.ndarray
    """int32: where each stands first; ``B * S`` of a spare one, which no row has."""
    index_ABS: np.ndarray
    """int32: the distinct position of each position; 0 for padding. Equal ones stand in neighbouring rows."""

    @classmethod
    def of(cls, batch: Batch) -> "SharedBeginnings | None":
        """Those of a batch, or None where it is not said to have any or little would be saved.

        As many as `Batch.distinct_positions`, because programs have fixed shapes.
        """
        size, most = batch.tokens[0].size, batch.distinct_positions
        if not 0 < most <= WORTH * size:
            return None
        own, index = _numbered(batch)
        if (counted := int(own.sum(-1).max())) > most:
            raise ValueError(f"a micro batch with {counted} distinct positions in a batch of at most {most}")
        first = np.full((len(own), most), size, np.int32)
        for places, of_micro_batch in zip(first, own, strict=True):
            [found] = np.nonzero(of_micro_batch)
            places[:len(found)] = found
        return cls(first, index)

    @staticmethod
    def count(batch: Batch) -> int:
        """The most distinct positions of a micro batch."""
        return int(_numbered(batch)[0].sum(-1).max())


def _numbered(batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Which of the flattened positions ``[A, B S]`` stand for themselves, and the numbers ``[A, B, S]`` of all."""
    tokens, segments = batch.tokens, batch.segment_ids
    alike = (tokens[:, 1:] == tokens[:, :-1]) & (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] > 0)
    # A difference stays one up to the end of the row.
    alike = np.logical_and.accumulate(alike, -1)
    shared, rank = np.zeros(tokens.shape, bool), np.zeros(tokens[:, 0].shape, int)
    for row in range(1, tokens.shape[1]):
        shared[:, row] = alike[:, row - 1] & (rank < MOST_ROWS - 1)
        rank = np.where(shared[:, row], rank + 1, 0)
    own = ((segments > 0) & ~shared).reshape(len(tokens), -1)
    index = np.where(own, own.cumsum(-1) - 1, 0).reshape(tokens.shape).astype(np.int32)
    for row in range(1, tokens.shape[1]):
        index[:, row] = np.where(shared[:, row], index[:, row - 1], index[:, row])
    return own, index
