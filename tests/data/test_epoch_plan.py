"""The plan of an epoch against a plain one, made one sequence after the other as `docs/format.md` says."""

import random

import numpy as np
import pytest

from workings.data.epoch_plan import EpochPlan, plan_bucketed, plan_packed
from workings.data.order import PACKINGS

Plain = list[tuple[int, list[tuple[int, ...]]]]


def plain(sequences: list[tuple[int, tuple[int, ...]]], size: int) -> Plain:
    waiting: dict[int, list[tuple[int, ...]]] = {}
    places = {rows: place for place, (_, rows) in enumerate(sequences)}
    found: Plain = []
    for length, rows in sequences:
        waiting.setdefault(length, []).append(rows)
        if len(waiting[length]) == size:
            found.append((length, waiting.pop(length)))
    left = sorted((-length, places[rows], rows) for length, queue in waiting.items() for rows in queue)
    for start in range(0, len(left), size):
        group = left[start:start + size]
        found.append((-group[0][0], [rows for *_, rows in group] + [()] * (size - len(group))))
    return found


def as_plain(plan: EpochPlan) -> Plain:
    return [(planned.length, list(planned.sequences)) for planned in plan]


def drawn(count: int, seed: int, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """An order, and lengths by row number."""
    draw = random.Random(seed)
    order = list(range(count))
    draw.shuffle(order)
    return np.array(order), np.array([draw.randint(1, longest) for _ in range(count)])


@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("buckets", [(40,), (10, 40), (5, 9, 10, 39, 40)], ids=str)
@pytest.mark.parametrize("count", [1, 7, 24, 500])
def test_bucketed(count: int, buckets: tuple[int, ...], size: int) -> None:
    order, lengths = drawn(count, count * size, 40)
    fitting = [min(bucket for bucket in buckets if lengths[row] <= bucket) for row in order]
    expected = plain([(bucket, (int(row),)) for bucket, row in zip(fitting, order, strict=True)], size)
    plan = plan_bucketed(order, lengths, buckets, size)
    assert as_plain(plan) == expected
    assert plan.positions == sum(length * len(sequences) for length, sequences in expected)
    assert (plan[len(plan) - 1], plan[1:]) == (plan[-1], list(plan)[1:])
    with pytest.raises(IndexError):
        plan[len(plan)]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("count", [1, 7, 24, 500])
def test_packed(count: int, size: int, packing: str) -> None:
    order, lengths = drawn(count, count * size, 40)
    packed = PACKINGS[packing]([int(lengths[row]) for row in order], 64)
    expected = plain([(64, tuple(int(order[at]) for at in sequence)) for sequence in packed], size)
    plan = plan_packed(order, lengths, packing, 64, size)
    assert as_plain(plan) == expected
    assert plan.positions == 64 * size * len(expected)
