"""The plan of an epoch: which rows are in each sequence, which sequences are in each batch, how long each batch is.

    rows in the epoch's order   4   0   2   3   1
    sequences, packed           [4 0]  [2]  [3 1]      without packing each row is a sequence
    batches of two sequences    [[4 0] [2]]  [[3 1] []]

`docs/format.md` specifies all of it. Rows are named by their numbers: their places in a list of row ids or lengths.
Plans are arrays, because an epoch of a million rows has hundreds of thousands of batches.
"""

import hashlib
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from workings.config.data import DataConfig

Number = TypeVar("Number", int, np.ndarray)

MAX_BUCKETS = 8
"""The most buckets (lengths of batches) that are chosen: an engine compiles its step for each of them."""
PADDING_GOAL = 0.1
"""Share of padding at which no further bucket is added."""
LENGTH_MULTIPLE = 8
"""Chosen lengths are multiples of it, because matrix units prefer them."""
MAX_CANDIDATES = 512
"""The most lengths to choose from; for longer rows `LENGTH_MULTIPLE` is doubled until there are no more."""

def order_keys(row_ids: Iterable[str], seed: int, epoch: int) -> list[bytes]:
    """For each row the SHA-256 (32 bytes) of the text `seed/epoch/row id`, in UTF-8 and with decimal numbers."""
    prefix = f"{seed}/{epoch}/"
    return [hashlib.sha256((prefix + row_id).encode()).digest() for row_id in row_ids]


def epoch_order(row_ids: Sequence[str], seed: int, epoch: int) -> np.ndarray:
    """int64 ``[rows]``: row numbers in the order of one epoch.

    Rows ascend by their `order_keys`, compared byte by byte. The order of ``row_ids`` does not matter.
    """
    keys = order_keys(row_ids, seed, epoch)
    # Big-endian numbers ascend as their bytes do, and NumPy sorts numbers far faster than Python sorts bytes.
    first_8_bytes = np.frombuffer(b"".join(keys), ">u8").reshape(-1, 4)[:, 0].astype(np.uint64)
    order = np.argsort(first_8_bytes)
    ascending = first_8_bytes[order]
    some_begin_alike = (ascending[1:] == ascending[:-1]).any()  # in one of 30 million epochs of a million rows
    if some_begin_alike:
        return np.array(sorted(range(len(keys)), key=lambda row: (keys[row], row_ids[row])), np.int64)
    return order


def first_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Put each row into the first sequence in which it fits, or into a new one.

    Args:
        lengths: tokens of each row, from 1 to ``capacity``, in the epoch's order.
        capacity: tokens of a sequence.

    Returns sequences of row numbers, in the order in which they were opened: `[0 1] [2] [3]` for lengths `4 3 4 5` and
    a capacity of 8.
    """
    _refuse_unfit(lengths, capacity)
    packed: list[list[int]] = []
    # Tokens that still fit into each sequence. In the worst case every row opens one.
    free = np.full(len(lengths), capacity)
    for row, length in enumerate(lengths):
        # The search includes the next new sequence, so one is always found.
        sequence = int(np.argmax(free[:len(packed) + 1] >= length))
        if sequence == len(packed):
            packed.append([])
        packed[sequence].append(row)
        free[sequence] -= length
    return packed


def best_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Put each row, the longest first, into the fullest sequence in which it fits, or into a new one.

    Arguments: see `first_fit`. Returns sequences of ascending row numbers, sorted by their first row: `[0 2] [1 3]` for
    the example there. Source: Best Fit Decreasing (D. S. Johnson, "Near-optimal bin packing algorithms", 1973).
    """
    _refuse_unfit(lengths, capacity)
    # (free tokens, sequence) of each sequence that is not full, ascending.
    unfilled: list[tuple[int, int]] = []
    packed: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        # The fewest free tokens that are enough; of equal ones the sequence that was opened first.
        index = bisect_left(unfilled, (lengths[row], 0))
        if index == len(unfilled):
            unfilled.append((capacity, len(packed)))
            packed.append([])
        free, sequence = unfilled.pop(index)
        packed[sequence].append(row)
        if free > lengths[row]:
            insort(unfilled, (free - lengths[row], sequence))
    return sorted(sorted(rows) for rows in packed)


def _refuse_unfit(lengths: Sequence[int], capacity: int) -> None:
    for row, length in enumerate(lengths):
        if not 0 < length <= capacity:
            raise ValueError(f"row {row} has {length} tokens, and a sequence holds {capacity}")


PACKINGS: dict[str, Callable[[Sequence[int], int], list[list[int]]]] = {"first_fit": first_fit, "best_fit": best_fit}
"""Packing functions by their value of `data.packing`."""


@dataclass(frozen=True)
class Planned:
    """One batch of an epoch's plan."""

    length: int
    """Positions of each sequence."""
    sequences: tuple[tuple[int, ...], ...]
    """Row numbers of each sequence; an empty sequence has none."""


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """All batches of an epoch as arrays; `plan[number]` is one of them."""

    rows: np.ndarray
    """int64 ``[rows]``: row numbers, sequence after sequence."""
    borders: np.ndarray
    """int64 ``[sequences + 1]``: the place in ``rows`` at which each sequence starts, and the end of the last one."""
    members: np.ndarray
    """int64 ``[batches, A x B]``: sequence numbers; -1 for an empty sequence."""
    lengths: np.ndarray
    """int64 ``[batches]``: positions of each sequence of a batch."""

    @property
    def positions(self) -> int:
        """Positions of all sequences of all batches, padding included."""
        return int(self.lengths.sum()) * self.members.shape[1]

    def with_rows(self, each: int) -> "EpochPlan":
        """The plan of single rows, if the rows of this plan are groups of ``each`` neighbouring rows.

        Each row becomes a sequence, and an empty sequence becomes ``each`` empty ones. Of pairs, row 3 becomes `6 7`.
        """
        offsets = np.arange(each)
        members = np.where(self.members[..., None] < 0, -1, self.members[..., None] * each + offsets)
        rows = (self.rows[:, None] * each + offsets).reshape(-1)
        return EpochPlan(rows, np.arange(len(rows) + 1), members.reshape(len(members), -1), self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> Planned:
        members = self.members[number]
        # An empty sequence, -1, starts at the last border and ends at the first one, so it has no rows.
        spans = zip(self.borders[members].tolist(), self.borders[members + 1].tolist(), strict=True)
        return Planned(int(self.lengths[number]), tuple(tuple(self.rows[start:end].tolist()) for start, end in spans))


def plan_packed(order: np.ndarray, lengths: np.ndarray, packing: str, capacity: int, size: int) -> EpochPlan:
    """Plan an epoch whose rows are packed into sequences of ``capacity`` positions, ``size`` sequences in a batch.

    ``order`` int64 ``[rows]``: row numbers in the epoch's order; ``lengths`` int64 ``[rows]``: tokens of each row, by
    its number; ``packing``: a name in `PACKINGS`.
    """
    packed = PACKINGS[packing](lengths[order].tolist(), capacity)
    borders = np.zeros(len(packed) + 1, np.int64)
    np.cumsum([len(sequence) for sequence in packed], out=borders[1:])
    # Packed sequences hold places in the epoch's order.
    rows = order[np.concatenate(packed)]
    return _in_batches(rows, borders, np.full(len(packed), capacity, np.int64), size)


def plan_bucketed(order: np.ndarray, lengths: np.ndarray, buckets: Sequence[int], size: int) -> EpochPlan:
    """Plan an epoch in which each row is a sequence, as long as the smallest bucket that holds it.

    ``buckets`` are lengths in ascending order. Other arguments: see `plan_packed`.
    """
    return _in_batches(order, np.arange(len(order) + 1), bucket_of(lengths[order], buckets), size)


def bucket_of(lengths: np.ndarray, buckets: Sequence[int]) -> np.ndarray:
    """int64, one per entry of ``lengths``: the smallest of the ascending buckets that holds this number of tokens."""
    return np.array(buckets, np.int64)[np.searchsorted(buckets, lengths)]


def _in_batches(rows: np.ndarray, borders: np.ndarray, lengths: np.ndarray, size: int) -> EpochPlan:
    """Group sequences of ``lengths`` positions (int64 ``[sequences]``) into batches of ``size`` sequences.

    A batch is complete as soon as ``size`` sequences have its length, and batches are in the order of completion. The
    remaining sequences follow, the longest first. Each of their batches is as long as its first sequence, and the last
    batch is filled up with empty sequences (-1).

        lengths 8 16 16 8 8, size 2     members [1 2] [0 3] [4 -1]
    """
    full_batches, remaining = [], []
    for length in np.unique(lengths):
        same_length = np.flatnonzero(lengths == length)
        end = len(same_length) - len(same_length) % size
        full_batches.append(same_length[:end].reshape(-1, size))
        remaining.append(same_length[end:])
    full = np.concatenate(full_batches)
    # The last member completes a batch.
    full_in_order = full[np.argsort(full[:, -1])]
    longest_first = np.concatenate(remaining[::-1])
    empty = -len(longest_first) % size
    last = np.pad(longest_first, (0, empty), constant_values=-1).reshape(-1, size)
    members = np.concatenate([full_in_order, last])
    return EpochPlan(rows, borders, members, lengths[members[:, 0]])


def bucket_lengths(data_config: DataConfig, lengths: np.ndarray, longest: int, size: int) -> tuple[int, ...]:
    """The lengths that batches of these rows may have, ascending; every row fits in the last one.

    ``lengths`` (int64 ``[rows]``) are the tokens of each row, ``longest`` is `data.max_length`, and ``size`` counts the
    rows of a batch, all micro batches together.
    """
    if data_config.packing != "none":
        # Packed sequences are all as long as the longest row allowed, so a run compiles one shape only.
        return (longest,)
    if data_config.chooses_buckets:
        return _chosen(lengths, longest, size)
    return _ending_with(longest, data_config.named_buckets)


def bucket_lengths_before_rows(data_config: DataConfig) -> tuple[int, ...]:
    """Possible lengths of batches of completions, ascending; `data.buckets: auto` gives quarters of the longest."""
    longest = data_config.max_length
    if data_config.chooses_buckets:
        quarters = {_rounded_up(quarter * longest // 4, LENGTH_MULTIPLE) for quarter in (1, 2, 3)}
        return _ending_with(longest, sorted(quarters))
    return _ending_with(longest, data_config.named_buckets)


def _ending_with(longest: int, buckets: Sequence[int]) -> tuple[int, ...]:
    # No row is longer: `workings.data.rows.kept_rows` drops or refuses it.
    return (*(length for length in buckets if length < longest), longest)


def _rounded_up(value: Number, multiple: int) -> Number:
    return -(-value // multiple) * multiple


def _chosen(lengths: np.ndarray, longest: int, size: int) -> tuple[int, ...]:
    """The fewest buckets that leave at most `PADDING_GOAL` padding in an epoch; if none do, those that leave least."""
    multiple = LENGTH_MULTIPLE
    while longest > multiple * MAX_CANDIDATES:
        multiple *= 2
    rounded = np.minimum(_rounded_up(lengths, multiple), longest)
    # The lengths that batches would have without buckets: rows of similar length share a batch, and the longest of
    # them decides its length.
    lengths_of_batches = np.sort(rounded)[::-1][::size]
    best: tuple[int, ...] = (int(rounded.max()),)
    least: float = np.inf
    for buckets in _with_least_padding(*np.unique(lengths_of_batches, return_counts=True)):
        # Planned as in an epoch: rows that fill no batch of their bucket share a longer one.
        positions = plan_bucketed(np.arange(len(lengths)), lengths, buckets, size).positions
        if positions < least:
            best, least = buckets, positions
        if 1 - int(lengths.sum()) / positions <= PADDING_GOAL:
            break
    return best


def _with_least_padding(lengths: np.ndarray, counts: np.ndarray) -> Iterator[tuple[int, ...]]:
    """For 1, 2, 3 … buckets those that leave the fewest positions, if each batch goes into the smallest that holds it.

    ``lengths`` are the ascending lengths of batches, ``counts`` the batches of each length (both int64 ``[lengths]``).
    Two batches of 8, one of 16 and five of 24 give `24`, then `8 24`, then `8 16 24`.

    Dynamic programming: the best k buckets for the first j lengths extend the best k - 1 buckets for fewer lengths.
    """
    batches_before = np.concatenate([[0], np.cumsum(counts)])
    size = len(batches_before)
    # cost[i, j]: positions of the batches with lengths i to j - 1 in one bucket, which is as long as the last of them.
    cost = np.full((size, size), np.inf)
    for end in range(1, size):
        cost[:end, end] = (batches_before[end] - batches_before[:end]) * lengths[end - 1]
    least, starts_of_last = cost[0], list[np.ndarray]()
    for number in range(1, min(MAX_BUCKETS, len(lengths)) + 1):
        if number > 1:
            totals = least[:, None] + cost
            starts_of_last.append(totals.argmin(0))
            # least[j]: fewest positions of the first j lengths in `number` buckets.
            least = totals.min(0)
        # From the last bucket to the first: a bucket ends where the next one starts.
        ends = [len(lengths)]
        for starts in reversed(starts_of_last):
            ends.append(int(starts[ends[-1]]))
        yield tuple(int(lengths[end - 1]) for end in reversed(ends))
