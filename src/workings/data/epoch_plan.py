"""The plan of an epoch: the rows of each sequence of each batch, and how long each batch is.

Specified in `docs/format.md`. Plans are arrays, because an epoch of a million rows has hundreds of thousands of
batches, and a run may take a few of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workings.data.lazy_sequence import LazySequence
from workings.data.order import PACKINGS


@dataclass(frozen=True)
class Planned:
    """One batch of an epoch's plan: its length in positions, and the row numbers in each sequence."""

    length: int
    sequences: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class EpochPlan(LazySequence[Planned]):
    """The batches of an epoch, made on demand."""

    rows: np.ndarray
    """int64 ``[rows]``: row numbers, sequence after sequence."""
    borders: np.ndarray
    """int64 ``[sequences + 1]``: where in ``rows`` each sequence starts, and where the last one ends."""
    members: np.ndarray
    """int64 ``[batches, A x B]``: numbers of sequences; -1 for an empty one."""
    lengths: np.ndarray
    """int64 ``[batches]``: positions of each sequence of a batch."""

    @property
    def positions(self) -> int:
        """Positions of all sequences of all batches, padding included."""
        # All sequences of one batch have its length.
        return int(self.lengths.sum()) * self.members.shape[1]

    def with_rows(self, each: int) -> "EpochPlan":
        """The plan of single rows, where this one's rows are groups of ``each`` rows that follow one another.

        A group's rows are neighbours, each in a separate sequence.
        """
        offsets = np.arange(each)
        # An empty place becomes a group of empty sequences.
        members = np.where(self.members[..., None] < 0, -1, self.members[..., None] * each + offsets)
        rows = (self.rows[:, None] * each + offsets).reshape(-1)
        return EpochPlan(rows, np.arange(len(rows) + 1), members.reshape(len(members), -1), self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def _make(self, number: int) -> Planned:
        members = self.members[number]  # an empty one, -1, starts at the last border, ends at the first: it has no rows
        spans = zip(self.borders[members].tolist(), self.borders[members + 1].tolist(), strict=True)
        return Planned(int(self.lengths[number]), tuple(tuple(self.rows[start:end].tolist()) for start, end in spans))


def plan_packed(order: np.ndarray, lengths: np.ndarray, packing: str, capacity: int, size: int) -> EpochPlan:
    """An epoch whose rows are packed.

    Args:
        order: int64 ``[rows]``, the epoch's order.
        lengths: int64 ``[rows]``, tokens of each row, by its number.
        packing: how, by its name in `workings.data.order.PACKINGS`.
        capacity: positions of a sequence.
        size: sequences in a batch.
    """
    packed = PACKINGS[packing](lengths[order].tolist(), capacity)
    borders = np.zeros(len(packed) + 1, np.int64)
    np.cumsum([len(sequence) for sequence in packed], out=borders[1:])
    # Packing numbers rows by their place in the epoch's order; here they get their numbers in the row set back.
    rows = order[np.fromiter((at for sequence in packed for at in sequence), np.int64, len(order))]
    return _filled(rows, borders, np.full(len(packed), capacity, np.int64), size)


def plan_bucketed(order: np.ndarray, lengths: np.ndarray, buckets: Sequence[int], size: int) -> EpochPlan:
    """An epoch in which each row is a sequence, as long as the smallest of the ascending buckets that holds it.

    Other arguments: see `plan_packed`.
    """
    return _filled(order, np.arange(len(order) + 1), bucket_of(lengths[order], buckets), size)


def bucket_of(lengths: np.ndarray, buckets: Sequence[int]) -> np.ndarray:
    """int64, one per entry of ``lengths``: the shortest bucket for this number of tokens.

    Buckets ascend, and the last one holds every row.
    """
    # `searchsorted` looks from the left, so a row as long as a bucket goes into that one.
    return np.array(buckets, np.int64)[np.searchsorted(buckets, lengths)]


def _filled(rows: np.ndarray, borders: np.ndarray, long: np.ndarray, size: int) -> EpochPlan:
    """Group sequences of one length into batches, in order; leftovers share the last batches.

    A batch comes where its bucket had collected enough. Leftovers follow, from the longest bucket to the shortest and
    those of a bucket in order, each batch as long as its first sequence, the last one filled up with empty sequences.

    Args:
        rows: see `EpochPlan`.
        borders: see `EpochPlan`.
        long: int64 ``[sequences]``, positions of each sequence.
        size: sequences in a batch.
    """
    full_batches, leftovers = [], []
    for length in np.unique(long):
        # Sequences are numbered in the epoch's order, and `flatnonzero` keeps it.
        same_length = np.flatnonzero(long == length)
        # Whole batches only; the rest waits for those of other lengths.
        end = len(same_length) - len(same_length) % size
        full_batches.append(same_length[:end].reshape(-1, size))
        leftovers.append(same_length[end:])
    full = np.concatenate(full_batches)
    # The last member completed a batch, so this is the order of completion.
    full = full[np.argsort(full[:, -1])]
    # Longest first, so that the first sequence of each leftover batch is its longest and decides its length.
    leftover = np.concatenate(leftovers[::-1])
    # -1 is not a sequence; `EpochPlan` makes an empty one of it.
    last = np.pad(leftover, (0, -len(leftover) % size), constant_values=-1).reshape(-1, size)
    members = np.concatenate([full, last])
    # The first sequence of a batch is never an empty one, and decides its length.
    return EpochPlan(rows, borders, members, long[members[:, 0]])
