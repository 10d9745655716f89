"""The order of rows, packing and the plan of an epoch, against what `docs/format.md` prints and says."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from workings.data import epoch_plan
from workings.data.epoch_plan import (
    PACKINGS,
    EpochPlan,
    best_fit,
    epoch_order,
    first_fit,
    order_keys,
    plan_bucketed,
    plan_packed,
)

Plain = list[tuple[int, list[tuple[int, ...]]]]
Fit = Callable[[list[int], int], list[list[int]]]
PAGE = Path(__file__).parents[2] / "docs" / "format.md"


def _table(width: int, *headings: str) -> list[list[str]]:
    text = PAGE.read_text(encoding="utf-8")
    for heading in headings:
        text = text.split(heading, 1)[1]
    lines = text.split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    rows = [row for row in rows if len(row) == width and not set(row[0]) <= {"-"}]
    assert rows, f"no table after {headings!r}"
    return rows


def ordered(ids: list[str], seed: int, epoch: int) -> list[str]:
    return [ids[place] for place in epoch_order(ids, seed, epoch)]


def test_keys_are_those_of_the_page() -> None:
    vectors = _table(4, "first 16 hex digits of the key |")
    assert len(vectors) == 5
    for seed, epoch, row_id, digits in vectors:
        [key] = order_keys([row_id], int(seed), int(epoch))
        assert key.hex()[:16] == digits


@pytest.mark.parametrize("packing", PACKINGS)
def test_packing_is_that_of_the_page(packing: str) -> None:
    vectors = _table(3, f"With `data.packing: {packing}`", "sequences (numbers of rows) |")
    assert len(vectors) == 3
    for capacity, lengths, sequences in vectors:
        expected = [[int(number) for number in part.split()] for part in sequences.split("/")]
        assert PACKINGS[packing]([int(length) for length in lengths.split()], int(capacity)) == expected


def test_an_epoch_holds_every_row_once_whatever_the_files_order() -> None:
    ids = [f"row-{number}" for number in range(1000)]
    first = ordered(ids, seed=1, epoch=0)
    assert sorted(first) == sorted(ids)
    assert first != ids
    assert first == ordered(ids[::-1], seed=1, epoch=0)
    assert first != ordered(ids, seed=1, epoch=1)
    assert first != ordered(ids, seed=2, epoch=0)


def test_an_epoch_ascends_by_whole_keys_also_when_they_begin_alike(monkeypatch) -> None:
    ids = [f"row-{number}" for number in range(300)]
    assert ordered(ids, 3, 7) == [row_id for _, row_id in sorted(zip(order_keys(ids, 3, 7), ids, strict=True))]
    draw = random.Random(0)
    keys = {row_id: bytes(draw.choice((0, 255)) if at in (0, 7, 8, 31) else 9 for at in range(32)) for row_id in ids}
    assert len(set(keys.values())) == 16, "the case must hold keys that differ late, and equal ones"
    monkeypatch.setattr(epoch_plan, "order_keys", lambda row_ids, seed, epoch: [keys[row_id] for row_id in row_ids])
    assert ordered(ids, 3, 7) == sorted(ids, key=lambda row_id: (keys[row_id], row_id))


def _naive_first(lengths: list[int], capacity: int) -> list[list[int]]:
    packed: list[list[int]] = []
    for row, length in enumerate(lengths):
        for sequence in packed:
            if sum(lengths[other] for other in sequence) + length <= capacity:
                sequence.append(row)
                break
        else:
            packed.append([row])
    return packed


def _naive_best(lengths: list[int], capacity: int) -> list[list[int]]:
    packed: list[list[int]] = []
    for row in sorted(range(len(lengths)), key=lambda row: (-lengths[row], row)):
        rooms = [capacity - sum(lengths[other] for other in sequence) for sequence in packed]
        enough = [place for place, room in enumerate(rooms) if room >= lengths[row]]
        if enough:
            packed[min(enough, key=lambda place: (rooms[place], place))].append(row)
        else:
            packed.append([row])
    return sorted((sorted(sequence) for sequence in packed), key=lambda sequence: sequence[0])


@pytest.mark.parametrize(("fit", "naive"), [(first_fit, _naive_first), (best_fit, _naive_best)])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 300])
def test_each_fit_is_what_it_is_called(count: int, fit: Fit, naive: Fit) -> None:
    draw = random.Random(count)
    for capacity in (1, 5, 40):
        lengths = [draw.randint(1, capacity) for _ in range(count)]
        assert fit(lengths, capacity) == naive(lengths, capacity)


@pytest.mark.parametrize("length", [0, 11])
@pytest.mark.parametrize("packing", PACKINGS)
def test_a_row_that_cannot_fit_is_refused(length: int, packing: str) -> None:
    with pytest.raises(ValueError, match=f"row 1 has {length} tokens"):
        PACKINGS[packing]([10, length], 10)


# --- the plan of an epoch, against a plain one that is made one sequence after the other ----------------------------

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
    rows = list(range(count))
    draw.shuffle(rows)
    return np.array(rows), np.array([draw.randint(1, longest) for _ in range(count)])


@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("buckets", [(40,), (10, 40), (5, 9, 10, 39, 40)], ids=str)
@pytest.mark.parametrize("count", [1, 7, 24, 500])
def test_bucketed(count: int, buckets: tuple[int, ...], size: int) -> None:
    rows, lengths = drawn(count, count * size, 40)
    fitting = [min(bucket for bucket in buckets if lengths[row] <= bucket) for row in rows]
    expected = plain([(bucket, (int(row),)) for bucket, row in zip(fitting, rows, strict=True)], size)
    plan = plan_bucketed(rows, lengths, buckets, size)
    assert as_plain(plan) == expected
    assert plan.positions == sum(length * len(sequences) for length, sequences in expected)
    with pytest.raises(IndexError):
        plan[len(plan)]


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("size", [1, 3, 8])
@pytest.mark.parametrize("count", [1, 7, 24, 500])
def test_packed(count: int, size: int, packing: str) -> None:
    rows, lengths = drawn(count, count * size, 40)
    packed = PACKINGS[packing]([int(lengths[row]) for row in rows], 64)
    expected = plain([(64, tuple(int(rows[at]) for at in sequence)) for sequence in packed], size)
    plan = plan_packed(rows, lengths, packing, 64, size)
    assert as_plain(plan) == expected
    assert plan.positions == 64 * size * len(expected)
