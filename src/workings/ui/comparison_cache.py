"""Cache of comparisons of two runs, valid until one of their files changes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from workings.evaluation.comparison.compare import Comparison, compare_records
from workings.evaluation.first_wrong_step import FirstWrongSteps, count_first_wrong_steps
from workings.evaluation.unit import EvaluationRecord, find_pair
from workings.record.layout import EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS, SUMS
from workings.ui.answers import Answer, Change, pair_changes
from workings.ui.file_cache import FileCache

MAX_PAIRS_KEPT, MAX_BYTES_KEPT = 16, 64 << 20
"""Pairs that are kept in memory, as long as all their files together have not more bytes; the newest in any case."""
Changes = dict[Change, list[tuple[Answer, Answer]]]
Stamp = tuple[Any, ...]
"""For each file its path and, if it exists, time, bytes and inode."""
T = TypeVar("T")


@dataclass
class ComparisonCache:
    """Comparisons and the items behind them. Several threads may ask; two may work out the same at once."""

    read: Callable[[Path], list[Answer]]
    """All completions of an evaluation."""
    _kept: dict[Stamp, Comparison] = field(default_factory=dict)
    _changes: dict[Stamp, Changes] = field(default_factory=dict)
    _breaks: FileCache = field(default_factory=lambda: FileCache(MAX_PAIRS_KEPT))
    _lock: Lock = field(default_factory=Lock)

    def get(self, a: Path, b: Path, within: float | None = None) -> Comparison:
        """The result of `workings.evaluation.comparison.compare.compare`; ``within`` is its margin, as a share."""
        pair = find_pair(a, b)
        # The margin as a file of no bytes: it belongs to what is remembered.
        stamp = (*_stamp(pair), (f"within {within}",))
        return self._remembered(self._kept, stamp, lambda: compare_records(*pair, equivalent_within=within))

    def changes(self, a: Path, b: Path) -> Changes:
        """Items of both by what changed from A to B."""
        pair = find_pair(a, b)
        return self._remembered(self._changes, _stamp(pair),
                                lambda: pair_changes(self.read(pair[0].path), self.read(pair[1].path)))

    def breaks(self, evaluation: EvaluationRecord) -> FirstWrongSteps:
        """An evaluation's items by their first wrong equation."""
        return self._breaks.get(evaluation.path / PREDICTIONS, lambda: count_first_wrong_steps(evaluation))

    def _remembered(self, cache: dict[Stamp, T], stamp: Stamp, make: Callable[[], T]) -> T:
        with self._lock:
            if stamp in cache:
                cache[stamp] = cache.pop(stamp)  # the newest is last
                return cache[stamp]
        # Outside the lock: a comparison of many items takes a while, and other pages should not wait for it.
        value = make()
        with self._lock:
            cache[stamp] = value
            # A dict keeps the order of insertion, so the first ones are those that no one asked for the longest.
            for old in list(cache)[:-1]:
                if len(cache) <= MAX_PAIRS_KEPT and sum(map(_file_bytes, cache)) <= MAX_BYTES_KEPT:
                    break
                del cache[old]
        return value


def _file_bytes(stamp: Stamp) -> int:
    return sum(file[2] for file in stamp if len(file) > 1)


def _stamp(pair: tuple[EvaluationRecord, EvaluationRecord]) -> Stamp:
    """Changes when any file changes that a comparison is based on."""
    # Contents are not read: time, size and file number change whenever one of our writers replaces a file.
    names = (EVALUATION_CONFIG, EVALUATION_SUMMARY, PREDICTIONS, SUMS)
    files = [record.path / name for record in pair for name in names]
    states = [(path.stat() if path.is_file() else None) for path in files]
    return tuple((str(path), *((state.st_mtime_ns, state.st_size, state.st_ino) if state else ()))
                 for path, state in zip(files, states, strict=True))
