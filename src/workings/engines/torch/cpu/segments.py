"""Packed rows on a CPU: attention over each segment alone, instead of over a whole row of which a mask leaves little.

Segments are laid beside each other as rows of the longest one's length, attended to, and laid back. Where they differ
so much in length that this saves nothing, there are none.

Shape suffixes: B rows, S positions, N heads, H head size, M segments, L positions of the longest segment.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


class _Moved(torch.autograd.Function):
    """Rows of a matrix in another order, some twice or not at all; the derivative is a choice of rows as well."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, take: Tensor, give: Tensor, empty: Tensor) -> Tensor:
        # The way back is known: backward chooses rows, where autograd's own rule adds them into zeros.
        ctx.save_for_backward(give, empty)
        return x.index_select(0, take)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        give, empty = ctx.saved_tensors
        return grads[0].index_select(0, give).index_fill_(0, empty, 0.0), None, None, None


@dataclass(frozen=True)
class Segments:
    """`AttentionLayout` in which every segment of packed rows is a row of its own."""

    size: tuple[int, int]
    """M, L."""
    positions: Tensor
    """``[M L]`` int64: the position, in the flattened rows, that each slot takes; spare slots repeat the last one."""
    slots: Tensor
    """``[B S]`` int64: the slot that each position is taken to; 0 for padding."""
    spare: Tensor
    """int64: slots behind the end of their segment. Their keys are after every query that counts."""
    padding: Tensor
    """int64: positions of no segment."""

    def split(self, x_BNSH: Tensor) -> Tensor:
        """``[M, N, L, H]`` of ``[B, N, S, H]``."""
        heads, head = x_BNSH.shape[1], x_BNSH.shape[3]
        flat = _Moved.apply(x_BNSH.transpose(1, 2).reshape(-1, heads * head), self.positions, self.slots, self.padding)
        split: Tensor = flat.view(*self.size, heads, head).transpose(1, 2)
        return split

    def merge(self, x_MNLH: Tensor, rows: int) -> Tensor:
        """``[B, N, S, H]``; anything finite at padding."""
        heads, head = x_MNLH.shape[1], x_MNLH.shape[3]
        flat = _Moved.apply(x_MNLH.transpose(1, 2).reshape(-1, heads * head), self.slots, self.positions, self.spare)
        merged: Tensor = flat.view(rows, -1, heads, head).transpose(1, 2)
        return merged


def find_segments(segment_ids: np.ndarray) -> Segments | None:
    """The segments of ``[B, S]`` segment ids (0: padding), or None where half of the scores would not be saved."""
    rows, length = segment_ids.shape
    # A segment begins where the id differs from its left neighbour; left of a row's first position stands 0.
    before = np.pad(segment_ids, ((0, 0), (1, 0)))[:, :-1]
    real = (segment_ids > 0).reshape(-1)
    first = np.flatnonzero(((segment_ids != before) & (segment_ids > 0)).reshape(-1))
    # Starts ascend over the flattened rows, so a search finds each position's segment without a loop.
    number = np.searchsorted(first, np.arange(rows * length), "right") - 1  # of the segment that began last
    lengths = np.bincount(number[real], minlength=len(first))
    longest = int(lengths.max(initial=0))
    # Scores are counted: M squares of the longest segment against B squares of a row.
    if 2 * len(first) * longest**2 > rows * length**2:
        return None
    slot = np.arange(longest)
    at = np.arange(rows * length)
    # Padding takes slot 0, which exists; its output is read by nobody and its gradient is set to zero.
    slots = np.where(real, number * longest + at - first[number], 0)
    # A spare slot repeats its segment's last position, so what it computes stays finite.
    positions = first[:, None] + np.minimum(slot, lengths[:, None] - 1)
    indices = (positions.reshape(-1), slots, np.flatnonzero((slot >= lengths[:, None]).reshape(-1)),
               np.flatnonzero(~real))
    return Segments((len(first), longest), *(torch.from_numpy(x) for x in indices))
