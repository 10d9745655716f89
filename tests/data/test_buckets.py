"""Lengths of batches that are chosen from the rows' lengths."""

import hashlib
from itertools import combinations

import numpy as np
import pytest

from tests.data.making import batches, config, row_set
from workings.data.batches import Batches, Position, fixed_batches
from workings.data.epoch_plan import GOAL, MOST, bucket_lengths, bucket_lengths_before_rows, plan_bucketed

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
    assert padding(lengths, found, size) <= GOAL
    assert len(found) <= MOST
    assert all(length % 8 == 0 for length in found)
    # No length more than is needed.
    assert all(padding(lengths, (*fewer, found[-1]), size) > GOAL - 0.005
               for fewer in combinations(found[:-1], len(found) - 2))


@pytest.mark.parametrize("number", [2, 3])
def test_no_other_lengths_leave_less_padding(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against every choice of as many lengths, where all batches are full."""
    monkeypatch.setattr("workings.data.epoch_plan.MOST", number)
    lengths = np.repeat(np.arange(1, 13) * 8, [4, 12, 4, 8, 8, 4, 4, 4, 12, 4, 4, 4])
    found = bucket_lengths(AUTO, lengths, 512, 4)
    best = min(padding(lengths, (*shorter, 96), 4) for shorter in combinations(range(8, 96, 8), number - 1))
    assert padding(lengths, found, 4) == pytest.approx(best)
    assert len(found) == number


def test_lengths_depend_on_the_rows_and_not_on_their_order() -> None:
    lengths = word_problems(300)
    shuffled = np.random.default_rng(1).permutation(lengths)
    assert bucket_lengths(AUTO, lengths, 512, 8) == bucket_lengths(AUTO, shuffled, 512, 8)


def test_an_update_of_all_rows_has_one_length() -> None:
    assert bucket_lengths(AUTO, np.array([9, 20, 31]), 512, 4) == (32,)
    assert bucket_lengths(AUTO, np.array([9, 20, 509]), 510, 4) == (510,)  # no longer than the longest row allowed


def test_very_long_rows_have_few_lengths_to_choose_from() -> None:
    lengths = np.random.default_rng(2).integers(1, 100_000, 2000)
    found = bucket_lengths(config(max_length=100_000), lengths, 100_000, 8)
    assert all(length % 256 == 0 for length in found[:-1])
    assert found[-1] >= lengths.max()


def test_what_the_recipe_names_stays_as_it_was() -> None:
    """Digests of all batches, computed before lengths could be chosen."""
    for buckets, digest in (
            ((6, 9), "f12af8a13496661b41682e4dff012dd307a1c757550ae297b81e07733a9cf914"),
            ((), "fe38979456326d5b139026b3a665521ce0e8a6ebc60277bb7c15039ca3e0cf07")):
        source = batches([3 + 7 * number % 13 for number in range(53)], b=3, a=2, buckets=buckets)
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
