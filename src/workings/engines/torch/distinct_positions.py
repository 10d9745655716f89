"""Prefix sharing in the PyTorch step: equal prefixes are computed once (`workings.engines.prefix_sharing`).

Shape suffixes: B rows, S positions of a row, P distinct positions, W numbers of a position, N supervised positions.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from workings.engines.prefix_sharing import MAX_ROWS, PrefixSharing

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
            # The right side is computed whole before anything is added.
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
    """`AttentionLayout` of one micro batch: its distinct positions as one row, and the map to its rows."""

    index_BS: Tensor
    """int64: the distinct position of each position; 0 for padding."""
    first_P: Tensor
    """int64: first of the flattened positions that each distinct position stands for."""
    supervised_N: Tensor
    """int64: distinct position of each supervised position; a shared one may come several times."""

    @classmethod
    def from_plan(cls, sharing: PrefixSharing, number: int, supervised: np.ndarray) -> "DistinctPositions":
        """From a batch's plan, for micro batch ``number`` with these supervised positions of its flattened rows."""
        first, index = sharing.first_AP[number], sharing.index_ABS[number]
        # Sizes may differ from batch to batch here, so spare positions are left out.
        arrays = index, first[first < index.size], index.reshape(-1)[supervised]
        return cls(*(torch.from_numpy(x.astype(np.int64)) for x in arrays))

    def to_distinct(self, x_BS: Tensor) -> Tensor:
        """``[1, P]`` of x ``[B, S]`` that is equal where prefixes are."""
        return x_BS.reshape(-1).index_select(0, self.first_P)[None]

    def split(self, x_1NPH: Tensor) -> Tensor:
        """``[B, N, S, H]``; anything finite at padding."""
        _, heads, count, size = x_1NPH.shape
        rows: Tensor = _ToRows.apply(x_1NPH.transpose(1, 2).reshape(count, -1), self.index_BS, self.first_P)
        return rows.unflatten(-1, (heads, size)).transpose(1, 2)

    def merge(self, x_BNSH: Tensor, rows: int) -> Tensor:
        """``[1, N, P, H]``."""
        del rows
        heads, size = x_BNSH.shape[1], x_BNSH.shape[3]
        flat: Tensor = _ToDistinct.apply(x_BNSH.transpose(1, 2).flatten(2), self.index_BS, self.first_P)
        return flat.unflatten(-1, (heads, size))[None].transpose(1, 2)
