"""Rows as slices of a few large arrays: a row is made when it is asked for, so that a million of them open at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workings.data.lazy_sequence import OnDemand
from workings.data.rows import Row, RowSet


@dataclass(frozen=True, kw_only=True, eq=False)
class RowArrays(OnDemand[Row]):
    """Rows one behind the other."""

    ids: list[str]
    tokens: np.ndarray
    """int32 ``[tokens of all rows]``."""
    masks: np.ndarray
    """uint8 ``[tokens of all rows]``: `Row.loss_mask`."""
    starts: np.ndarray
    """int64 ``[rows + 1]``: where each row starts, and where the last one ends."""
    prompt_digests: np.ndarray
    """S64 ``[rows]``: `Row.prompt_digest`."""

    def __len__(self) -> int:
        return len(self.ids)

    def _make(self, number: int) -> Row:
        start, end = self.starts[number], self.starts[number + 1]
        return Row(self.ids[number], self.tokens[start:end], self.masks[start:end],
                   self.prompt_digests[number].decode())


@dataclass(frozen=True)
class KeptRowSet(RowSet):
    """A row set that was kept, with what follows from its rows and takes long to work out."""

    rows: RowArrays
    kept_digest: str
    """`RowSet.digest` of the set that was kept."""
    kept_index: memoryview
    """`RowSet.index_bytes` of the set that was kept."""

    @cached_property
    def ids(self) -> Sequence[str]:
        """The rows' ids, in their order."""
        return self.rows.ids

    @cached_property
    def lengths(self) -> np.ndarray:
        """int64 ``[rows]``: tokens of each row."""
        return np.diff(self.rows.starts)

    @property
    def masks(self) -> np.ndarray:
        """uint8 ``[tokens of all rows]``: as they were kept."""
        return self.rows.masks

    @property
    def tokens(self) -> np.ndarray:
        """int32 ``[tokens of all rows]``: as they were kept."""
        return self.rows.tokens

    @property
    def index_bytes(self) -> memoryview:
        """As it was kept."""
        return self.kept_index

    @cached_property
    def digest(self) -> str:
        """As it was kept."""
        return self.kept_digest
