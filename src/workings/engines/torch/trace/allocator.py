"""Replay of PyTorch's caching allocator for CUDA: what it would reserve for a log of allocations.

The rules are those of c10/cuda/CUDACachingAllocator.cpp with default settings and one stream:

    storage             rounded to      from a segment of
    up to 1 MiB         512 bytes       2 MiB
    below 10 MiB        512 bytes       20 MiB
    larger              512 bytes       its own size, rounded to 2 MiB

An allocation splits the smallest free block that is large enough. Free neighbours join. If the GPU is full, segments
that are wholly free are given back first.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

PAGE = 4096
"""Bytes to which a CPU's resident memory is rounded."""


@dataclass
class Event:
    """A storage appears (``size`` > 0), disappears (``size`` < 0), or gets another category (0)."""

    key: int
    """Number of the storage, never used twice."""
    size: int
    """Bytes, before rounding."""
    category: str = ""
    operator: str = ""


@dataclass
class Log:
    """Events in the order of the program."""

    events: list[Event] = field(default_factory=list)
    hidden: Counter[str] = field(default_factory=Counter)
    """Number of runs of each operator with a declared workspace."""


@dataclass(frozen=True)
class Peak:
    """The moment with most live bytes."""

    size: int
    """Bytes, each storage rounded up."""
    categories: dict[str, int]
    """Bytes by category at that moment, the largest first."""
    operator: str
    """Operator that allocated last."""


def rounded(size: int, step: int) -> int:
    """``size`` rounded up to a multiple of ``step``: 513 and 512 give 1024."""
    return -(-size // step) * step


def live_peak(events: Iterable[Event], step: int) -> Peak:
    """The moment with most live bytes, where every storage is rounded up to a multiple of ``step``."""
    alive: dict[int, tuple[int, str]] = {}  # number of each storage -> its rounded size and its category
    by_category: Counter[str] = Counter()
    total, best = 0, Peak(0, {}, "")
    for event in events:
        if event.size > 0:
            size = rounded(event.size, step)
        else:  # it disappears here; with another category it appears again below
            size, category = alive.pop(event.key, (0, ""))
            by_category[category] -= size
            total -= size
        if event.size >= 0:
            alive[event.key] = (size, event.category)
            by_category[event.category] += size
            total += size
        if total > best.size:
            best = Peak(total, dict(by_category), event.operator)
    ordered = sorted(((size, name) for name, size in best.categories.items() if size), reverse=True)
    return Peak(best.size, {name: size for size, name in ordered}, best.operator)


MIB = 2 ** 20
# In c10: kMinBlockSize, kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc and kRoundLarge.
MIN_BLOCK, SMALL_LIMIT = 512, MIB
SMALL_SEGMENT, LARGE_SEGMENT, LARGE_LIMIT, LARGE_STEP = 2 * MIB, 20 * MIB, 10 * MIB, 2 * MIB


class OutOfMemory(Exception):
    """A request does not fit, even after empty segments were released."""


@dataclass(eq=False)
class Block:
    """A piece of a segment, for small or for large storages; neighbours in it are linked."""

    number: int
    size: int
    small: bool
    free: bool = False
    before: "Block | None" = None
    after: "Block | None" = None


def _order(block: Block) -> tuple[int, int]:
    """Order of free blocks: by size, then by number, because a trace has no addresses."""
    return block.size, block.number


@dataclass
class CachingAllocator:
    """Allocator of one device."""

    limit: int = 0
    """Bytes that the device has for it; 0: no limit."""
    reserved: int = 0
    peak_reserved: int = 0
    given_back: int = 0
    """Number of times that empty segments were released because the GPU was full."""
    _free: dict[bool, list[Block]] = field(default_factory=lambda: {True: [], False: []})
    """Free blocks in their order: the small ones at True, the large ones at False."""
    _live: dict[int, Block] = field(default_factory=dict)
    _blocks: int = 0

    def replay(self, events: Iterable[Event]) -> "CachingAllocator":
        """Run a log. Raises `OutOfMemory`."""
        for event in events:
            if event.size > 0:
                self.allocate(event.key, event.size)
            elif event.size < 0 and event.key in self._live:
                self.release(event.key)
        return self

    def allocate(self, key: int, size: int) -> None:
        """Find room for one storage."""
        size = max(MIN_BLOCK, rounded(size, MIN_BLOCK))
        small = size <= SMALL_LIMIT
        free = self._free[small]
        index = bisect_left(free, (size, 0), key=_order)
        block = free.pop(index) if index < len(free) else self._new_segment(size, small)
        rest = block.size - size
        smallest_rest = MIN_BLOCK if small else SMALL_LIMIT + 1
        if rest >= smallest_rest:
            self._split(block, size, rest)
        block.free = False
        self._live[key] = block

    def release(self, key: int) -> None:
        """Give one storage's block back to the pool and join it with free neighbours."""
        block = self._live.pop(key)
        block.free = True
        before, after = block.before, block.after
        if before is not None and before.free:
            self._free[before.small].remove(before)
            block.size += before.size
            block.before = before.before
            if block.before is not None:
                block.before.after = block
        if after is not None and after.free:
            self._free[after.small].remove(after)
            block.size += after.size
            block.after = after.after
            if block.after is not None:
                block.after.before = block
        insort(self._free[block.small], block, key=_order)

    def _new_segment(self, size: int, small: bool) -> Block:
        if small:
            segment_size = SMALL_SEGMENT
        else:
            segment_size = LARGE_SEGMENT if size < LARGE_LIMIT else rounded(size, LARGE_STEP)
        if self.limit and self.reserved + segment_size > self.limit:
            self._give_back()
            if self.reserved + segment_size > self.limit:
                raise OutOfMemory(f"{size} bytes in addition to {self.reserved} reserved of {self.limit}")
        self.reserved += segment_size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        self._blocks += 1
        return Block(self._blocks, segment_size, small)

    def _give_back(self) -> None:
        self.given_back += 1
        for small, free in self._free.items():
            # A free block without neighbours is a whole segment.
            kept = [block for block in free if block.before is not None or block.after is not None]
            self.reserved -= sum(block.size for block in free) - sum(block.size for block in kept)
            self._free[small] = kept

    def _split(self, block: Block, size: int, rest: int) -> None:
        self._blocks += 1
        remainder = Block(self._blocks, rest, block.small, True, block, block.after)
        if block.after is not None:
            block.after.before = remainder
        block.after, block.size = remainder, size
        insort(self._free[block.small], remainder, key=_order)
