"""First-fit packing: each row goes into the first sequence that still has room, else opens a new one.

Specified in `docs/data-order.md`. The result depends on lengths, capacity and order alone.
"""

from collections.abc import Sequence


def first_fit(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Sequences of row numbers, in the order in which the sequences were opened.

    Args:
        lengths: length of each row, in the epoch's order; none above ``capacity``.
        capacity: tokens in one sequence.

    A tree of maxima finds the first sequence with room in O(log n), so a million rows take seconds, not hours.
    """
    size = 1
    while size < len(lengths):
        size *= 2
    # room[size + i] is what sequence i has left; a parent holds the larger of its two children.
    room = [capacity] * (2 * size)
    packed: list[list[int]] = []
    for row, length in enumerate(lengths):
        if not 0 < length <= capacity:
            raise ValueError(f"row {row} has {length} tokens, and a sequence holds {capacity}")
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
