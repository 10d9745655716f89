"""The order of rows in an epoch, and packing: which rows share a sequence.

Both are specified, with test vectors, in `docs/format.md`. The order is SHA-256 and a sort: a verifier needs no
framework and no random generator to reproduce it, on any machine, in ten years. Packing depends on lengths, capacity
and order alone.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush

import numpy as np


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

    Rows ascend by `order_keys`, bytes compared as unsigned. The order in which ids are given does not matter. Cost: one
    hash a row and a sort of numbers; about a second for a million rows.
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

    Args:
        lengths: length of each row, in the epoch's order; none above ``capacity``.
        capacity: tokens in one sequence.

    Returns:
        Sequences of row numbers, in the order in which the sequences were opened.

    A tree of maxima finds the first sequence with room in O(log n), so a million rows take seconds, not hours.
    """
    # One leaf per row, because in the worst case each opens a sequence; a power of two makes a full tree.
    size = 1
    while size < len(lengths):
        size *= 2
    # room[size + i] is what sequence i has left; a parent holds the larger of its two children.
    room = [capacity] * (2 * size)
    packed: list[list[int]] = []
    _refuse_unfit(lengths, capacity)
    for row, length in enumerate(lengths):
        node = 1
        # Go left if there is room, which finds the first leaf that fits.
        while node < size:
            node = 2 * node if room[2 * node] >= length else 2 * node + 1
        # An unused leaf has all its room, so no leaf beyond the next new one is ever reached.
        if node - size == len(packed):
            packed.append([])
        # Leaf `size + i` is sequence i.
        packed[node - size].append(row)
        room[node] -= length
        while node > 1:
            node //= 2
            # Upwards from the changed leaf: the other nodes stay as they are.
            room[node] = max(room[2 * node], room[2 * node + 1])
    return packed


def best_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Longest row first, each goes into the fullest sequence that still has room, else opens a new one.

    Args:
        lengths: see `first_fit`.
        capacity: see `first_fit`.

    Returns:
        Sequences of ascending row numbers, ascending by their first.

    As Best Fit Decreasing (D. S. Johnson, "Near-optimal bin packing algorithms", 1973) does. Sequences are in a heap
    for every room that they can have left, and a number's bits say which heaps hold any.
    """
    _refuse_unfit(lengths, capacity)
    # having[r]: sequences with room for r more tokens; bit r of `rooms` is set where that heap is not empty.
    having: list[list[int]] = [[] for _ in range(capacity)]
    rooms = 0
    packed: list[list[int]] = []
    # Python's sort is stable, so rows of one length stay in the epoch's order.
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        length = lengths[row]
        if enough := rooms >> length:
            # The lowest bit that is set is the least room that is enough; the heap gives the sequence opened first.
            room = length + (enough & -enough).bit_length() - 1
            sequence = heappop(having[room])
            if not having[room]:
                rooms ^= 1 << room
        else:
            room, sequence = capacity, len(packed)
            packed.append([])
        packed[sequence].append(row)
        # A full sequence goes into no heap: nothing fits into it any more.
        if left := room - length:
            heappush(having[left], sequence)
            rooms |= 1 << left
    # Lists compare by their first row, which no other sequence has.
    return sorted(sorted(rows) for rows in packed)


def _refuse_unfit(lengths: Sequence[int], capacity: int) -> None:
    for row, length in enumerate(lengths):
        if not 0 < length <= capacity:
            raise ValueError(f"row {row} has {length} tokens, and a sequence holds {capacity}")


PACKINGS: dict[str, Callable[[Sequence[int], int], list[list[int]]]] = {"first_fit": first_fit, "best_fit": best_fit}
"""Packing functions by their value of `data.packing`."""
