"""The plan of an epoch: the rows of each sequence of each batch, and how long each batch is.

Specified in `docs/format.md`. Plans are arrays, because an epoch of a million rows has hundreds of thousands of
batches, and a run may take a few of them.
"""

import hashlib
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from workings.config.data import DataConfig


def order_keys(row_ids: Iterable[str], seed: int, epoch: int) -> list[bytes]:
    """SHA-256 of `seed/epoch/row id` (decimal numbers, UTF-8) for each row, 32 bytes."""
    prefix = hashlib.sha256(f"{seed}/{epoch}/".encode())
    keys = []
    for row_id in row_ids:
        key = prefix.copy()  # faster than hashing the whole text again
        key.update(row_id.encode())
        keys.append(key.digest())
    return keys


def epoch_order(row_ids: Sequence[str], seed: int, epoch: int) -> np.ndarray:
    """int64 ``[rows]``: places in ``row_ids`` in the order of one epoch.

    Rows ascend by `order_keys`, bytes compared as unsigned. The order in which ids are given does not matter.
    """
    keys = order_keys(row_ids, seed, epoch)
    # Read as big-endian, numbers compare as their bytes do; sorting them is far faster than sorting Python's bytes.
    heads = np.frombuffer(b"".join(keys), ">u8").reshape(-1, 4)[:, 0].astype(np.uint64)  # of 32 bytes the first 8
    order = np.argsort(heads)
    ascending = heads[order]
    if (ascending[1:] == ascending[:-1]).any():  # two keys begin alike, once in 30 million epochs of a million rows
        return np.array(sorted(range(len(keys)), key=lambda row: (keys[row], row_ids[row])), np.int64)
    return order


def first_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Each row goes into the first sequence that still has room, else opens a new one.

    ``lengths`` are those of the rows in the epoch's order, none above ``capacity``. Returns sequences of row numbers,
    in the order in which the sequences were opened.
    """
    _refuse_unfit(lengths, capacity)
    packed: list[list[int]] = []
    # What each sequence has left; in the worst case every row opens one.
    room = np.full(len(lengths), capacity)
    for row, length in enumerate(lengths):
        # The next new one has all its room, so one is always found.
        sequence = int(np.argmax(room[:len(packed) + 1] >= length))
        if sequence == len(packed):
            packed.append([])
        packed[sequence].append(row)
        room[sequence] -= length
    return packed


def best_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Longest row first, each goes into the fullest sequence that still has room, else opens a new one.

    Arguments as of `first_fit`. Returns sequences of ascending row numbers, ascending by their first. Source: Best Fit
    Decreasing (D. S. Johnson, "Near-optimal bin packing algorithms", 1973).
    """
    _refuse_unfit(lengths, capacity)
    # Tokens that a sequence has room for, and its number; ascending. Full sequences are left out.
    rooms: list[tuple[int, int]] = []
    packed: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        # The least room that is enough; among equal ones the sequence that was opened first.
        index = bisect_left(rooms, (lengths[row], 0))
        if index == len(rooms):
            rooms.append((capacity, len(packed)))
            packed.append([])
        room, sequence = rooms.pop(index)
        packed[sequence].append(row)
        if room > lengths[row]:
            insort(rooms, (room - lengths[row], sequence))
    return sorted(sorted(rows) for rows in packed)


def _refuse_unfit(lengths: Sequence[int], capacity: int) -> None:
    for row, length in enumerate(lengths):
        if not 0 < length <= capacity:
            raise ValueError(f"row {row} has {length} tokens, and a sequence holds {capacity}")


PACKINGS: dict[str, Callable[[Sequence[int], int], list[list[int]]]] = {"first_fit": first_fit, "best_fit": best_fit}
"""Packing functions by their value of `data.packing`."""


@dataclass(frozen=True)
class Planned:
    """One batch of an epoch's plan: its length in positions, and the row numbers in each sequence."""

    length: int
    sequences: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class EpochPlan:
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
        return int(self.lengths.sum()) * self.members.shape[1]

    def with_rows(self, each: int) -> "EpochPlan":
        """The plan of single rows, each in a sequence, where this one's rows are groups of ``each`` neighbours."""
        offsets = np.arange(each)
        # An empty place becomes a group of empty sequences.
        members = np.where(self.members[..., None] < 0, -1, self.members[..., None] * each + offsets)
        rows = (self.rows[:, None] * each + offsets).reshape(-1)
        return EpochPlan(rows, np.arange(len(rows) + 1), members.reshape(len(members), -1), self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, number: int) -> Planned:
        members = self.members[number]  # an empty one, -1, starts at the last border, ends at the first: it has no rows
        spans = zip(self.borders[members].tolist(), self.borders[members + 1].tolist(), strict=True)
        return Planned(int(self.lengths[number]), tuple(tuple(self.rows[start:end].tolist()) for start, end in spans))


def plan_packed(order: np.ndarray, lengths: np.ndarray, packing: str, capacity: int, size: int) -> EpochPlan:
    """An epoch whose rows are packed into sequences of ``capacity`` positions, in batches of ``size`` sequences.

    ``order`` is that of the epoch and ``lengths`` the tokens of each row by its number (both int64 ``[rows]``);
    ``packing`` is a name in `PACKINGS`.
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
    return np.array(buckets, np.int64)[np.searchsorted(buckets, lengths)]


def _filled(rows: np.ndarray, borders: np.ndarray, long: np.ndarray, size: int) -> EpochPlan:
    """Group sequences, ``long`` positions each (int64 ``[sequences]``), into batches of ``size``; leftovers come last.

    A batch comes where its bucket had collected enough. Leftovers follow, from the longest bucket to the shortest and
    those of a bucket in order, each batch as long as its first sequence, the last one filled up with empty sequences.
    """
    full_batches, leftovers = [], []
    for length in np.unique(long):
        same_length = np.flatnonzero(long == length)
        end = len(same_length) - len(same_length) % size
        full_batches.append(same_length[:end].reshape(-1, size))
        leftovers.append(same_length[end:])
    full = np.concatenate(full_batches)
    # The last member completed a batch, so this is the order of completion.
    full = full[np.argsort(full[:, -1])]
    leftover = np.concatenate(leftovers[::-1])
    last = np.pad(leftover, (0, -len(leftover) % size), constant_values=-1).reshape(-1, size)
    members = np.concatenate([full, last])
    return EpochPlan(rows, borders, members, long[members[:, 0]])


MOST = 8
"""Most chosen lengths: an engine compiles its step for each."""
GOAL = 0.1
"""Share of padding at which no further length is added."""
MULTIPLE = 8
"""Chosen lengths are multiples of it, which matrix units prefer; of a larger power of two for very long rows."""
CANDIDATES = 512
"""The most lengths to choose from."""


def bucket_lengths(data_config: DataConfig, lengths: np.ndarray, longest: int, size: int) -> tuple[int, ...]:
    """The lengths that batches of these rows may have, ascending; every row fits in the last one.

    ``lengths`` are the tokens of each row (int64 ``[rows]``), ``longest`` is `data.max_length`, and ``size`` the rows
    of a batch, all micro batches together.
    """
    if data_config.packing != "none":
        # Packed sequences are all as long as the longest row allowed, so a run compiles one shape only.
        return (longest,)
    if data_config.chooses_buckets:
        return _chosen(lengths, longest, size)
    return _ending_with(longest, data_config.named_buckets)


def bucket_lengths_before_rows(data_config: DataConfig) -> tuple[int, ...]:
    """The lengths that batches of rows which do not exist yet may have, ascending: of completions to be sampled.

    Where the recipe asks for chosen ones these are quarters of the longest row.
    """
    longest = data_config.max_length
    if data_config.chooses_buckets:
        quarters = {_round_up(quarter * longest // 4, MULTIPLE) for quarter in (1, 2, 3)}
        return _ending_with(longest, sorted(length for length in quarters if 0 < length < longest))
    return _ending_with(longest, data_config.named_buckets)


def _ending_with(longest: int, buckets: Sequence[int]) -> tuple[int, ...]:
    # The last bucket holds every row that was kept, because longer ones are dropped or refused when rows are made.
    return tuple(buckets) if buckets and buckets[-1] == longest else (*buckets, longest)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _chosen(lengths: np.ndarray, longest: int, size: int) -> tuple[int, ...]:
    """The fewest lengths that leave at most `GOAL` padding in an epoch; if `MOST` do not, those that leave least."""
    multiple = MULTIPLE
    while longest > multiple * CANDIDATES:
        multiple *= 2
    rounded = np.minimum(-(-lengths // multiple) * multiple, longest)
    # A batch is as long as its longest row, and rows of similar length share one: the lengths of all batches, if each
    # could have its own.
    of_batches = np.sort(rounded)[::-1][::size]
    best: tuple[int, ...] = (int(rounded.max()),)
    least: float = np.inf
    for buckets in _cheapest(*np.unique(of_batches, return_counts=True)):
        # As they will be planned: rows of a length that fill no batch go into one of a longer length.
        positions = plan_bucketed(np.arange(len(lengths)), lengths, buckets, size).positions
        if positions < least:
            best, least = buckets, positions
        if 1 - int(lengths.sum()) / positions <= GOAL:
            break
    return best


def _cheapest(values: np.ndarray, counts: np.ndarray) -> Iterator[tuple[int, ...]]:
    """For 1, 2, 3 … buckets the ones that leave fewest positions, each batch in the smallest that holds it.

    ``values`` are the ascending lengths of batches, and ``counts`` the batches of each (int64 ``[lengths]``).
    """
    before = np.concatenate([[0], np.cumsum(counts)])
    # cost[i, j]: positions, by rows of a batch, where the lengths from number i to j - 1 take bucket values[j - 1].
    cost = np.full((len(before), len(before)), np.inf)
    for end in range(1, len(before)):
        cost[:end, end] = (before[end] - before[:end]) * values[end - 1]
    least, borders = cost[0], list[np.ndarray]()
    for number in range(1, min(MOST, len(values)) + 1):
        if number > 1:
            # least[j]: fewest positions of the first j lengths in `number` buckets.
            totals = least[:, None] + cost
            borders.append(totals.argmin(0))
            least = totals.min(0)
        ends = [len(values)]
        for border in reversed(borders):
            ends.append(int(border[ends[-1]]))
        yield tuple(int(values[end - 1]) for end in reversed(ends))
