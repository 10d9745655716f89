"""Prefix sharing: equal prefixes of rows are computed once (preference pairs, completions of one prompt).

A decoder's output at a position depends on the tokens up to it alone, so it is equal in two rows that are equal so far.
Distinct positions are laid out one after the other without padding: norms and matrices run over these, and only
attention sees rows. For preference pairs: arXiv 2410.20305.

Shape suffixes: B rows, S positions of a row, P distinct positions, W numbers of a position, N supervised positions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

MAX_ROWS = 8
"""The most rows that share a position: each doubling costs another pass over the gradients of attention's inputs."""
MAX_SHARE = 0.75
"""Share of distinct positions among all, above which laying out rows costs about what is saved."""

# Both derivatives select rows. Autograd's own rule would add one row after the other into zeros.


class _ToRows(torch.autograd.Function):
    """``[B, S, W]`` of ``[P, W]``."""

    @staticmethod
    def forward(ctx: Any, x_PW: Tensor, index_BS: Tensor, first_P: Tensor) -> Tensor:
        ctx.save_for_backward(index_BS, first_P)
        return x_PW.index_select(0, index_BS.view(-1)).view(*index_BS.shape, -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        index_BS, first_P = ctx.saved_tensors
        dy_BSW = grads[0].clone()
        # Rows that share a position are neighbours: pairs are added, then fours, then eights. Padding has 0.
        further = 1
        while further < min(MAX_ROWS, len(dy_BSW)):
            alike = (index_BS[further:] == index_BS[:-further])[..., None]
            dy_BSW[:-further] += dy_BSW[further:] * alike
            further *= 2
        return dy_BSW.flatten(0, 1).index_select(0, first_P), None, None


class _ToDistinct(torch.autograd.Function):
    """``[P, W]`` of ``[B, S, W]`` that is equal where prefixes are."""

    @staticmethod
    def forward(ctx: Any, x_BSW: Tensor, index_BS: Tensor, first_P: Tensor) -> Tensor:
        ctx.save_for_backward(index_BS, first_P)
        return x_BSW.flatten(0, 1).index_select(0, first_P)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        index_BS, first_P = ctx.saved_tensors
        index = index_BS.view(-1)
        # Only at the position that it was taken from. Padding has index 0, whose first position is never padding.
        taken = first_P.index_select(0, index) == torch.arange(len(index))
        return (grads[0].index_select(0, index) * taken[:, None]).view(*index_BS.shape, -1), None, None


@dataclass(frozen=True)
class DistinctPositions:
    """The distinct positions of one micro batch as one row, and the map to its rows."""

    index_BS: Tensor
    """int64: the distinct position of each position; 0 for padding. Rows that share a position are neighbours."""
    first_P: Tensor
    """int64: first of the flattened positions that each distinct position represents."""
    supervised_N: Tensor
    """int64: distinct position of each supervised position; a shared one may come several times."""

    @classmethod
    def of_rows(cls, tokens_BS: np.ndarray, segment_ids_BS: np.ndarray,
                supervised_N: np.ndarray) -> "DistinctPositions | None":
        """The distinct positions of rows; None if they are missing or too many to save anything.

        ``supervised_N``: supervised positions of the flattened rows.
        """
        is_first, index = _number_positions(tokens_BS, segment_ids_BS)
        first = np.flatnonzero(is_first)
        if not 0 < len(first) <= MAX_SHARE * is_first.size:
            return None
        return cls(*(torch.from_numpy(x.astype(np.int64)) for x in (index, first, index.reshape(-1)[supervised_N])))

    def to_distinct(self, x_BS: Tensor) -> Tensor:
        """``[1, P]`` of x ``[B, S]`` that is equal where prefixes are."""
        return x_BS.reshape(-1).index_select(0, self.first_P)[None]

    def split(self, x_1NPH: Tensor) -> Tensor:
        """Queries, keys or values as rows ``[B, N, S, H]``, in which a query sees every key up to its own position.

        Anything finite at padding.
        """
        _, heads, count, size = x_1NPH.shape
        rows: Tensor = _ToRows.apply(x_1NPH.transpose(1, 2).reshape(count, -1), self.index_BS, self.first_P)
        return rows.unflatten(-1, (heads, size)).transpose(1, 2)

    def merge(self, x_BNSH: Tensor) -> Tensor:
        """``[1, N, P, H]``, the inverse of `split`."""
        heads, size = x_BNSH.shape[1], x_BNSH.shape[3]
        flat: Tensor = _ToDistinct.apply(x_BNSH.transpose(1, 2).flatten(2), self.index_BS, self.first_P)
        return flat.unflatten(-1, (heads, size))[None].transpose(1, 2)


def _number_positions(tokens_BS: np.ndarray, segment_ids_BS: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``[B, S]``: which positions are the first of their kind; the number of each position's distinct one."""
    tokens, segments = tokens_BS, segment_ids_BS
    equal = (tokens[1:] == tokens[:-1]) & (segments[1:] == segments[:-1]) & (segments[1:] > 0)
    # Neighbouring rows share a position only if all positions before it are equal, too.
    equal = np.logical_and.accumulate(equal, -1)
    # Rank counts the rows before this one that share the position; a group ends at `MAX_ROWS`.
    shared, rank = np.zeros(tokens.shape, bool), np.zeros(tokens.shape[1], int)
    for row in range(1, len(tokens)):
        shared[row] = equal[row - 1] & (rank < MAX_ROWS - 1)
        rank = np.where(shared[row], rank + 1, 0)
    is_first = (segments > 0) & ~shared
    index = np.where(is_first, is_first.cumsum().reshape(tokens.shape) - 1, 0)
    for row in range(1, len(tokens)):
        # Row by row: the row before may itself have taken its number from an earlier one.
        index[row] = np.where(shared[row], index[row - 1], index[row])
    return is_first, index
