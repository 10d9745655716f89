"""Packing: which rows share a sequence. Specified in `docs/data-order.md`.

The result depends on lengths, capacity and order alone.
"""

from collections.abc import Callable, Sequence
from heapq import heappop, heappush


def first_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Each row goes into the first sequence that still has room, else opens a new one.

    Args:
        lengths: length of each row, in the epoch's order; none above ``capacity``.
        capacity: tokens in one sequence.

    Returns:
        Sequences of row numbers, in the order in which the sequences were opened.

    A tree of maxima finds the first sequence with room in O(log n), so a million rows take seconds, not hours.
    """
    size = 1
    while size < len(lengths):
        size *= 2
    # room[size + i] is what sequence i has left; a parent holds the larger of its two children.
    room = [capacity] * (2 * size)
    packed: list[list[int]] = []
    _refuse_unfit(lengths, capacity)
    for row, length in enumerate(lengths):
        node = 1
        while node < size:
            node = 2 * node if room[2 * node] >= length else 2 * node + 1
        if node - size == len(packed):
            packed.append([])
        packed[node - size].append(row)
        room[node] -= length
        while node > 1:
            node //= 2
            room[node] = max(room[2 * node], room[2 * node + 1])
    return packed


def best_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Longest row first, each goes into the fullest sequence that still has room, else opens a new one.

    Args:
        lengths: see `first_fit`.
        capacity: see `first_fit`.

    Returns:
        Sequences of ascending row numbers, ascending by their first.

    As Best Fit Decreasing (D. S. Johnson, "Near-optimal bin packing algorithms", 1973) does. Sequences lie in a heap
    for every room that they can have left, and a number's bits say which heaps hold any.
    """
    _refuse_unfit(lengths, capacity)
    having: list[list[int]] = [[] for _ in range(capacity)]
    rooms = 0
    packed: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        length = lengths[row]
        if enough := rooms >> length:
            room = length + (enough & -enough).bit_length() - 1
            place = heappop(having[room])
            if not having[room]:
                rooms ^= 1 << room
        else:
            room, place = capacity, len(packed)
            packed.append([])
        packed[place].append(row)
        if left := room - length:
            heappush(having[left], place)
            rooms |= 1 << left
    return sorted(sorted(rows) for rows in packed)


def _refuse_unfit(lengths: Sequence[int], capacity: int) -> None:
    for row, length in enumerate(lengths):
        if not 0 < length <= capacity:
            raise ValueError(f"row {row} has {length} tokens, and a sequence holds {capacity}")


PACKINGS: dict[str, Callable[[Sequence[int], int], list[list[int]]]] = {"first_fit": first_fit, "best_fit": best_fit}
"""What `data.packing` names."""
