"""The order of rows, packing, the plan of an epoch and lengths of batches, against what `docs/format.md` prints."""

import hashlib
import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from tests.data.making import batches, config, row_set
from workings.data import epoch_plan
from workings.data.batches import Batches, Position, fixed_batches
from workings.data.epoch_plan import (
    MAX_BUCKETS,
    PACKINGS,
    PADDING_GOAL,
    EpochPlan,
    bucket_lengths,
    bucket_lengths_before_rows,
    epoch_order,
    order_keys,
    plan_bucketed,
    plan_packed,
)

Plain = list[tuple[int, list[tuple[int, ...]]]]
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
@pytest.mark.parametrize("how", [(40,), (10, 40), (5, 9, 10, 39, 40), *PACKINGS], ids=str)
@pytest.mark.parametrize("count", [1, 7, 24, 500])
def test_an_epoch_is_planned_one_sequence_after_the_other(count: int, how: tuple[int, ...] | str, size: int) -> None:
    rows, lengths = drawn(count, count * size, 40)
    if isinstance(how, str):
        packed = PACKINGS[how]([int(lengths[row]) for row in rows], 64)
        sequences = [(64, tuple(int(rows[at]) for at in sequence)) for sequence in packed]
        plan = plan_packed(rows, lengths, how, 64, size)
    else:
        sequences = [(min(bucket for bucket in how if lengths[row] <= bucket), (int(row),)) for row in rows]
        plan = plan_bucketed(rows, lengths, how, size)
    expected = plain(sequences, size)
    assert as_plain(plan) == expected
    assert plan.positions == sum(length * len(sequences) for length, sequences in expected)
    with pytest.raises(IndexError):
        plan[len(plan)]


AUTO = config(max_length=512)


def word_problems(count: int) -> np.ndarray:
    """Lengths with the long tail of solved word problems; with one length of 512 over half would be padding."""
    drawn = np.random.default_rng(5).lognormal(np.log(210), 0.33, count)
    return drawn.astype(np.int64).clip(90, 512)


def padding(lengths: np.ndarray, buckets: tuple[int, ...], size: int) -> float:
    positions = plan_bucketed(np.arange(len(lengths)), lengths, buckets, size).positions
    return 1 - float(lengths.sum()) / positions


@pytest.mark.parametrize("size", [4, 8, 16])
def test_few_lengths_leave_a_tenth_of_padding_at_most(size: int) -> None:
    lengths = word_problems(2000)
    found = bucket_lengths(AUTO, lengths, 512, size)
    assert padding(lengths, (512,), size) > 0.5
    assert padding(lengths, found, size) <= PADDING_GOAL
    assert len(found) <= MAX_BUCKETS
    assert all(length % 8 == 0 for length in found)
    # No length more than is needed.
    assert all(padding(lengths, (*fewer, found[-1]), size) > PADDING_GOAL - 0.005
               for fewer in combinations(found[:-1], len(found) - 2))


def test_an_update_of_all_rows_has_one_length() -> None:
    assert bucket_lengths(AUTO, np.array([9, 20, 31]), 512, 4) == (32,)
    assert bucket_lengths(AUTO, np.array([9, 20, 509]), 510, 4) == (510,)  # no longer than the longest row allowed


def test_what_the_recipe_names_stays_as_it_was() -> None:
    """Digests of all batches, computed before lengths could be chosen and with another way to look for room."""
    for keys, digest in (
            ({"buckets": (6, 9)}, "f12af8a13496661b41682e4dff012dd307a1c757550ae297b81e07733a9cf914"),
            ({"buckets": ()}, "fe38979456326d5b139026b3a665521ce0e8a6ebc60277bb7c15039ca3e0cf07"),
            ({"packing": "first_fit"}, "881c220a88cec7d796213aa0f7e85f8446a584a92648e4d2ceabd9ac4a67e992"),
            ({"packing": "best_fit"}, "9cd22dc56950cc1bf1541192d595d4b48274a8209accef37666cd96cd9cd0b7a")):
        source = batches([3 + 7 * number % 13 for number in range(53)], b=3, a=2, **keys)
        each = [Batches.digest(source.at(Position(epoch, number))[0])
                for epoch in range(2) for number in range(source.batches_in_epoch(epoch))]
        assert hashlib.sha256(" ".join(each).encode()).hexdigest() == digest
    lengths = np.array([5, 9])
    assert bucket_lengths(config(max_length=16, buckets=()), lengths, 16, 2) == (16,)
    assert bucket_lengths(config(max_length=16, buckets=(8,)), lengths, 16, 2) == (8, 16)
    assert bucket_lengths(config(max_length=16, packing="best_fit"), lengths, 16, 2) == (16,)


def test_an_evaluation_batch_has_rows_of_similar_length() -> None:
    lengths = [200, 9, 100, 10, 104, 192]
    found = fixed_batches(row_set(lengths, 512), 2, AUTO)
    assert [batch.tokens.shape for batch in found] == [(1, 2, 200), (1, 2, 104), (1, 2, 16)]
    assert sum(batch.real_tokens for batch in found) == sum(lengths)


def test_completions_are_padded_to_quarters() -> None:
    assert bucket_lengths_before_rows(config(max_length=512)) == (128, 256, 384, 512)
    assert bucket_lengths_before_rows(config(max_length=60)) == (16, 32, 48, 60)
    assert bucket_lengths_before_rows(config(max_length=8)) == (8,)
    assert bucket_lengths_before_rows(config(max_length=60, buckets=())) == (60,)
    assert bucket_lengths_before_rows(config(max_length=60, buckets=(20,))) == (20, 60)
