"""Batch of one optimizer step: rows of tokens as NumPy arrays, the same for every engine.

    tokens      <bos>  2   +   2   =   4   <eos>  <pad>
    targets      2     +   2   =   4   <eos>  0     0
    loss_mask    0     0   0   0   1   1      0     0

Shape suffixes: A accumulation (micro batches summed before one update), B rows of one micro batch over all
data-parallel devices, S positions, M loss positions of a row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

ROWS = ("tokens", "targets", "loss_mask", "positions", "segment_ids")
"""Names of the arrays that every batch has."""


class BatchShape(NamedTuple):
    """Shape ``(A, B, S)`` of a batch's arrays."""

    accumulation: int
    rows: int
    positions: int

    @property
    def all_rows(self) -> int:
        """Rows of the whole update."""
        return self.accumulation * self.rows


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows of one step. All arrays but ``loss_positions`` are ``[A, B, S]``. Engines do not shift them."""

    tokens: np.ndarray
    """int32: input token ids; padding is the tokenizer's pad id."""
    targets: np.ndarray
    """int32: token to predict at each position, the next one of the same segment; 0 where ``loss_mask`` is 0."""
    loss_mask: np.ndarray
    """float32: 1.0 where the prediction is supervised, not at a prompt, padding or a segment's last position."""
    positions: np.ndarray
    """int32: position within the segment, from 0 (rotary embeddings use it)."""
    segment_ids: np.ndarray
    """int32: 1, 2, … for the rows packed into a sequence, 0 for padding; attention stays within one id."""
    signals: Mapping[str, np.ndarray] = field(default_factory=dict)
    """float32 by name: further inputs of the objective for each token."""
    divided_by: float = 0.0
    """Divisor of the sum over the step; 0: the number of supervised tokens."""
    loss_positions: np.ndarray | None = None
    """int32 ``[A, B, M]``: all supervised positions of each row, and others up to M; None: any may be supervised."""

    @property
    def shape(self) -> BatchShape:
        """Shape of every array but ``loss_positions``."""
        return BatchShape(*self.tokens.shape)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays ``[A, B, S]`` by name, signals last."""
        return {name: getattr(self, name) for name in ROWS} | dict(self.signals)

    @property
    def divisor(self) -> float:
        """Divisor of the sum over the step."""
        return self.divided_by or float(self.supervised_tokens)

    def with_loss_positions(self, most: int) -> "Batch":
        """This batch with `loss_positions`, ``most`` of each row. Raises `ValueError` for a row with more of them."""
        supervised = int(np.count_nonzero(self.loss_mask, axis=-1).max(initial=0))
        if supervised > most:
            raise ValueError(f"a row with {supervised} supervised positions in a batch of at most {most}")
        if most >= self.tokens.shape[-1]:
            return replace(self, loss_positions=None)
        # Stable: supervised positions first, in order, then others.
        order = np.argsort(self.loss_mask == 0, axis=-1, kind="stable")
        return replace(self, loss_positions=order[..., :most].astype(np.int32))

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], divided_by: float = 0.0) -> "Batch":
        """The batch with these `arrays`; arrays with other names than `ROWS` are signals."""
        rows: dict[str, Any] = {name: arrays[name] for name in ROWS}
        return cls(**rows, divided_by=divided_by, signals={name: x for name, x in arrays.items() if name not in ROWS})

    @classmethod
    def blank(cls, shape: tuple[int, int, int]) -> "Batch":
        """A batch of this shape without contents, for compilers and traces."""
        empty = np.zeros(shape, np.int32)
        return cls(tokens=empty, targets=empty, loss_mask=np.zeros(shape, np.float32), positions=empty,
                   segment_ids=empty)

    @property
    def supervised_tokens(self) -> int:
        """Number of supervised positions in the whole step."""
        # A float32 sum stops counting at 2**24.
        return int(self.loss_mask.sum(dtype=np.float64))

    @property
    def real_tokens(self) -> int:
        """Number of positions that are not padding."""
        return int((self.segment_ids != 0).sum())
