"""Prefix sharing: equal prefixes of rows are computed once (preference pairs, completions of one prompt).

    rows     a b c d        distinct positions  a b c d e f
             a b e f        rows for attention  0 1 2 3 / 0 1 4 5

All layers but attention run over the distinct positions, without padding. See https://arxiv.org/abs/2410.20305 for
preference pairs.

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
"""With a larger share of distinct positions, laying out rows costs about what is saved."""


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
        # Rows that share a position are neighbours. Of a b c d: a+b b+c c+d d, then a+b+c+d b+c+d c+d d.
        distance = 1
        while distance < min(MAX_ROWS, len(dy_BSW)):
            is_shared = (index_BS[distance:] == index_BS[:-distance])[..., None]
            dy_BSW[:-distance] += dy_BSW[distance:] * is_shared
            distance *= 2
        return dy_BSW.flatten(0, 1).index_select(0, first_P), None, None


class _ToDistinct(torch.autograd.Function):
    """``[P, W]`` of ``[B, S, W]``, which is equal where prefixes are equal."""

    @staticmethod
    def forward(ctx: Any, x_BSW: Tensor, index_BS: Tensor, first_P: Tensor) -> Tensor:
        ctx.save_for_backward(index_BS, first_P)
        return x_BSW.flatten(0, 1).index_select(0, first_P)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        index_BS, first_P = ctx.saved_tensors
        index = index_BS.view(-1)
        # Only the position that a value was taken from gets its gradient.
        is_first = first_P.index_select(0, index) == torch.arange(len(index), device=index.device)
        return (grads[0].index_select(0, index) * is_first[:, None]).view(*index_BS.shape, -1), None, None


@dataclass(frozen=True)
class DistinctPositions:
    """The distinct positions of one micro batch as one row, and the map to its rows."""

    index_BS: Tensor
    """int64: number of each position's distinct position; 0 for padding. Rows that share a position are neighbours."""
    first_P: Tensor
    """int64: the first flattened position that each distinct position stands for."""
    supervised_N: Tensor
    """int64: number of each supervised position's distinct position."""

    @classmethod
    def of_rows(cls, tokens_BS: np.ndarray, segment_ids_BS: np.ndarray, supervised_N: np.ndarray,
                device: torch.device) -> "DistinctPositions | None":
        """The distinct positions of rows, on a device; None if there are none, or too many to save anything.

        ``supervised_N``: supervised positions of the flattened rows.
        """
        is_first, index = _number_positions(tokens_BS, segment_ids_BS)
        first = np.flatnonzero(is_first)
        if not 0 < len(first) <= MAX_SHARE * is_first.size:
            return None
        arrays = {"index_BS": index, "first_P": first, "supervised_N": index.reshape(-1)[supervised_N]}
        return cls(**{name: torch.from_numpy(x.astype(np.int64)).to(device) for name, x in arrays.items()})

    def split(self, x_1NPH: Tensor) -> Tensor:
        """Queries, keys or values of attention's rows ``[B, N, S, H]``; finite numbers at padding."""
        _, heads, count, size = x_1NPH.shape
        rows: Tensor = _ToRows.apply(x_1NPH.transpose(1, 2).reshape(count, -1), self.index_BS, self.first_P)
        return rows.unflatten(-1, (heads, size)).transpose(1, 2)

    def merge(self, x_BNSH: Tensor) -> Tensor:
        """``[1, N, P, H]``, the inverse of `split`."""
        heads, size = x_BNSH.shape[1], x_BNSH.shape[3]
        flat: Tensor = _ToDistinct.apply(x_BNSH.transpose(1, 2).flatten(2), self.index_BS, self.first_P)
        return flat.unflatten(-1, (heads, size))[None].transpose(1, 2)


def _number_positions(tokens_BS: np.ndarray, segment_ids_BS: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """``[B, S]``: is a position the first of its kind (1 1 1 1 / 0 0 1 1 above), and its distinct position's number."""
    tokens, segments = tokens_BS, segment_ids_BS
    equal = (tokens[1:] == tokens[:-1]) & (segments[1:] == segments[:-1]) & (segments[1:] > 0)
    # A row shares a position with the row before if all positions up to it are equal.
    equal_so_far = np.logical_and.accumulate(equal, -1)
    # `earlier`: rows before this one in the group that shares a position. A group has up to `MAX_ROWS`.
    shared, earlier = np.zeros(tokens.shape, bool), np.zeros(tokens.shape[1], int)
    for row in range(1, len(tokens)):
        shared[row] = equal_so_far[row - 1] & (earlier < MAX_ROWS - 1)
        earlier = np.where(shared[row], earlier + 1, 0)
    is_first = (segments > 0) & ~shared
    index = np.where(is_first, is_first.cumsum().reshape(tokens.shape) - 1, 0)
    for row in range(1, len(tokens)):
        index[row] = np.where(shared[row], index[row - 1], index[row])
    return is_first, index
