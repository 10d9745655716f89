"""The order of rows and packing, against the test vectors that `docs/data-order.md` prints."""

import random
import re
from pathlib import Path

import pytest

from workings.data.order import epoch_order, order_key
from workings.data.packing import first_fit

PAGE = Path(__file__).parents[2] / "docs" / "data-order.md"


def _table(width: int, heading: str) -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").split(heading)[1].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    rows = [row for row in rows if len(row) == width and not set(row[0]) <= {"-"}]
    assert rows, f"no table after {heading!r}"
    return rows


def test_keys_are_those_of_the_page() -> None:
    vectors = _table(4, "first 16 hex digits of the key |")
    assert len(vectors) == 5
    for seed, epoch, row_id, digits in vectors:
        assert order_key(row_id, int(seed), int(epoch)).hex()[:16] == digits


def test_packing_is_that_of_the_page() -> None:
    vectors = _table(3, "sequences (numbers of rows) |")
    assert len(vectors) == 3
    for capacity, lengths, sequences in vectors:
        expected = [[int(number) for number in part.split()] for part in sequences.split("/")]
        assert first_fit([int(length) for length in lengths.split()], int(capacity)) == expected


def test_an_epoch_holds_every_row_once_whatever_the_files_order() -> None:
    ids = [f"row-{number}" for number in range(1000)]
    order = epoch_order(ids, seed=1, epoch=0)
    assert sorted(order) == sorted(ids)
    assert order != ids
    assert order == epoch_order(reversed(ids), seed=1, epoch=0)
    assert order != epoch_order(ids, seed=1, epoch=1)
    assert order != epoch_order(ids, seed=2, epoch=0)


def test_seed_and_epoch_cannot_be_confused() -> None:
    assert order_key("x", 1, 12) != order_key("x", 11, 2)
    assert not re.search(r"[^0-9a-f]", order_key("x", 1, 12).hex())


def _naive(lengths: list[int], capacity: int) -> list[list[int]]:
    packed: list[list[int]] = []
    for row, length in enumerate(lengths):
        for sequence in packed:
            if sum(lengths[other] for other in sequence) + length <= capacity:
                sequence.append(row)
                break
        else:
            packed.append([row])
    return packed


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8, 9, 300])
def test_first_fit_is_first_fit(count: int) -> None:
    draw = random.Random(count)
    for capacity in (1, 5, 40):
        lengths = [draw.randint(1, capacity) for _ in range(count)]
        assert first_fit(lengths, capacity) == _naive(lengths, capacity)


@pytest.mark.parametrize("length", [0, 11])
def test_a_row_that_cannot_fit_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"row 1 has {length} tokens"):
        first_fit([10, length], 10)
