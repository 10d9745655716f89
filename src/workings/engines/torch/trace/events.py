"""Events of a trace: allocated and freed storages in order, and the peaks that follow from them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

PAGE = 4096
"""Bytes to which a CPU's resident memory is rounded."""


@dataclass
class Event:
    """A storage appears (``size`` > 0), disappears (``size`` < 0), or is found to be something else (0)."""

    key: int
    """Number of the storage, never used twice."""
    size: int
    """Bytes, as the tensor library asks for them."""
    category: str = ""
    operator: str = ""


@dataclass
class Log:
    """Events in the order of the program."""

    events: list[Event] = field(default_factory=list)
    hidden: Counter[str] = field(default_factory=Counter)
    """Operators whose inner workspace was declared, and how often they ran."""


@dataclass(frozen=True)
class Peak:
    """The moment with most live bytes."""

    size: int
    """Bytes, each storage rounded up."""
    categories: dict[str, int]
    """Bytes by category at that moment, the largest first."""
    operator: str
    """Operator that allocated last."""
    position: int
    """Index of its event."""


def rounded(size: int, step: int) -> int:
    """Bytes rounded up to a multiple of ``step``."""
    return -(-size // step) * step


def live_peak(events: Iterable[Event], step: int) -> Peak:
    """The moment with most live bytes, where every storage is rounded up to a multiple of ``step``."""
    alive: dict[int, tuple[int, str]] = {}
    now: Counter[str] = Counter()
    total, best = 0, Peak(0, {}, "", 0)
    for position, event in enumerate(events):
        if event.size > 0:
            size = rounded(event.size, step)
            alive[event.key] = (size, event.category)
            now[event.category] += size
            total += size
        elif event.key in alive:
            size, category = alive.pop(event.key)
            now[category] -= size
            total -= size
            # The same bytes come back under another name, so the total does not move.
            if event.size == 0:
                alive[event.key] = (size, event.category)
                now[event.category] += size
                total += size
        if total > best.size:
            best = Peak(total, dict(now), event.operator, position)
    ordered = sorted(((size, name) for name, size in best.categories.items() if size), reverse=True)
    return Peak(best.size, {name: size for size, name in ordered}, best.operator, best.position)
