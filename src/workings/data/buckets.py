"""Row lengths of batches: the recipe's, or a few chosen from the data's lengths.

Specified in `docs/format.md`. A length is chosen from the rows' lengths, their number and the batch size alone, so
a verifier finds the same one from a run's row index.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from workings.config.data import DataConfig
from workings.data.epoch_plan import plan_bucketed

MOST = 8
"""Maximum number of chosen lengths: an engine compiles its step for each."""
GOAL = 0.1
"""Share of padding at which no further length is added."""
MULTIPLE = 8
"""Chosen lengths are multiples of it, which matrix units prefer; of a larger power of two for very long rows."""
CANDIDATES = 512
"""The most lengths to choose from."""


def bucket_lengths(data_config: DataConfig, lengths: np.ndarray, longest: int, size: int) -> tuple[int, ...]:
    """The lengths that batches of these rows may have, ascending; every row fits in the last one.

    Args:
        data_config: names the lengths, or asks for chosen ones.
        lengths: int64 ``[rows]``, tokens of each row.
        longest: the longest row that the data may have (`data.max_length`).
        size: rows of a batch, all micro batches together.
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

    Args:
        values: int64 ``[lengths]``, ascending lengths of batches.
        counts: int64 ``[lengths]``, batches of each.
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
